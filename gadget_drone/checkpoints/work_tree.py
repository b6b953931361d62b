"""The project's files, reached from its directory one name at a time, so that no symlink leads out. All block."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

Seen = tuple[int, int, int, int, int] | None
"""What tells one state of a file from another; None: it is not there."""
_NO_NAMES = frozenset({b"", b".", b"..", b".git"})


class WorkTree:
    """Paths are bytes, relative to the project's directory, with `/` between names."""

    def __init__(self, project_dir: Path) -> None:
        self._root = os.open(project_dir, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def seen(self, path: bytes) -> Seen:
        found = self.find(path)
        if found is None or stat.S_ISDIR(found.st_mode):
            return None  # a directory is emptied, and replaced as if it were not there
        return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def find(self, path: bytes) -> os.stat_result | None:
        """None where nothing is, or only by way of a symlink. Raises OSError for what cannot be looked at."""
        try:
            with self._folder(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: bytes, at_most: int) -> tuple[bytes, bytes] | None:
        """The mode, as git writes it, and the content of a file or symlink; None where `find` finds neither.

        Raises OSError, EFBIG for more than `at_most` bytes.
        """
        # Without O_NONBLOCK, opening a pipe waits for its other end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            with self._folder(path) as (folder, name):
                try:
                    fd = os.open(name, flags, dir_fd=folder)
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise
                    return b"120000", os.readlink(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return None
            if found.st_size > at_most:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            mode = b"100755" if found.st_mode & 0o100 else b"100644"
            return mode, _content(fd, found.st_size, at_most)
        finally:
            os.close(fd)

    def is_readable(self, path: bytes) -> bool:
        try:
            with self._folder(path) as (folder, name):
                return os.access(name, os.R_OK, dir_fd=folder)
        except OSError:
            return False

    def obstacle(self, path: bytes, *, is_new: bool, removed: Set[bytes]) -> str | None:
        """Why the file cannot be replaced or removed, once those in `removed` are gone; None when it can.

        `is_new`: no snapshot knows a file there.
        """
        if not is_the_projects(path):
            return "it is not the project's"
        names = path.split(b"/")
        folder = os.dup(self._root)
        try:
            for depth, name in enumerate(names[:-1], 1):
                try:
                    inner = _open_folder(name, folder)
                except FileNotFoundError:
                    break  # it will be made
                except OSError as error:  # a file or a symlink
                    if b"/".join(names[:depth]) in removed:
                        break
                    return f"its directory cannot be entered ({error.strerror})"
                os.close(folder)
                folder = inner
            else:
                if is_new and (reason := self._in_the_way(folder, path, removed)) is not None:
                    return reason
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
                return "its directory is read-only"
        finally:
            os.close(folder)
        return None

    def remove(self, path: bytes) -> None:
        """Removes a file, and the directories that are empty without it."""
        with self._folder(path) as (folder, name):
            os.unlink(name, dir_fd=folder)
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            try:
                with self._folder(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return

    def replace(self, path: bytes, new: Path) -> None:
        """Puts the file or symlink `new` in its place; other permissions than to execute it stay as they are."""
        with self._folder(path, make=True) as (folder, name):
            with suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    _remove_empty(name, folder)
                elif stat.S_ISREG(found.st_mode) and not new.is_symlink():
                    new.chmod(_mode(found.st_mode, is_executable=bool(new.stat().st_mode & 0o100)))
            try:
                os.rename(new, name, dst_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _carry(new, folder, name)

    def _in_the_way(self, folder: int, path: bytes, removed: Set[bytes]) -> str | None:
        name = path.rpartition(b"/")[2]
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return "a file that no checkpoint has is in its place"
        inner = _open_folder(name, folder)
        try:
            return "a directory with other files is in its place" if _has_others(inner, path, removed) else None
        finally:
            os.close(inner)

    @contextmanager
    def _folder(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """The directory that a file is in, and its name there."""
        *above, name = path.split(b"/")
        folder = os.dup(self._root)
        try:
            for part in above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = _open_folder(part, folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)


def is_the_projects(path: bytes) -> bool:
    """Whether a checkpoint may hold it. The list of files in the user's git may name anything."""
    names = path.split(b"/")
    return names[0] != b".gadget" and not any(name.lower() in _NO_NAMES for name in names)


def _content(fd: int, size: int, at_most: int) -> bytes:
    """`size`: what is expected."""
    parts: list[bytes] = []
    while at_most >= 0 and (part := os.read(fd, size + 4096)):
        parts.append(part)
        at_most -= len(part)
    if at_most < 0:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return b"".join(parts)


def _open_folder(name: bytes | str, folder: int) -> int:
    """Raises NotADirectoryError for a symlink, too."""
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


def _has_others(folder: int, path: bytes, removed: Set[bytes]) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            below = path + b"/" + os.fsencode(entry.name)
            if not entry.is_dir(follow_symlinks=False):
                if below not in removed:
                    return True
                continue
            inner = _open_folder(entry.name, folder)
            try:
                if _has_others(inner, below, removed):
                    return True
            finally:
                os.close(inner)
    return False


def _remove_empty(name: bytes | str, folder: int) -> None:
    """Removes a directory that has nothing but directories. Raises OSError when there is more in it."""
    inner = _open_folder(name, folder)
    try:
        for below in os.listdir(inner):
            _remove_empty(below, inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _mode(old: int, *, is_executable: bool) -> int:
    """Who may read it may execute it."""
    mode = old & 0o666
    return mode | 0o100 | (mode & 0o444) >> 2 if is_executable else mode


def _carry(new: Path, folder: int, name: bytes) -> None:
    """As a rename, from another disk."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    place = f"/proc/self/fd/{folder}/{temporary}" if os.path.isdir("/proc/self/fd") else f"/dev/fd/{folder}/{temporary}"
    shutil.copy2(new, place, follow_symlinks=False)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
