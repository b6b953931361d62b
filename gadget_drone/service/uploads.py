"""Large tool outputs and images on their way to the server: files in `.gadget/blobs/`, deleted when they are stored
there.

The folder is the queue: what a crash or a lost connection left is uploaded by whoever comes next. What waits in it is
bounded: past that an output is kept as its head and tail alone, in the event.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.events import BlobRef
from gadget_api.ids import new_id
from gadget_drone.service.server import Server

log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 1024**3
_RETRY_S = 5.0
_SUFFIX = ".blob"
_IMAGE = ".image"
_UNWANTED = frozenset({ErrorCode.NOT_FOUND, ErrorCode.TOO_LARGE, ErrorCode.INVALID_REQUEST, ErrorCode.STORAGE_FULL})
"""The server will never take it; after any other answer it is tried again."""


class Uploads:
    def __init__(
        self,
        folder: Path,
        server: Server,
        *,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        on_full: Callable[[str | None, str], None] = lambda turn, message: None,
    ) -> None:
        """`on_full` is called when the server refuses an upload because its user's quota is used up, with the turn
        whose output it is (None: an image) and what to do."""
        self._on_full = on_full
        self._full_turn: str | None = None
        """An output of it was refused for the quota. Its later ones are not offered; the next turn tries anew."""
        self._max_waiting_bytes = max_waiting_bytes
        self._folder = folder
        self._server = server
        self._wake = asyncio.Event()

    def keep(self, turn: str, spool: Path) -> BlobRef | None:
        """Takes over a spool file; None, and it is deleted, when too much waits already, or when the server has no room
        for the turn's outputs. Raises OSError."""
        if turn == self._full_turn:
            spool.unlink()
            return None
        size_bytes = spool.stat().st_size
        waiting_bytes = sum(path.stat().st_size for path in self._waiting())
        if waiting_bytes + size_bytes > self._max_waiting_bytes:
            log.warning("an output of %d bytes is not kept: %d bytes wait to be uploaded", size_bytes, waiting_bytes)
            spool.unlink()
            return None
        blob = new_id()
        spool.rename(self._folder / f"{turn}.{blob}{_SUFFIX}")
        self._wake.set()
        return BlobRef(blob_id=blob, size_bytes=size_bytes)

    def keep_image(self, image: str, cached: Path) -> bool:
        """Takes an image on, which stays where it is; False when too much waits already. Raises OSError."""
        if sum(path.stat().st_size for path in self._waiting()) > self._max_waiting_bytes:
            return False
        with suppress(FileExistsError):
            os.link(cached, self._folder / f"{image}{cached.suffix}{_IMAGE}")
        self._wake.set()
        return True

    def remove_leftovers(self) -> None:
        """Deletes spool files that no event names: their tool was cut off by a crash."""
        waiting = self._waiting()
        for path in self._folder.iterdir():
            if path not in waiting and path.is_file():
                path.unlink(missing_ok=True)

    def wake(self) -> None:
        """The connection is back: try again now."""
        self._wake.set()

    async def run(self) -> None:
        """Uploads for as long as the drone lives."""
        while True:
            self._wake.clear()
            for path in self._waiting():
                try:
                    await self._upload(path)
                except GadgetError as exc:
                    if exc.code not in _UNWANTED:
                        log.info("an output waits to be uploaded: %s", exc.message)
                        self._retry_later()
                        break
                    log.warning("the output %s is not wanted by the server: %s", path.name, exc.message)
                    if exc.code is ErrorCode.STORAGE_FULL:
                        self._note_full(path, exc.message)
                except OSError as exc:
                    log.warning("the output %s cannot be read: %s", path.name, exc.strerror)
                    self._retry_later()
                    continue
                path.unlink(missing_ok=True)
            await self._wake.wait()

    async def _upload(self, path: Path) -> None:
        first, second, _ = path.name.split(".")
        if path.suffix == _IMAGE:
            await self._server.put_image(f"image/{second}", await asyncio.to_thread(path.read_bytes))
        else:
            await self._server.put_blob(first, second, path)

    def _note_full(self, path: Path, message: str) -> None:
        turn = None if path.suffix == _IMAGE else path.name.partition(".")[0]
        if turn is not None:
            self._full_turn = turn
        self._on_full(turn, message)

    def _waiting(self) -> list[Path]:
        both = (path for path in self._folder.iterdir() if path.suffix in (_SUFFIX, _IMAGE))
        return sorted(path for path in both if path.name.count(".") == 2)

    def _retry_later(self) -> None:
        asyncio.get_running_loop().call_later(_RETRY_S, self._wake.set)
