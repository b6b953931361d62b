"""Paths in which no component is a symbolic link: a command may have put a link where the sandbox wants to mount."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

_PATH = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""The errors that say: nothing is there, or a link. A missing right does not say so."""
PATH_MAX = 4096
"""The bytes of a path that Linux takes, with the zero at its end. Descriptors reach what is deeper."""
_NAME_MAX = 255
_TRIES = 100
"""A job that takes a right away again and again wins some of them."""
Identity = tuple[int, int]
"""Device and inode."""


def open_without_links(path: str, root: str = "/") -> int:
    """A descriptor (`O_PATH`) of the absolute `path` below the directory `root`. Gives back rights on the way.

    Raises OSError, also for a link anywhere in `path`.
    """
    fd = os.open(root, _PATH | os.O_DIRECTORY)
    for name in filter(None, path.split("/")):
        try:
            below = _open(name, _PATH | os.O_NOFOLLOW, fd)
        finally:
            os.close(fd)
        fd = below
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, f"{path} is a symbolic link")
    return fd


def open_directory(name: str, directory: int) -> int:
    """A descriptor to list `name` in another directory. Gives back rights. Raises OSError, also for a link."""
    try:
        return os.open(name, _LIST, dir_fd=directory)
    except PermissionError:
        fd = _open(name, _PATH | os.O_DIRECTORY | os.O_NOFOLLOW, directory)
    try:
        return _open(".", _LIST, fd)
    finally:
        os.close(fd)


def _open(name: str, flags: int, directory: int) -> int:
    for _ in range(_TRIES):
        try:
            return os.open(name, flags, dir_fd=directory)
        except PermissionError:
            if not give_back(directory):
                raise
    raise OSError(errno.EBUSY, "a job changes the rights of a directory all the time: end the job")


def identity_without_links(path: str, root: str = "/") -> Identity:
    """What is there. Raises OSError as `open_without_links`."""
    fd = open_without_links(path, root)
    try:
        return _identity(fd)
    finally:
        os.close(fd)


def _identity(fd: int) -> Identity:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def exists_without_links(path: str, root: str = "/") -> bool:
    """Whether something is there, and no component of the path is a link. True where that cannot be found out."""
    try:
        identity_without_links(path, root)
    except OSError as error:
        return error.errno not in GONE
    return True


def give_back(directory: int) -> bool:
    """Gives the directory's owner the rights back that a command has taken; returns whether we are the owner."""
    found = os.fstat(directory)
    is_ours = found.st_uid == os.geteuid()
    if is_ours and found.st_mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{directory}", stat.S_IMODE(found.st_mode) | 0o700)
    return is_ours


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


def walk(top: str, enters: Callable[[str], bool]) -> Iterator[tuple[int, str, list[os.DirEntry[str]]]]:
    """The directory at the absolute path `top`, and those below it that it `enters`, by their paths in `top`.

    Each is a descriptor, open for this step, its path with a slash at the end, and what is in it. By descriptors, so
    that no link leads elsewhere and no depth ends it: it goes as deep as a path can name. Gives back rights. Leaves
    out what is gone meanwhile, and what another account has closed. Raises OSError for the rest, and without `top`.
    """
    fd = open_without_links(top)
    try:
        directory = open_directory(".", fd)
    finally:
        os.close(fd)
    inside = ""
    levels: list[tuple[str, Identity, list[str]]] = []  # of those above: what is still to be entered
    try:
        while True:
            with os.scandir(directory) as found:
                entries = list(found)
            yield directory, inside, entries
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            names = [name for name in names if len(inside) + len(name) < PATH_MAX and enters(f"{inside}{name}")]
            levels.append((inside, _identity(directory), names))
            below = None
            while below is None:
                inside, identity, names = levels[-1]
                back = directory if _identity(directory) == identity else _back(directory, f"{top}/{inside}", identity)
                if back is not None and back != directory:
                    os.close(directory)
                    directory = back
                if back is None or not names:
                    levels.pop()
                    if not levels:
                        return
                else:
                    name = names.pop()
                    below = _open_unless_gone(name, directory)
                    inside = f"{inside}{name}/"
            os.close(directory)
            directory = below
    finally:
        os.close(directory)


def _open_unless_gone(name: str, directory: int) -> int | None:
    try:
        return open_directory(name, directory)
    except OSError as error:
        if error.errno not in (*GONE, errno.EACCES):
            raise
        return None


def _back(directory: int, path: str, identity: Identity) -> int | None:
    """The directory above, which was at `path`. A job may have moved the one below it, or removed it."""
    with suppress(OSError):
        above = open_directory("..", directory)
        if _identity(above) == identity:
            return above
        os.close(above)
    with suppress(OSError):
        way = open_without_links(path)
        try:
            if _identity(way) == identity:
                return open_directory(".", way)
        finally:
            os.close(way)
    return None


def is_git_directory(path: str) -> bool:
    """Whether git would take the directory `path`, which is no link, for a git directory, whatever its name: a bare
    repository, or a `.git` that is elsewhere (`git init --separate-git-dir`). True where that cannot be found out."""
    return not os.path.islink(path) and names_git_directory(lambda name: _may_exist(f"{path}/{name}"))


def names_git_directory(has: Callable[[str], bool]) -> bool:
    """Whether git would take a directory that `has` such names for a git directory. Of `objects` and `refs` it asks the
    right to enter them alone, which a file may give as well."""
    return has("HEAD") and ((has("objects") and has("refs")) or has("commondir"))


def _may_exist(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # no name may be so long, a path may
            return all(len(os.fsencode(name)) <= _NAME_MAX for name in path.split("/"))
        return error.errno not in GONE
    return True
