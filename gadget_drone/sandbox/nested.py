"""The repositories in a project besides its own: submodules, repositories that somebody put there, bare ones."""

import asyncio
import errno
import os
from pathlib import Path, PurePosixPath

from gadget_drone.sandbox.links import let_in
from gadget_drone.sandbox.repositories import is_git_directory, is_git_file
from gadget_drone.supervised import NotStarted
from gadget_drone.tools.ripgrep import ripgrep

MAX_FOUND = 2_000
"""Far more than a project has; each costs a look before each command."""
_FILES = ("**/.git", "**/.git/config", "**/HEAD")
"""A `.git` file; what a command cannot take away from a protected git directory; what a bare repository has."""
_LIST = ("--files", "--null", "--hidden", "--no-ignore", *(f"--glob={name}" for name in _FILES), "--glob=!/.gadget")
_NOT_ALL_READ = 2
"""Ripgrep's exit status, also where it found something."""


async def nested_repositories(project_dir: Path) -> list[str]:
    """Their git directories, and the `.git` files that name one elsewhere, as absolute paths.

    What is in another git directory is not listed, nor is the project's own. Raises NotStarted where there are too
    many, for then some would not be protected, and ToolError where they cannot be looked for.
    """
    root = project_dir.resolve()
    found: dict[str, None] = {}

    def take(name: str) -> bool:
        path = PurePosixPath(name)
        place = path if path.name == ".git" else path.parent
        if ".git" not in place.parts[:-1] and str(place) not in (".git", "."):
            full = str(root / place)
            if is_git_directory(full) or (place.name == ".git" and is_git_file(full)):
                found[full] = None
        return len(found) <= MAX_FOUND

    ran = await ripgrep(_LIST, root, separator=b"\0", take=take, decode=os.fsdecode)
    if ran.complete and ran.status >= _NOT_ALL_READ:
        await asyncio.to_thread(_open, str(root))
        ran = await ripgrep(_LIST, root, separator=b"\0", take=take, decode=os.fsdecode)
        if ran.complete and ran.status not in (0, 1, _NOT_ALL_READ):
            raise NotStarted(errno.EIO, f"git repositories in {root} cannot be looked for: ripgrep was ended")
    if len(found) > MAX_FOUND:
        raise NotStarted(
            errno.E2BIG,
            f"there are more than {MAX_FOUND:,} git repositories in {root}, and the sandbox cannot protect them all. "
            "Tell the user: remove those that are not needed, or start the drone in a part of the project",
        )
    return sorted(found)


def _open(root: str) -> None:
    """Gives us back the rights that a command has taken from directories. What others own no command can change.

    Raises NotStarted for what cannot be read for another reason.
    """

    def refuse(error: OSError) -> None:
        if error.errno not in (errno.EACCES, errno.ENOENT, errno.ENOTDIR):
            why = f"git repositories cannot be looked for in {error.filename:.200}: {error.strerror}. Tell the user"
            raise NotStarted(error.errno, why)

    for folder, names, _ in os.walk(root, onerror=refuse):
        for name in names:
            if not os.access(f"{folder}/{name}", os.R_OK | os.X_OK):
                let_in(root, f"{folder}/{name}")
