"""The repositories in a project besides its own: submodules, repositories that somebody put there, bare ones."""

import os
from pathlib import Path, PurePosixPath

from gadget_drone.sandbox.repositories import is_git_directory
from gadget_drone.tools.ripgrep import ripgrep

MAX_FOUND = 500
_FILES = ("**/.git", "**/.git/config", "**/HEAD")
"""A `.git` file; what a command cannot take away from a protected git directory; what a bare repository has."""
_LIST = ("--files", "--null", "--hidden", "--no-ignore", *(f"--glob={name}" for name in _FILES), "--glob=!/.gadget")


async def nested_repositories(project_dir: Path) -> list[str]:
    """Their git directories, and the `.git` files that name one elsewhere, as absolute paths; at most 500.

    What is in another git directory is not listed, nor is the project's own. Raises ToolError where they cannot be
    looked for.
    """
    root = project_dir.resolve()
    found: dict[str, None] = {}

    def take(name: str) -> bool:
        path = PurePosixPath(name)
        place = path if path.name == ".git" else path.parent
        if ".git" not in place.parts[:-1] and str(place) not in (".git", "."):
            full = str(root / place)
            if place.name == ".git" or is_git_directory(full):
                found[full] = None
        return len(found) < MAX_FOUND

    await ripgrep(_LIST, root, separator=b"\0", take=take, decode=os.fsdecode)
    return sorted(found)
