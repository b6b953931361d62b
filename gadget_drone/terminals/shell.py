"""The shell of a terminal: which, and in what environment. It is the user's own: no sandbox, and of what the drone was
started with only its own settings are left out."""

import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path

_TAKE_LOGIN = frozenset({"bash", "zsh", "sh", "dash", "ash", "ksh", "mksh", "fish", "tcsh", "csh", "nu"})
"""Shells that know `-l`: a drone is often started by what has read no profile."""
_OF_ANOTHER_TERMINAL = frozenset(
    {"COLUMNS", "LINES", "WINDOWID", "TMUX", "TMUX_PANE", "STY", "SHLVL", "OLDPWD", "PWD", "_", "VTE_VERSION"}
    | {"TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WT_SESSION", "KONSOLE_VERSION", "INSIDE_EMACS"}
)


def shell_command(own: Mapping[str, str] = os.environ) -> list[str]:
    """The user's shell, as a login shell where it knows how to be one; its path comes first."""
    for path in (own.get("SHELL"), _of_account(), "/bin/bash"):
        if path and os.path.isabs(path) and os.access(path, os.X_OK):
            break
    else:
        path = "/bin/sh"
    return [path, "-l"] if Path(path).name in _TAKE_LOGIN else [path]


def shell_environment(own: Mapping[str, str] = os.environ, prefix: str | None = None) -> dict[str, str]:
    """`own` without the drone's settings, which are secret in part, without its virtual environment (`prefix`; None:
    this interpreter's, if any), and without what tells of the terminal that it was started in."""
    if prefix is None and sys.prefix != sys.base_prefix:
        prefix = sys.prefix
    kept = {
        name: value
        for name, value in own.items()
        if not name.startswith("GADGET_") and name not in _OF_ANOTHER_TERMINAL
    }
    if prefix is not None:
        kept["PATH"] = os.pathsep.join(
            place for place in kept.get("PATH", os.defpath).split(os.pathsep) if place != f"{prefix}/bin"
        )
        if kept.get("VIRTUAL_ENV") == prefix:
            for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PS1"):
                kept.pop(name, None)
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TERM_PROGRAM": "gadget"}


def _of_account() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return None
