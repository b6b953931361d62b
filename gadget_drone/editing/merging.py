"""Three-way merging, by git. Blocks."""

import os
import subprocess
import tempfile
from pathlib import Path

from gadget_drone.errors import ToolError
from gadget_drone.git.settings import git_environment
from gadget_drone.processes.programs import program

_TIMEOUT_S = 20.0
_MAX_CONFLICTS = 127
"""What git answers at most for conflicts; above is failure: git's builtin/merge-file.c."""


def merged(ours: str, base: str, theirs: str) -> str | None:
    """What comes of both changes of `base`; None where they touch each other.

    Raises `ToolError` when git is missing or fails. The files it needs are outside of the project.
    """
    with tempfile.TemporaryDirectory(prefix="gadget-merge-") as directory:
        names = []
        for name, text in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(directory) / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            names.append(name)
        try:
            ran = subprocess.run(
                [program("git"), "merge-file", "-p", "-q", *names],
                cwd=directory,
                env=git_environment() | {"GIT_CEILING_DIRECTORIES": os.path.dirname(directory)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError("The change could not be merged with the one on disk: read the file again.") from error
    if ran.returncode > _MAX_CONFLICTS or ran.returncode < 0:
        raise ToolError("The change could not be merged with the one on disk: read the file again.")
    return ran.stdout.decode("utf-8", "surrogatepass") if ran.returncode == 0 else None
