"""Reads an image's type and size from its first bytes, without decoding pixels."""

import struct
from typing import Literal

from gadget_api.images import ImageType

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of a frame header (ITU T.81, table B.1)."""
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length."""


def image_of(data: bytes) -> tuple[ImageType, int, int] | None:
    """Returns type, width and height of a PNG, JPEG, GIF or WebP; None for anything else or a damaged header."""
    try:
        image = _image_of(data)
    except (struct.error, IndexError):
        return None
    return image if image is not None and image[1] > 0 and image[2] > 0 else None


def _image_of(data: bytes) -> tuple[ImageType, int, int] | None:
    if data.startswith(_PNG) and data[12:16] == b"IHDR":
        return "image/png", *struct.unpack_from(">II", data, 16)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif", *struct.unpack_from("<HH", data, 6)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:3] == b"\xff\xd8\xff":
        return _jpeg(data)
    return None


def _webp(data: bytes) -> tuple[Literal["image/webp"], int, int] | None:
    match data[12:16]:
        case b"VP8X":
            sides = struct.unpack_from("6B", data, 24)
            return "image/webp", _number(sides[:3]) + 1, _number(sides[3:]) + 1
        case b"VP8L" if data[20] == 0x2F:
            [bits] = struct.unpack_from("<I", data, 21)
            return "image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return "image/webp", width & 0x3FFF, height & 0x3FFF
    return None


def _number(little_endian: tuple[int, ...]) -> int:
    return int.from_bytes(bytes(little_endian), "little")


def _jpeg(data: bytes) -> tuple[Literal["image/jpeg"], int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return "image/jpeg", width, height
        at += 2
        if marker not in _JPEG_ALONE:
            [length] = struct.unpack_from(">H", data, at)
            at += max(2, length)
    return None
