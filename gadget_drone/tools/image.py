"""Images as models take them: what a file is, and what is made of it."""

from gadget_drone.clip import quoted
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import Image

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_MAGIC = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF87a": "GIF", b"GIF89a": "GIF"}


def image_format(beginning: bytes) -> str | None:
    """PNG, JPEG, GIF or WEBP, by the first bytes of a file; None: it is none of these."""
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "WEBP"
    return next((name for magic, name in _MAGIC.items() if beginning.startswith(magic)), None)


def small_image(data: bytes, path: str) -> Image:
    """The image in `data`, small enough to be shown to a model. Raises `ToolError` for what cannot be. Blocks."""
    name = image_format(data)
    if name is None:
        raise ToolError(f"{quoted(path)} is no PNG, JPEG, GIF or WebP image.")
    from gadget_drone.tools.shrinking import shrunk  # with Pillow

    return shrunk(data, name, _TYPES[name], path)
