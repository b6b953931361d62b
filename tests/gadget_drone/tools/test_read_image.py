import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from gadget_drone.tools.shrinking import MAX_BYTES, MAX_SIDE
from gadget_drone.tools.tool import Image
from tests.gadget_drone.tools.conftest import Run


def made(size: tuple[int, int], name: str, mode: str = "RGB", *, noise: bool = False, **options: Any) -> bytes:
    picture = Pillow.new(mode, size)
    if noise:
        picture = Pillow.frombytes(mode, size, random.Random(1).randbytes(size[0] * size[1] * len(mode)))
    out = io.BytesIO()
    picture.save(out, name, **options)
    return out.getvalue()


async def read_image(run: Run, project: Path, data: bytes) -> Image:
    (project / "picture").write_bytes(data)
    result = await run("read", path="picture")
    assert not result.is_error, result.content
    (image,) = result.images
    opened = Pillow.open(io.BytesIO(image.data))
    assert opened.size == (image.width, image.height)
    assert Pillow.MIME[opened.format or ""] == image.media_type
    assert max(opened.size) <= MAX_SIDE
    assert len(image.data) <= MAX_BYTES
    assert f"{image.width}x{image.height}" in result.content
    return image


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_small_image_comes_as_it_is(name: str, project: Path, run: Run) -> None:
    data = made((40, 30), name)
    image = await read_image(run, project, data)
    assert image == Image(f"image/{name.lower()}", data, 40, 30)


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_wide_image_is_made_smaller(name: str, project: Path, run: Run) -> None:
    image = await read_image(run, project, made((4000, 1000), name))
    assert (image.width, image.height) == (1568, 392)
    assert image.media_type == ("image/jpeg" if name == "JPEG" else "image/png")


async def test_an_image_of_many_bytes_is_made_smaller(project: Path, run: Run) -> None:
    data = made((1500, 1500), "PNG", noise=True)
    assert len(data) > MAX_BYTES
    assert (await read_image(run, project, data)).media_type == "image/jpeg"


async def test_transparency_stays_or_becomes_white(project: Path, run: Run) -> None:
    small = await read_image(run, project, made((2000, 100), "PNG", "RGBA"))
    assert Pillow.open(io.BytesIO(small.data)).mode == "RGBA"
    large = await read_image(run, project, made((1500, 1500), "PNG", "RGBA", noise=True))
    assert large.media_type == "image/jpeg"


async def test_a_camera_s_orientation_is_applied(project: Path, run: Run) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    image = await read_image(run, project, made((3000, 1000), "JPEG", exif=exif))
    assert image.height > image.width


async def test_a_phone_s_picture_of_several_is_a_jpeg(project: Path, run: Run) -> None:
    out = io.BytesIO()
    one, other = Pillow.new("RGB", (64, 48)), Pillow.new("RGB", (64, 48), "red")
    one.save(out, "MPO", save_all=True, append_images=[other])
    (project / "picture").write_bytes(out.getvalue())
    (image,) = (await run("read", path="picture")).images
    assert image == Image("image/jpeg", out.getvalue(), 64, 48)


def bomb(width: int, height: int) -> bytes:
    """A PNG that says to be of that size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + b"\0" * 40


@pytest.mark.parametrize("size", [(8000, 8000), (10_000, 10_000), (60_000, 60_000)])
async def test_a_decompression_bomb_is_refused(size: tuple[int, int], project: Path, run: Run) -> None:
    (project / "bomb.png").write_bytes(bomb(*size))
    result = await run("read", path="bomb.png")
    assert result.is_error
    assert result.images == ()
    assert "bomb.png" in result.content


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_damaged_image_is_refused(name: str, project: Path, run: Run) -> None:
    (project / "damaged").write_bytes(made((400, 300), name, noise=name != "GIF")[:200])
    result = await run("read", path="damaged")
    assert result.is_error
    assert "cannot be read as an image" in result.content
