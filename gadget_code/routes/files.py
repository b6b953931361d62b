"""The files of a session's project, in the drone's workspace."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Annotated, Any
from urllib.parse import quote, unquote_to_bytes

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from gadget_api.errors import InvalidInput, TooLarge
from gadget_api.files import (
    MAX_FOUND_FILES,
    MAX_WRITTEN_BYTES,
    DeletedFiles,
    DirectoryPath,
    FileList,
    FilePath,
    FileQuery,
    FileVersion,
    FoundFiles,
    RenameFile,
    SavedFile,
)
from gadget_code.http.image_types import image_of
from gadget_code.routes.access import IdeCaller, WithService

_TEXT = "text/plain; charset=utf-8"
"""Whatever the file's name: a browser must never run HTML or SVG from here."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
}
_PIECE_BYTES = 256 * 1024
_SENT_S = 600.0
"""For a file of 32 MiB: half a megabit a second. A slower connection is closed."""
_ETAG = re.compile(r'"([0-9a-f]{64})"')


class _InPieces(Response):
    """Sends its body no faster than the client reads, and holds `place` until then: a connection that is not read keeps
    a file in memory, and a user may have only a few."""

    def __init__(self, content: bytes, headers: Mapping[str, str], place: AbstractAsyncContextManager[None]) -> None:
        super().__init__(content, headers=dict(headers))
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._place:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SENT_S):
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    for start in range(0, len(self.body), _PIECE_BYTES):
                        piece, end = bytes(self.body[start : start + _PIECE_BYTES]), start + _PIECE_BYTES
                        await send({"type": "http.response.body", "body": piece, "more_body": end < len(self.body)})


def check_utf8(request: Request) -> None:
    """Refuses a path that is not UTF-8: it must not be decoded as another path."""
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise InvalidInput("The query is not UTF-8: encode each byte of a path as it is on disk.") from None


router = APIRouter(prefix="/sessions/{session_id}/files", tags=["files"], dependencies=[Depends(check_utf8)])


@router.get("")
async def list_files(
    session_id: str, caller: IdeCaller, service: WithService, path: Annotated[DirectoryPath, Query()] = ""
) -> FileList:
    """Lists one directory of the project; the empty path is the project. Directories come first, by name, then
    files."""
    return await service.files.list_directory(caller.user, session_id, path)


@router.get("/find")
async def find_files(
    session_id: str,
    caller: IdeCaller,
    service: WithService,
    q: Annotated[FileQuery, Query()] = "",
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND_FILES), Query()] = 50,
) -> FoundFiles:
    """Finds files whose paths contain these letters in this order, best match first. Leaves out what git ignores."""
    return await service.files.find(caller.user, session_id, q, limit)


_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file's bytes: text, one of four types of images, or anything else",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "application/octet-stream")
        },
    },
    304: {"description": "The file is one of those that `If-None-Match` names"},
}


@router.get("/content", response_class=Response, responses=_CONTENT)
@router.head("/content", response_class=Response, include_in_schema=False)
async def read_file(
    session_id: str,
    caller: IdeCaller,
    service: WithService,
    path: Annotated[FilePath, Query()],
    download: bool = False,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Returns a file's bytes, 32 MiB at most. Its `ETag` is its version, which a save has to name."""
    named = (if_none_match or "").strip()
    known = ["*"] if named == "*" else _ETAG.findall(named)
    content = await service.files.read(caller.user, session_id, path, known)
    headers = {**_HEADERS, "ETag": f'"{content.version}"'}
    if content.data is None:
        return Response(status_code=304, headers=headers)
    if download:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}"
    # As a header: the response would add a charset to a text's media type.
    headers["Content-Type"] = await asyncio.to_thread(media_type_of, content.data)
    if len(content.data) > _PIECE_BYTES:
        return _InPieces(content.data, headers, service.files.sending.hold(caller.user))
    return Response(content.data, headers=headers)


@router.put(
    "/content",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def write_file(
    request: Request,
    response: Response,
    session_id: str,
    caller: IdeCaller,
    service: WithService,
    path: Annotated[FilePath, Query()],
    if_match: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> SavedFile:
    """Saves a file: the body is its bytes, 2 MiB at most. One header is required: `If-Match` with the version that was
    edited, or `If-None-Match: *` for a new file. Creates missing directories."""
    version = _base(if_match, if_none_match)
    saved = await service.files.write(caller.user, session_id, path, version, await _body(request))
    response.headers["ETag"] = f'"{saved.version}"'
    return saved


@router.post("/rename", status_code=204)
async def rename_file(session_id: str, new: RenameFile, caller: IdeCaller, service: WithService) -> None:
    """Renames a file or a directory, and creates missing directories. Overwrites nothing."""
    await service.files.rename(caller.user, session_id, new)


@router.delete("")
async def delete_files(
    session_id: str,
    caller: IdeCaller,
    service: WithService,
    path: Annotated[FilePath, Query()],
    version: Annotated[FileVersion | None, Query()] = None,
    recursive: bool = False,
) -> DeletedFiles:
    """Deletes a file, if it is still `version` when that is given. With `recursive` it deletes a directory with at most
    10,000 files and no repository in it."""
    return await service.files.delete(caller.user, session_id, path, version, recursive=recursive)


def media_type_of(data: bytes) -> str:
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return _TEXT
    image = image_of(data)
    return image[0] if image is not None else "application/octet-stream"


def _base(if_match: str | None, if_none_match: str | None) -> str | None:
    """Returns the version to replace; None for a new file."""
    if if_match is not None and if_none_match is None:
        etag = _ETAG.fullmatch(if_match.strip())
        if etag is not None:
            return etag[1]
    elif if_match is None and if_none_match is not None and if_none_match.strip() == "*":
        return None
    raise InvalidInput(
        'Name the version to replace: `If-Match: "<version>"` with the ETag that was read, or `If-None-Match: *` for '
        "a new file."
    )


async def _body(request: Request) -> bytes:
    """Counts while it reads, so that a body that is too large is not kept in memory."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_WRITTEN_BYTES:
            raise TooLarge(f"A file above {MAX_WRITTEN_BYTES // 1024**2} MiB cannot be saved; change it in a terminal.")
    return bytes(body)
