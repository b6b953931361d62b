"""The environment that programs started by the drone get: the drone's own, without what is secret in it."""

import os
import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"(GADGET|OPENAI|ANTHROPIC)_.*|TOKEN|SECRET|.*(API_?KEY|ACCESS_KEY|_TOKEN|_SECRET|PASSWORD|PASSPHRASE)", re.I
)
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
    """A copy of `own` (None: this process's environment) without variables that are named like secrets."""
    source = os.environ if own is None else own
    kept = {
        name: value for name, value in source.items() if not _SECRET.fullmatch(name) and name not in _READ_DIFFERENTLY
    }
    return kept | NO_PAGER | _git_settings(kept.get("GIT_CONFIG_COUNT", ""))


def _git_settings(count: str) -> dict[str, str]:
    """As git reads them from the environment, behind the `count` that are there: the last one counts."""
    there = int(count) if count.isascii() and count.isdigit() else 0
    settings = {"GIT_CONFIG_COUNT": str(there + len(GIT_SETTINGS))}
    for number, (key, value) in enumerate(GIT_SETTINGS.items(), there):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings
