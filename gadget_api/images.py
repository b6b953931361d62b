"""References to images: messages and events contain references, REST transfers the bytes."""

import hashlib
from typing import Literal

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import Count, WireModel

MAX_IMAGE_BYTES = 8 * 1024 * 1024
MAX_IMAGES = 16
"""The most images in one prompt or one tool result."""


def image_id(user: str, sha256: str) -> Id:
    """Returns the id of a user's image. It depends only on the user and the hexadecimal SHA-256 of the bytes."""
    return hashlib.sha256(f"{user} {sha256}".encode()).hexdigest()[:24]


ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class ImageRef(WireModel):
    """An image in the service's storage. `POST /images` returns this, `GET /images/{id}` returns the bytes."""

    id: Id = Field(alias="_id")
    media_type: ImageType
    size_bytes: Count
    width: int = Field(ge=1)
    height: int = Field(ge=1)
