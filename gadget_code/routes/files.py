"""The files of a session's project, in the workspace of the drone that has them."""

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
"""Whatever its name is: HTML and SVG are never answered as what a browser would run."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
}
_PIECE_BYTES = 256 * 1024
_SENT_S = 600.0
"""For a file of 32 MiB: half a megabit a second. Who reads it slower, or not at all, is cut."""
_ETAG = re.compile(r'"([0-9a-f]{64})"')


class _InPieces(Response):
    """Sends its body no faster than it is taken, and holds `place` until then: a connection that does not read keeps a
    file in memory, and a user has so many of these."""

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
    """A file is named by its exact bytes: what is no UTF-8 must not be read as something else."""
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise InvalidInput("The query is not UTF-8: encode each byte of a path as it is on disk.") from None


router = APIRouter(prefix="/sessions/{session_id}/files", tags=["files"], dependencies=[Depends(check_utf8)])


@router.get("")
async def list_files(
    session_id: str, caller: IdeCaller, service: WithService, path: Annotated[DirectoryPath, Query()] = ""
) -> FileList:
    """One directory of the project, which is the empty path: its directories by name, then its files."""
    return await service.files.list_directory(caller.user, session_id, path)


@router.get("/find")
async def find_files(
    session_id: str,
    caller: IdeCaller,
    service: WithService,
    q: Annotated[FileQuery, Query()] = "",
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND_FILES), Query()] = 50,
) -> FoundFiles:
    """Files whose paths have these letters in this order, the best fit first, without those that git ignores."""
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
    """A file's bytes, 32 MiB at most. Its `ETag` is its version, and names it where it is saved."""
    named = (if_none_match or "").strip()
    known = ["*"] if named == "*" else _ETAG.findall(named)
    content = await service.files.read(caller.user, session_id, path, known)
    headers = {**_HEADERS, "ETag": f'"{content.version}"'}
    if content.data is None:
        return Response(status_code=304, headers=headers)
    if download:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}"
    # As a header, for the response adds a charset of its own to a text's media type.
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
    """Saves a file: its bytes are the body, 2 MiB at most. `If-Match` names the version that was edited, or
    `If-None-Match: *` makes a new file, with directories above it; one of both is needed."""
    version = _base(if_match, if_none_match)
    saved = await service.files.write(caller.user, session_id, path, version, await _body(request))
    response.headers["ETag"] = f'"{saved.version}"'
    return saved


@router.post("/rename", status_code=204)
async def rename_file(session_id: str, new: RenameFile, caller: IdeCaller, service: WithService) -> None:
    """Gives a file or a directory another path, and makes the directories above that. Nothing is overwritten."""
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
    """Deletes a file, if it is still `version` where that is given; or with `recursive` a directory of 10,000 files at
    most, and without a repository in it."""
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
    """The version that is to be replaced; None for a new file."""
    if if_match is not None and if_none_match is None:
        etag = _ETAG.fullmatch(if_match.strip())
        if etag is not None:
            return etag[1]
    elif if_match is None and if_none_match is not None and if_none_match.strip() == "*":
        return None
    raise InvalidInput(
        'Say what is to be replaced: `If-Match: "<version>"` with the ETag of what was read, or `If-None-Match: *` for '
        "a new file."
    )


async def _body(request: Request) -> bytes:
    """Counted as it comes: what is too large is not kept."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_WRITTEN_BYTES:
            raise TooLarge(
                f"A file that is saved may have {MAX_WRITTEN_BYTES // 1024**2} MiB; change it in a terminal."
            )
    return bytes(body)
