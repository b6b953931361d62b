"""Images made small enough for models, with Pillow: 3 MB, imported for the first image that is looked at. Blocks."""

import io
from typing import Literal

from PIL import Image as Pillow
from PIL import ImageOps

from gadget_drone.clip import quoted
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import Image

MAX_SIDE = 1568
"""Pixels. Larger ones are made smaller by the model's provider anyway: Anthropic's and OpenAI's guides on vision."""
MAX_BYTES = 2_000_000
MAX_PIXELS = 50_000_000
"""Of an image that is opened: 200 MB in memory."""

_QUALITIES = (85, 70, 50)
_SMALLER = 0.7
_TRIES = 6
"""Of sizes: the last has a thirtieth of the pixels of the first."""


def shrunk(data: bytes, name: str, media_type: str, path: str) -> Image:
    """The image in `data`, as it is where it is small enough, else smaller: of an animation the first picture. `name`:
    of the format, as Pillow calls it.

    Raises `ToolError` for one that is damaged or too large to open.
    """
    try:
        with Pillow.open(io.BytesIO(data), formats=[name]) as opened:
            return _small(opened, data, media_type, path)
    except (
        OSError,
        ValueError,
        SyntaxError,
        MemoryError,
        Pillow.DecompressionBombError,
        Pillow.DecompressionBombWarning,  # raised where warnings are errors
    ) as error:
        raise ToolError(f"{quoted(path)} cannot be read as an image: {error}.") from error


def _small(opened: Pillow.Image, data: bytes, media_type: str, path: str) -> Image:
    width, height = opened.size
    if width * height > MAX_PIXELS:
        raise ToolError(
            f"{quoted(path)} is an image of {width}x{height} pixels; {MAX_PIXELS // 10**6} million are the most."
        )
    opened.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a JPEG is decoded at a fraction of its size where that is enough
    opened.load()
    if max(width, height) <= MAX_SIDE and len(data) <= MAX_BYTES:
        return Image(media_type, data, width, height)
    picture = ImageOps.exif_transpose(opened)
    has_alpha = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    picture = picture.convert("RGBA" if has_alpha else "RGB")
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    for _ in range(_TRIES):
        if media_type != "image/jpeg" and len(png := _encoded(picture, "PNG")) <= MAX_BYTES:
            return Image("image/png", png, *picture.size)
        for quality in _QUALITIES:
            if len(jpeg := _encoded(_flat(picture), "JPEG", quality)) <= MAX_BYTES:
                return Image("image/jpeg", jpeg, *picture.size)
        picture.thumbnail((int(picture.width * _SMALLER), int(picture.height * _SMALLER)))
    raise ToolError(f"{quoted(path)} cannot be made smaller than {MAX_BYTES} bytes.")


def _encoded(picture: Pillow.Image, name: Literal["PNG", "JPEG"], quality: int = 0) -> bytes:
    out = io.BytesIO()
    picture.save(out, name, **({"quality": quality} if name == "JPEG" else {}))
    return out.getvalue()


def _flat(picture: Pillow.Image) -> Pillow.Image:
    """On white, for a format without transparency."""
    if picture.mode == "RGB":
        return picture
    flat = Pillow.new("RGB", picture.size, "white")
    flat.paste(picture, mask=picture.getchannel("A"))
    return flat
