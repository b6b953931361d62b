"""Images that a model is shown: in `.gadget/images/`, fetched from the server once, or made here and uploaded."""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

from gadget_api.errors import GadgetError
from gadget_api.images import ImageRef, image_id
from gadget_api.messages import Compaction, Message, ToolMessage, UserMessage
from gadget_drone.disk.durable import replace_file
from gadget_drone.service.server import Server
from gadget_drone.service.uploads import Uploads
from gadget_drone.tools.tool import Image

log = logging.getLogger(__name__)

_MAX_CACHE_BYTES = 512 * 1024 * 1024


class Images:
    def __init__(self, folder: Path, server: Server, uploads: Uploads) -> None:
        self._folder = folder
        self._server = server
        self._uploads = uploads

    def load(self, ref: ImageRef) -> bytes | None:
        """None when it is not here."""
        try:
            return self._path(ref.id, ref.media_type).read_bytes()
        except OSError:
            return None

    def keep(self, user: str, image: Image) -> ImageRef | None:
        """Takes over an image that a tool made; None when there is no room for it. Raises OSError."""
        ref = ImageRef(
            id=image_id(user, hashlib.sha256(image.data).hexdigest()),
            media_type=image.media_type,
            size_bytes=len(image.data),
            width=image.width,
            height=image.height,
        )
        path = self._path(ref.id, ref.media_type)
        replace_file(path, image.data)
        return ref if self._uploads.keep_image(ref.id, path) else None

    async def fetch(self, refs: Iterable[ImageRef]) -> None:
        """Brings those here that are not. One that the server does not have is left out; raises other GadgetErrors."""
        missing = [ref for ref in refs if not self._path(ref.id, ref.media_type).exists()]
        if missing:
            await asyncio.to_thread(self._make_room)
        for ref in missing:
            try:
                data = await self._server.image(ref.id)
            except GadgetError as exc:
                if exc.retryable:
                    raise
                log.warning("image %s is gone: %s", ref.id, exc.message)
                continue
            await asyncio.to_thread(replace_file, self._path(ref.id, ref.media_type), data)

    def _make_room(self) -> None:
        """The oldest go first; the server has them."""
        files = sorted((path for path in self._folder.iterdir() if path.is_file()), key=lambda p: p.stat().st_mtime_ns)
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if size <= _MAX_CACHE_BYTES:
                return
            size -= path.stat().st_size
            path.unlink(missing_ok=True)

    def _path(self, image: str, media_type: str) -> Path:
        if not image.isalnum():
            raise ValueError("this id names no file")
        return self._folder / f"{image}.{media_type.removeprefix('image/')}"


def images_of(entries: Iterable[Message | Compaction]) -> list[ImageRef]:
    return [ref for entry in entries if isinstance(entry, UserMessage | ToolMessage) for ref in entry.images]
