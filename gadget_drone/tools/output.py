"""What a command printed, however much: its head and tail in memory, all of it in a file, bounded."""

import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gadget_api.ids import new_id
from gadget_drone.clip import head, tail

INLINE_BYTES = 63_000
"""Output up to this size is told whole; leaves room below the 64,000 of a result for the exit status."""
MAX_LIVE_BYTES = 256_000
MAX_SPOOLED_BYTES = 256 * 2**20
_TAIL_BYTES = INLINE_BYTES // 2


class LiveOutput:
    """Passes the first 256 kB on as text, as they come."""

    def __init__(self, output: Callable[[str], None]) -> None:
        self._output = output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = MAX_LIVE_BYTES

    def feed(self, chunk: bytes) -> None:
        if self._left <= 0:
            return
        text = self._decoder.decode(chunk[: self._left])
        self._left -= len(chunk)
        if self._left <= 0:
            text += f"\n[the output goes on, but is not shown live beyond {MAX_LIVE_BYTES // 1000} kB]\n"
        if text:
            self._output(text)


class SpooledOutput:
    """`feed` each chunk on the event loop, and then `spool` it in a thread while `is_large`."""

    def __init__(self, spool_dir: Path) -> None:
        self._spool_dir = spool_dir
        self._head = bytearray()
        self._tail = bytearray()
        self._file: BinaryIO | None = None
        self._spooled = 0
        self._has_failed = False
        self.size = 0
        """Bytes so far."""

    @property
    def is_large(self) -> bool:
        return self.size > INLINE_BYTES

    def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if len(self._head) < INLINE_BYTES:
            self._head += chunk[: INLINE_BYTES - len(self._head)]
        self._tail += chunk
        if len(self._tail) > 4 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]

    def spool(self, chunk: bytes) -> None:
        """Appends to the file, which is made on the first call; blocks. A full disk ends spooling, not the command."""
        if self._has_failed or self._spooled >= MAX_SPOOLED_BYTES:
            return
        try:
            if self._file is None:
                self._file = self._open()
                missed = self.size - len(chunk)
                self._append(bytes(self._head[:missed]))
            self._append(chunk)
        except OSError:
            self._has_failed = True
            self.discard()

    def finish(self) -> tuple[str, Path | None]:
        """The text for the model, at most 63,000 bytes, and the file with the whole; blocks."""
        text = self._head.decode("utf-8", "replace")
        if not self.is_large and len(text.encode()) <= INLINE_BYTES:
            return text, None
        if self._file is None:
            self.spool(bytes(self._head))
        end = bytes(self._tail[-_TAIL_BYTES:]).decode("utf-8", "replace")
        whole = self._close(end)
        half = (INLINE_BYTES - 300) // 2
        # Whether the whole is kept is the user's to know (the event's `blob`): no tool gets at it.
        note = f"\n[... cut: {self.size} bytes in all, here are both ends; put it in a file to see more of it ...]\n"
        return head(text, half) + note + tail(end, half), whole

    def discard(self) -> None:
        """Removes the file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None

    def _open(self) -> BinaryIO:
        self._spool_dir.mkdir(mode=0o700, exist_ok=True)
        path = self._spool_dir / f"{new_id()}.txt"
        return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        rest = memoryview(data)[: MAX_SPOOLED_BYTES - self._spooled]
        while rest:
            written = self._file.write(rest)
            self._spooled += written
            rest = rest[written:]

    def _close(self, end: str) -> Path | None:
        if self._file is None:
            return None
        dropped = self.size - self._spooled
        try:
            if dropped > 0:
                self._file.write(f"\n[... {dropped} bytes were not kept, but for the end: ...]\n{end}".encode())
        except OSError:
            self.discard()
            return None
        self._file.close()
        return Path(self._file.name)
