"""Saving, renaming and deleting: nothing is lost that was not looked at."""

import base64
import binascii
import hashlib
import os
import shutil
import stat
from pathlib import Path, PurePosixPath

from gadget_api.errors import Conflict, ErrorCode, InvalidInput, NotAllowed, TooLarge
from gadget_api.files import MAX_WRITTEN_BYTES, DeletedFiles, SavedFile
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import beside, find_stat, rename_new
from gadget_drone.errors import ToolError
from gadget_drone.files.places import Place, changed, check_regular, check_version, is_hidden, place_of

MAX_DELETED_FILES = 10_000
"""With one request: more at once is what a terminal is for."""
_MAX_DEPTH = 100


def decoded(data: str) -> bytes:
    """The bytes of base64, `MAX_WRITTEN_BYTES` at most. Raises InvalidInput."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("The content is no base64.") from None
    if len(content) > MAX_WRITTEN_BYTES:
        raise TooLarge(f"A file that is saved may have {MAX_WRITTEN_BYTES // 2**20} MiB; change it in a terminal.")
    return content


def save(root: Path, path: str, content: bytes, version: str | None) -> SavedFile:
    """Replaces the file that is `version`, or makes one where nothing is (null), and directories above it. At no moment
    is there half of one. It keeps its mode. Blocks. Raises ToolError, GadgetError."""
    try:
        with place_of(root, path, make_parents=version is None) as place:
            if version is None:
                _make(place, path, content)
            else:
                _replace(place, path, content, version)
    except ToolError as error:
        if version is not None and error.code is ErrorCode.NOT_FOUND:  # the directory is gone, too
            raise changed(path) from error
        raise
    return SavedFile(path=path, version=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def _make(place: Place, path: str, content: bytes) -> None:
    if find_stat(place.directory, place.name) is not None:
        raise _exists(path)
    try:
        with beside(place.directory, content, None, sync=False) as temporary:
            rename_new(place.directory, temporary, place.directory, place.name)
    except FileExistsError:
        raise _exists(path) from None


def _replace(place: Place, path: str, content: bytes, version: str) -> None:
    old = find_stat(place.directory, place.name)
    if old is None:
        raise changed(path)
    check_regular(old, path)
    with beside(place.directory, content, old, sync=False) as temporary:
        check_version(place, version, path)
        os.replace(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)


def rename(root: Path, path: str, to: str) -> None:
    """Gives what is at `path`, a symlink itself, the name `to`, and makes the directories above that. Blocks. Raises
    ToolError, GadgetError: `alreadyExists` where something is."""
    if PurePosixPath(to).is_relative_to(path):
        raise InvalidInput("Nothing can be moved to where it is, or into itself: choose another name.")
    with place_of(root, path) as source:
        os.stat(source.name, dir_fd=source.directory, follow_symlinks=False)
        with place_of(root, to, make_parents=True) as target:
            try:
                rename_new(source.directory, source.name, target.directory, target.name)
            except FileExistsError:
                raise _exists(to) from None


def delete(root: Path, path: str, version: str | None, *, recursive: bool) -> DeletedFiles:
    """Removes a file, a symlink itself, or with `recursive` a directory of `MAX_DELETED_FILES` at most. Blocks. Raises
    ToolError, GadgetError; then nothing is gone, unless the file system itself fails in the middle."""
    with place_of(root, path) as place:
        found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            if version is not None:
                check_version(place, version, path)
            os.unlink(place.name, dir_fd=place.directory)
            return DeletedFiles(path=path, file_count=1)
        if not recursive:
            raise InvalidInput(f"{quoted(path)} is a directory: say `recursive=true` to delete all that is in it.")
        count = _counted(place, path)
        shutil.rmtree(place.name, dir_fd=place.directory)
        return DeletedFiles(path=path, file_count=count)


def _counted(place: Place, path: str) -> int:
    """The files below a directory. Raises GadgetError where they may not all be deleted."""
    files = seen = 0
    for directory, below, names, fd in os.fwalk(place.name, dir_fd=place.directory, onerror=_raised):
        if any(map(is_hidden, (*below, *names))):
            raise NotAllowed(f"There is a .git or .gadget in {quoted(path)}: delete it in a terminal.")
        if {"HEAD", "objects", "refs"} <= {*below, *names}:
            raise NotAllowed(f"There is a git directory in {quoted(path)}: delete it in a terminal.")
        links = [name for name in below if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)]
        files += len(names) + len(links)
        seen += len(names) + len(below)
        if seen > MAX_DELETED_FILES or directory.count("/") >= _MAX_DEPTH:
            raise TooLarge(f"There is more in {quoted(path)} than is deleted here: delete it in a terminal.")
    return files


def _raised(error: OSError) -> None:
    raise error


def _exists(path: str) -> Conflict:
    return Conflict(ErrorCode.ALREADY_EXISTS, f"There is something at {quoted(path)} already: choose another name.")
