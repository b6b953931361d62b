"""Images: uploaded once, named by prompts and tool results, read by their user and that user's drones."""

import asyncio
import hashlib

from fastapi import APIRouter, Request, Response

from gadget_api.errors import InvalidInput, NotAllowed, TooLarge
from gadget_api.images import MAX_IMAGE_BYTES, ImageRef, image_id
from gadget_api.tokens import TokenKind
from gadget_code.http.image_types import image_of
from gadget_code.routes.access import AnyCaller, WithService
from gadget_code.store.tokens import Caller

router = APIRouter(prefix="/images", tags=["images"])

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Content-Disposition": "inline",
    "Cache-Control": "private, max-age=31536000, immutable",
}


@router.post(
    "",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in ("image/png", "image/jpeg", "image/gif", "image/webp")
            },
        }
    },
)
async def create_image(request: Request, caller: AnyCaller, service: WithService) -> ImageRef:
    """Stores an image: the body is its bytes, 8 MiB at most. The same bytes are the same image. An image that no prompt
    and no tool result names is deleted after a day. 507 when the user's quota is used up."""
    _check(caller)
    data = await request.body()
    if len(data) > MAX_IMAGE_BYTES:
        raise TooLarge(f"An image may have at most {MAX_IMAGE_BYTES // 1024**2} MiB; make this one smaller.")
    header = image_of(data)
    if header is None:
        raise InvalidInput("This is not a PNG, JPEG, GIF or WebP image; send the plain file.")
    media_type, width, height = header
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared not in (media_type, "", "application/octet-stream"):
        raise InvalidInput(f"This is {media_type}, but Content-Type differs; correct it.")
    sha256 = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
    its_id = image_id(caller.user, sha256)
    image = ImageRef(id=its_id, media_type=media_type, size_bytes=len(data), width=width, height=height)
    kept = await service.store.images.put(caller.user, sha256, image, data)
    if caller.kind is TokenKind.DRONE:  # a tool result names it, or soon will
        await service.store.images.use(caller.user, [kept.id])
    return kept


@router.get("/{image_id}", response_class=Response)
async def get_image(image_id: str, caller: AnyCaller, service: WithService) -> Response:
    """Returns the image's bytes as they were uploaded."""
    _check(caller)
    image, data = await service.store.images.read(caller.user, image_id)
    return Response(data, media_type=image.media_type, headers=_HEADERS)


def _check(caller: Caller) -> None:
    """Raises NotAllowed for a drone's token that no workspace has used yet."""
    if caller.kind is TokenKind.DRONE and caller.drone is None:
        raise NotAllowed("Only a registered drone may do this.")
