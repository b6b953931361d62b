"""Where the drone finds the programs that it runs outside of the sandbox.

A command can write a program into its project. A PATH with `.venv/bin` of the project, with a relative entry or with an
empty one would lead the drone to it. So only absolute entries count, and nothing that lies in a workspace.
"""

import errno
import os
import shutil
import sys
from pathlib import Path

_workspaces: set[str] = set()
"""Where this process runs no program. It only grows: a drone adds its one workspace when it opens it."""


def keep_out_of(workspace: Path) -> None:
    """From now on no program in `workspace` is found."""
    _workspaces.add(os.path.realpath(workspace))


def search_path() -> str:
    """PATH without the entries that a command could fill."""
    return os.pathsep.join(
        place for place in os.get_exec_path() if os.path.isabs(place) and not _is_in_workspace(place)
    )


def find_program(name: str) -> str | None:
    """The absolute path of a program; None where there is none, or only such as a command could have written."""
    for place in search_path().split(os.pathsep):
        found = shutil.which(name, path=place) if place else None
        if found is not None and not _is_in_workspace(found):
            return found
    return None


def is_found_outside(name: str) -> bool:
    """Whether a shell that looks the program up in the whole of PATH comes to it before an entry that a command could
    fill."""
    for place in os.get_exec_path():
        if not os.path.isabs(place) or _is_in_workspace(place):
            return False
        if (found := shutil.which(name, path=place)) is not None:
            return not _is_in_workspace(found)
    return False


def find_beside_python(name: str) -> str | None:
    """As `find_program`, for what a wheel brings along."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) and not _is_in_workspace(beside) else None


def find_ripgrep() -> str | None:
    """Its binary: the `ripgrep` wheel's, beside the interpreter, or the one on PATH."""
    return find_beside_python("rg") or find_program("rg")


def program(name: str) -> str:
    """As `find_program`. Raises FileNotFoundError."""
    found = find_program(name)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return found


def _is_in_workspace(path: str) -> bool:
    """Whether `path` is, or leads, into a workspace."""
    places = (os.path.normpath(path), os.path.realpath(path))
    return any(place == own or place.startswith(f"{own}/") for own in _workspaces for place in places)
