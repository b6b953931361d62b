"""Images for a model: whether it supports them, how their bytes are loaded, and the text that replaces them."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from gadget_api.images import ImageRef

LoadImage = Callable[[ImageRef], bytes | None]
"""Returns the bytes of an image; None when they no longer exist. The encoder calls it once per image, so it must not
wait for the network."""

IMAGE_GONE = "[image is gone]"


@dataclass(frozen=True)
class Vision:
    """Whether a model supports images, and how to load them."""

    is_supported: bool = False
    load: LoadImage | None = None
    """None: every image counts as missing."""

    def base64(self, image: ImageRef) -> str | None:
        """Returns the image's bytes in base64; None when they no longer exist."""
        data = self.load(image) if self.load is not None else None
        return None if data is None else b64encode(data).decode()


NO_VISION = Vision()


def image_note(image: ImageRef, text: str) -> str:
    """Returns a line of text that replaces an image."""
    return f"[image {image.width}x{image.height} {image.media_type}: {text}]"


def with_notes(content: str, notes: list[str]) -> str:
    """Returns `content` followed by the `notes`, one per line."""
    return "\n".join([*([content] if content else []), *notes])
