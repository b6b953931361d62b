"""What is in one directory."""

import os
import stat
from contextlib import ExitStack
from itertools import islice
from pathlib import Path, PurePosixPath

from gadget_api.errors import GadgetError
from gadget_api.events import MAX_EVENT_BYTES
from gadget_api.files import MAX_LISTED_ENTRIES, FileEntry, FileKind, FileList
from gadget_drone.disk.confined import errors_of, open_beneath, relative
from gadget_drone.files.places import check_shown, is_hidden, wire_size
from gadget_drone.git.clone import ask_git

_MAX_READ_ENTRIES = 20_000
"""Of a directory that is larger, which are shown is its file system's choice."""
_MAX_ANSWER_BYTES = MAX_EVENT_BYTES - 50_000
_ENTRY_BYTES = 140
"""Of an entry in JSON, without its name and path."""
_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.DIRECTORY, stat.S_IFLNK: FileKind.SYMLINK}


def listed(root: Path, path: str) -> FileList:
    """The directory at a checked `path`, without `.git` and `.gadget`. Blocks. Raises ToolError, GadgetError."""
    with errors_of(path), ExitStack() as stack:
        directory, real = open_beneath(root, relative(root, path), os.O_RDONLY | os.O_DIRECTORY, stack)
        check_shown(root, real, path)
        with os.scandir(directory) as entries:
            found = [_entry(root, path, entry) for entry in islice(entries, _MAX_READ_ENTRIES + 1)]
    shown = sorted(
        (entry for entry in found[:_MAX_READ_ENTRIES] if not is_hidden(entry.name)),
        key=lambda entry: (not entry.is_directory, entry.name.casefold(), entry.name),
    )
    fitting = shown[: _fitting(shown)]
    ignored = _ignored(root, [entry.path for entry in fitting if entry.kind is not FileKind.OTHER])
    return FileList(
        path=path,
        entries=tuple(entry.replace(is_ignored=True) if entry.path in ignored else entry for entry in fitting),
        truncated=len(fitting) < len(shown) or len(found) > _MAX_READ_ENTRIES,
    )


def _entry(root: Path, path: str, entry: os.DirEntry[str]) -> FileEntry:
    name = os.fsencode(entry.name).decode("utf-8", "replace")
    place = f"{path}/{name}" if path else name
    if name != entry.name:  # no path of the wire names it
        return FileEntry(name=name, path=place, kind=FileKind.OTHER)
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # it is gone
        return FileEntry(name=name, path=place, kind=FileKind.OTHER)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), FileKind.OTHER)
    return FileEntry(
        name=name,
        path=place,
        kind=kind,
        is_directory=kind is FileKind.DIRECTORY or (kind is FileKind.SYMLINK and _leads_to_directory(root, place)),
        size_bytes=found.st_size if kind is FileKind.FILE else None,
    )


def _leads_to_directory(root: Path, path: str) -> bool:
    with ExitStack() as stack:
        try:
            _, real = open_beneath(root, PurePosixPath(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK, stack)
        except OSError:
            return False
        return not any(map(is_hidden, real.relative_to(root.resolve()).parts))


def _fitting(entries: list[FileEntry]) -> int:
    """How many of them, from the first, fit one answer."""
    size = 0
    for count, entry in enumerate(entries[:MAX_LISTED_ENTRIES]):
        size += _ENTRY_BYTES + wire_size(entry.name) + wire_size(entry.path)
        if size > _MAX_ANSWER_BYTES:
            return count
    return min(len(entries), MAX_LISTED_ENTRIES)


def _ignored(root: Path, paths: list[str]) -> frozenset[str]:
    """Those that git ignores: none of them where it cannot say."""
    if not paths:
        return frozenset()
    # With `./`, for a path that begins with a colon would be a pattern.
    feed = b"".join(b"./" + path.encode() + b"\0" for path in paths)
    try:
        said = ask_git(root, "check-ignore", "--stdin", "-z", feed=feed)
    except GadgetError:
        return frozenset()
    return frozenset(path.removeprefix("./") for path in (said or "").split("\0"))
