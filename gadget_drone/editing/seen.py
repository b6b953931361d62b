"""What the model has seen of each file: the other side of "did it change since?"."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

MAX_FILES = 4000
MAX_BYTES = 64 * 2**20
MAX_FILE_BYTES = 4 * 2**20
"""The content of a larger file is not kept, its hash is: a change is noticed then, but cannot be merged."""


@dataclass(frozen=True)
class Seen:
    sha256: bytes
    content: bytes | None
    """None: it was too large to keep, or is long ago."""

    def is_of(self, data: bytes) -> bool:
        return self.sha256 == hashlib.sha256(data).digest()


class SeenFiles:
    """Of one session, in memory. A drone that restarts knows nothing, and can guard nothing until files are read again.

    Paths are as `confined.relative_target` gives them. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[str, Seen] = OrderedDict()
        """The one that was noted last is last."""
        self._bytes = 0

    def note(self, path: str, data: bytes) -> None:
        """The model knows that the file is `data` now: it read that, or wrote it."""
        seen = Seen(hashlib.sha256(data).digest(), data if len(data) <= MAX_FILE_BYTES else None)
        with self._lock:
            self._drop(path)
            self._files[path] = seen
            self._bytes += len(seen.content or b"")
            self._trim()

    def forget(self, path: str) -> None:
        """The file is gone."""
        with self._lock:
            self._drop(path)

    def get(self, path: str) -> Seen | None:
        """None: the model has never read the file, as far as is known."""
        with self._lock:
            return self._files.get(path)

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._files)

    def _drop(self, path: str) -> None:
        if (old := self._files.pop(path, None)) is not None:
            self._bytes -= len(old.content or b"")

    def _trim(self) -> None:
        while len(self._files) > MAX_FILES:
            self._drop(next(iter(self._files)))
        if self._bytes <= MAX_BYTES:
            return
        for path, seen in self._files.items():
            if seen.content is not None:
                self._files[path] = Seen(seen.sha256, None)
                self._bytes -= len(seen.content)
                if self._bytes <= MAX_BYTES:
                    return
