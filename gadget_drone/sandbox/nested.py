"""The repositories in a project besides its own: submodules, repositories that somebody put there, bare ones."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

from gadget_drone.disk.links import is_git_directory, names_git_directory, walk
from gadget_drone.processes.supervised import NotStarted
from gadget_drone.sandbox.repositories import is_git_file

MAX_FOUND = 2_000
"""Far more than a project has; each costs a look before each command."""


async def nested_repositories(project_dir: Path) -> list[str]:
    """Their git directories, and the `.git` files that name one elsewhere, as absolute paths.

    What is in another `.git` is not listed, nor is the project's own. Raises NotStarted where there are too many, for
    then some would not be protected, and where they cannot be looked for.
    """
    return await asyncio.to_thread(_nested_repositories, project_dir.resolve())


def _nested_repositories(root: Path) -> list[str]:
    found: list[str] = []
    try:
        for path in git_directories(str(root)):
            found.append(path)
            if len(found) > MAX_FOUND:
                raise NotStarted(
                    errno.E2BIG,
                    f"there are more than {MAX_FOUND:,} git repositories in {root}, and the sandbox cannot protect "
                    "them all. Tell the user: remove those that are not needed, or start the drone in a part of the "
                    "project",
                )
    except NotStarted:
        raise
    except OSError as error:
        why = f"git repositories in {root} cannot be looked for: {error.strerror}. Tell the user"
        raise NotStarted(error.errno, why) from error
    return sorted(found)


def git_directories(root: str) -> Iterator[str]:
    """Those below the directory `root`, the `.git` files that name one, and the links that are called `.git`. Not the
    `.git` of `root`, and not what is in a `.git`. Blocks. Raises OSError."""
    for _, inside, entries in walk(root, lambda path: path != ".gadget" and path.rpartition("/")[2] != ".git"):
        names = {entry.name: entry for entry in entries}
        if not inside:
            continue
        here = f"{root}/{inside}"
        if names_git_directory(names.__contains__):
            yield here.removesuffix("/")
        if (git := names.get(".git")) is not None and (
            git.is_symlink() or (is_git_directory if git.is_dir() else is_git_file)(f"{here}.git")
        ):
            yield f"{here}.git"
