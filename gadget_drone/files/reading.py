"""Reading a file piece by piece, all pieces of one version."""

import base64
import os
import threading
import time
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

from gadget_api.commands import MAX_CHUNK_BYTES, FileRead
from gadget_api.errors import TooLarge
from gadget_api.files import MAX_READ_BYTES
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import errors_of, open_beneath, relative
from gadget_drone.files.places import changed, check_regular, check_shown, version_of

Stamp = tuple[int, int, int, int, int]
"""What the system says of a file that changes with its content: device, inode, size, and two times in ns."""
_MAX_KEPT = 256
_SETTLED_S = 2.0
"""Two changes within one tick of the file system's clock (10 ms, some count whole seconds) leave the same stamp."""


class Versions:
    """The versions of files that were read: each is hashed once, and not once for each piece. Safe from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Stamp, str] = OrderedDict()
        """The one that was asked for last is last."""

    def of(self, fd: int, stamp: Stamp) -> str:
        with self._lock:
            if stamp in self._kept:
                self._kept.move_to_end(stamp)
                return self._kept[stamp]
        is_settled = time.time() - stamp[4] / 1e9 > _SETTLED_S
        version = version_of(fd)
        if is_settled:
            with self._lock:
                self._kept[stamp] = version
                while len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
        return version


def read(root: Path, path: str, offset: int, version: str | None, versions: Versions) -> FileRead:
    """The piece at `offset`. Blocks. Raises ToolError, GadgetError: `fileChanged` when the file is not `version`, or is
    written to just now."""
    with errors_of(path), ExitStack() as stack:
        # Without O_NONBLOCK, opening a FIFO waits for its other end.
        fd, real = open_beneath(root, relative(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, stack)
        check_shown(root, real, path)
        found = os.fstat(fd)
        check_regular(found, path)
        if found.st_size > MAX_READ_BYTES:
            raise TooLarge(f"{quoted(path)} is larger than {MAX_READ_BYTES // 2**20} MiB: look at it in a terminal.")
        stamp = _stamp(found)
        its_version = versions.of(fd, stamp)
        if version not in (None, its_version):
            raise changed(path)
        piece = os.pread(fd, MAX_CHUNK_BYTES, offset)
        if _stamp(os.fstat(fd)) != stamp:
            raise changed(path)
    return FileRead(version=its_version, size_bytes=found.st_size, data=base64.b64encode(piece).decode())


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
