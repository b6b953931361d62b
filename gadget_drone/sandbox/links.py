"""Paths in which no component is a symbolic link: a command may have put a link where the sandbox wants to mount."""

import errno
import os
import stat
from contextlib import suppress

_PATH = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
Identity = tuple[int, int]
"""Device and inode."""


def open_without_links(path: str, root: str = "/") -> int:
    """A descriptor (`O_PATH`) of the absolute `path` below the directory `root`.

    Raises OSError, also for a link anywhere in `path`.
    """
    fd = os.open(root, _PATH | os.O_DIRECTORY)
    for name in filter(None, path.split("/")):
        try:
            below = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, f"{path} is a symbolic link")
    return fd


def identity_without_links(path: str, root: str = "/") -> Identity:
    """What is there. Raises OSError as `open_without_links`."""
    fd = open_without_links(path, root)
    try:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino
    finally:
        os.close(fd)


def exists_without_links(path: str, root: str = "/") -> bool:
    """Whether something is there, and no component of the path is a link."""
    try:
        identity_without_links(path, root)
    except OSError:
        return False
    return True


def give_back(directory: int) -> None:
    """Gives the directory's owner, who we are, the rights back that a command has taken."""
    found = os.fstat(directory)
    if found.st_uid == os.geteuid() and found.st_mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{directory}", stat.S_IMODE(found.st_mode) | 0o700)


def let_in(project: str, path: str) -> None:
    """Gives us back the rights that a command has taken from directories between the project and `path`."""
    for end in (*(at for at in range(len(project), len(path)) if path[at] == "/"), len(path)):
        with suppress(OSError):
            directory = open_without_links(path[:end])
            try:
                if stat.S_ISDIR(os.fstat(directory).st_mode):
                    give_back(directory)
            finally:
                os.close(directory)
