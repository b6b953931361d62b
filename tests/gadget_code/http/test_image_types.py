import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gadget_code.http.image_types import image_of

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
JPEG = b"\xff\xd8\xff\xe0\x00\x06JFIF\xff\xff\xdb\x00\x03x\xff\xc2\x00\x11\x08" + struct.pack(">HH", 480, 640)
VP8X = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 639 | 479 << 14)
VP8 = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "png"), (GIF, "gif"), (JPEG, "jpeg"), (VP8X, "webp"), (VP8L, "webp"), (VP8, "webp")],
)
def test_type_and_size_of_an_image_are_read(data: bytes, kind: str) -> None:
    assert image_of(data) == (f"image/{kind}", 640, 480)
    for end in range(len(data)):
        assert image_of(data[:end]) is None


def test_other_data_is_not_an_image() -> None:
    for data in (b"", b"<svg/>", b"<html>", b"%PDF-1.7", b"BM" + bytes(50), PNG[:16] + bytes(8), GIF[:6] + bytes(4)):
        assert image_of(data) is None


@given(
    st.sampled_from([b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8", b"\x89PNG\r\n\x1a\n", b"GIF89a"]), st.binary(max_size=300)
)
def test_any_bytes_are_read_without_an_exception(head: bytes, rest: bytes) -> None:
    found = image_of(head + rest)
    assert found is None or (found[1] > 0 and found[2] > 0)
