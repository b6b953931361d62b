"""The environment that programs started by the drone get: the drone's own, without what is secret in it."""

import os
import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"(GADGET|OPENAI|ANTHROPIC)_.*|TOKEN|SECRET|.*(API_?KEY|ACCESS_KEY|_TOKEN|_SECRET|PASSWORD|PASSPHRASE)", re.I
)

NO_PAGER = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}
"""A program that pages or prompts would wait for a person who is not there."""


def child_environment(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `own` (None: this process's environment) without variables that are named like secrets."""
    source = os.environ if own is None else own
    return {name: value for name, value in source.items() if not _SECRET.fullmatch(name)} | NO_PAGER
