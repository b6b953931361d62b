"""The repositories in a project besides its own: submodules, repositories that somebody put there, bare ones."""

import logging
from pathlib import Path, PurePosixPath

from gadget_drone.sandbox.repositories import is_git_directory
from gadget_drone.tools.ripgrep import ripgrep
from gadget_drone.tools.tool import ToolError

log = logging.getLogger(__name__)

MAX_FOUND = 1000
_GIT_FILES = ("--files", "--null", "--hidden", "--no-ignore", "--glob=**/HEAD", "--glob=**/.git", "--glob=!/.gadget")


async def nested_repositories(project_dir: Path) -> list[str]:
    """Their git directories, and the `.git` files that name one elsewhere, as absolute paths; at most 1,000.

    What is in another git directory is not listed, nor is the project's own.
    """
    root = project_dir.resolve()
    found: list[str] = []

    def take(name: str) -> bool:
        path = PurePosixPath(name)
        place = path if path.name == ".git" else path.parent
        if ".git" not in place.parts[:-1] and str(place) not in (".git", "."):
            full = str(root / place)
            if path.name == ".git" or is_git_directory(full):
                found.append(full)
        return len(found) < MAX_FOUND

    try:
        await ripgrep(_GIT_FILES, root, separator=b"\0", take=take)
    except ToolError as error:
        log.warning(
            "Repositories in %s are not all known, and commands may change their configuration: %s", root, error
        )
    return sorted(found)
