"""The environment that programs started by the drone get: the drone's own, without what is secret in it."""

import os
import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"(GADGET|OPENAI|ANTHROPIC)_.*"
    r"|.*(SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|AUTH_CONFIG|(API|PRIVATE|ACCESS|MASTER)_?KEY).*"
    r"|.+PWD|(.*(SSH|_))?PASS|(.*_)?PAT|.*_(KEY|AUTH|DSN)",
    re.I,
)
_NO_SECRET = re.compile(r"OLDPWD|TOKENIZERS_.*", re.I)
_URL_WITH_PASSWORD = re.compile(r"://[^\s/?#@:]*:[^\s@]+@|https?://[^\s/?#@]+@", re.I)
"""Anywhere in a value, as in a list of addresses; with http, a name alone is a token."""
_PROXY = re.compile(r"(https?|ftp|all)_proxy", re.I)
"""Kept with its password: without it neither a clone nor a command reaches the network."""
_GIT_SECRET = re.compile(r"(http|credential|url)\..*", re.I | re.S)
"""Keys of git's configuration: headers, helpers, and addresses with a password."""
_GIT_PAIR = re.compile(r"GIT_CONFIG_(KEY|VALUE)_\d+|GIT_CONFIG_(COUNT|PARAMETERS)")
_READ_DIFFERENTLY = frozenset({"POSIXLY_CORRECT", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH"})
"""With these, programs read their arguments in another way than `permissions` does, or take more of them."""

NO_PAGER = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}
"""A program that pages or prompts would wait for a person who is not there."""
GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
}
"""Of every git that a command starts, above the settings of any repository. A repository without a work tree may lie
among the project's files, and its configuration may name programs: git does not use it unasked. No program that watches
files, no pager and no editor starts. An empty `diff.external` is not among them: git 2.39 takes it for a program."""


def child_environment(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `own` (None: this process's environment) without variables that look like secrets."""
    source = os.environ if own is None else own
    kept = {name: value for name, value in source.items() if not _is_left_out(name, value)}
    return kept | NO_PAGER | _git_settings(source)


def _is_left_out(name: str, value: str) -> bool:
    return name in _READ_DIFFERENTLY or _GIT_PAIR.fullmatch(name) is not None or _is_secret(name, value)


def _is_secret(name: str, value: str) -> bool:
    if _SECRET.fullmatch(name):
        return not _NO_SECRET.fullmatch(name)
    return _URL_WITH_PASSWORD.search(value) is not None and not _PROXY.fullmatch(name)


def _git_settings(source: Mapping[str, str]) -> dict[str, str]:
    """As git reads them from the environment: those of `source` without secrets, and ours behind them, for the last one
    counts."""
    count = source.get("GIT_CONFIG_COUNT", "")
    numbers = range(int(count) if count.isascii() and count.isdigit() else 0)
    pairs = [(source.get(f"GIT_CONFIG_KEY_{number}"), source.get(f"GIT_CONFIG_VALUE_{number}")) for number in numbers]
    kept = [
        (key, value)
        for key, value in pairs
        if key and value is not None and not _GIT_SECRET.fullmatch(key) and not _is_secret(key, value)
    ]
    kept += GIT_SETTINGS.items()
    settings = {"GIT_CONFIG_COUNT": str(len(kept))}
    for number, (key, value) in enumerate(kept):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings
