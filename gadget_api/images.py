"""Images, by reference: messages and events name them, their bytes travel over REST."""

import hashlib
from typing import Literal

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import Count, WireModel

MAX_IMAGE_BYTES = 8 * 1024 * 1024
MAX_IMAGES = 16
"""Of one prompt, or of one tool result."""


def image_id(user: str, sha256: str) -> Id:
    """The id of an image of `user`, from the hexadecimal SHA-256 of its bytes: whoever has the bytes knows it."""
    return hashlib.sha256(f"{user} {sha256}".encode()).hexdigest()[:24]


ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class ImageRef(WireModel):
    """An image that the server keeps: `POST /images` answers this, `GET /images/{id}` gives the bytes."""

    id: Id = Field(alias="_id")
    media_type: ImageType
    size_bytes: Count
    width: int = Field(ge=1)
    height: int = Field(ge=1)
