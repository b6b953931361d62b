"""Images on their way to a model: whether it sees, where their bytes come from, and what stands in for them."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

from gadget_api.images import ImageRef

LoadImage = Callable[[ImageRef], bytes | None]
"""The bytes of an image; None when they cannot be had any more. Called once for each image that is encoded, where it is
encoded: it must not wait for a network."""

GONE = "[image is gone]"


@dataclass(frozen=True)
class Sight:
    """What a model gets to see of the images in a conversation."""

    sees: bool = False
    load: LoadImage | None = None
    """None: no image can be had."""

    def base64(self, image: ImageRef) -> str | None:
        """The image's bytes; None when they are gone."""
        data = self.load(image) if self.load is not None else None
        return None if data is None else b64encode(data).decode()


BLIND = Sight()


def note(image: ImageRef, said: str) -> str:
    """A line of text in an image's place."""
    return f"[image {image.width}x{image.height} {image.media_type}: {said}]"


def with_notes(content: str, notes: list[str]) -> str:
    """`content`, and below it the `notes`."""
    return "\n".join([*([content] if content else []), *notes])
