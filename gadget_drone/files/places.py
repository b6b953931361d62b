"""Where a path of a person's leads: into the project, and not into what is kept from there."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import orjson

from gadget_api.errors import Conflict, ErrorCode, InvalidInput, NotAllowed
from gadget_api.files import MAX_READ_BYTES
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import PROTECTED, check_unprotected, errors_of, open_directory, relative

_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True)
class Place:
    """A name in a directory that is open: there may be nothing, and what is there is not followed."""

    directory: int
    """Its descriptor, open without rights to read."""
    name: str


def checked(path: str) -> str:
    """`path` in its one form, empty for the project itself. Raises InvalidInput."""
    given = PurePosixPath(path)
    if given.is_absolute() or ".." in given.parts:
        raise InvalidInput("A path is relative to the project, and has no `..`: name it from the project's root.")
    if "\0" in path or not _is_unicode(path):
        raise InvalidInput("A path is UTF-8 without a NUL character.")
    return "" if given == PurePosixPath() else str(given)


@contextmanager
def place_of(root: Path, path: str, *, make_parents: bool = False) -> Iterator[Place]:
    """The place of a checked `path` that is to be changed. Raises ToolError, InvalidInput for the project itself."""
    given = relative(root, path)
    if not given.name:
        raise InvalidInput("This is the project itself: name what is in it.")
    with errors_of(path), ExitStack() as stack:
        directory, parent = open_directory(root, given.parent, stack, make=make_parents)
        check_unprotected(root, parent / given.name, path)
        yield Place(directory, given.name)


def check_shown(root: Path, real: Path, path: str) -> None:
    """Raises NotAllowed for what is hidden from a person, too: `.git` may hold credentials, `.gadget` is ours."""
    if any(is_hidden(part) for part in real.relative_to(root.resolve()).parts):
        raise NotAllowed(f"{quoted(path)} is not shown here: open it in a terminal.")


def is_hidden(name: str) -> bool:
    return name.casefold() in PROTECTED


def wire_size(text: str) -> int:
    """Bytes of a text in JSON."""
    return len(orjson.dumps(text))


def version_of(fd: int) -> str:
    """The SHA-256 of an open regular file, of `MAX_READ_BYTES` of it at most. Does not move its position."""
    digest = hashlib.sha256()
    at = 0
    while at <= MAX_READ_BYTES and (piece := os.pread(fd, _PIECE_BYTES, at)):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def check_version(place: Place, version: str, path: str) -> os.stat_result:
    """What is at the place, a regular file of this version. Raises Conflict `fileChanged`, InvalidInput, OSError."""
    try:
        fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.directory)
    except FileNotFoundError:
        raise changed(path) from None
    try:
        found = os.fstat(fd)
        check_regular(found, path)
        if found.st_size > MAX_READ_BYTES or version_of(fd) != version:
            raise changed(path)
        return found
    finally:
        os.close(fd)


def check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise InvalidInput(f"{quoted(path)} is a directory.")
    if stat.S_ISLNK(found.st_mode):
        raise InvalidInput(f"{quoted(path)} is a symlink: open what it points at.")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"{quoted(path)} is not a regular file.")


def changed(path: str) -> Conflict:
    return Conflict(
        ErrorCode.FILE_CHANGED,
        f"{quoted(path)} was changed or removed on disk meanwhile: load it again.",
        retryable=True,
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
