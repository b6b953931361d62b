"""Whole sessions: search, fork, export, revert, diff."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from gadget_api.checkpoints import Diff, NewRevert, Reverted
from gadget_api.search import SearchPage
from gadget_api.sessions import ChatSession, NewFork
from gadget_code.routes.access import DEFAULT_LIMIT, IdeCaller, Limit, WithService
from gadget_code.sessions.export import MEDIA_TYPES, Format, disposition, exported
from gadget_code.sessions.forks import fork
from gadget_code.store.search import MAX_QUERY, search

router = APIRouter(tags=["sessions"])


@router.get("/sessions/search")
async def search_sessions(
    q: Annotated[str, Query(min_length=1, max_length=MAX_QUERY)],
    caller: IdeCaller,
    service: WithService,
    project: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: str | None = None,
) -> SearchPage:
    """Finds all these words: in the names of sessions (parts of words, too), in prompts and in answers. Turns are
    newest first; the names of sessions come before them, on the first page."""
    return await search(service.store.database, caller.user, q, project=project, limit=limit, cursor=cursor)


@router.post("/sessions/{session_id}/fork", status_code=201)
async def fork_session(session_id: str, new: NewFork, caller: IdeCaller, service: WithService) -> ChatSession:
    """Creates an independent session with this one's turns up to one of them."""
    source = await service.store.sessions.owned(caller.user, session_id)
    forked = await fork(service.store, source, new.turn, new.name)
    await service.rooms.emit_session(forked)
    return forked


@router.get("/sessions/{session_id}/export", response_class=StreamingResponse)
async def export_session(
    session_id: str, caller: IdeCaller, service: WithService, format: Format = "markdown"
) -> StreamingResponse:
    """Exports the session as Markdown to read, or as JSON to process."""
    session = await service.store.sessions.owned(caller.user, session_id)
    headers = {"Content-Disposition": disposition(session, format), "X-Content-Type-Options": "nosniff"}
    parts = exported(service.store, session, format)
    return StreamingResponse(parts, media_type=MEDIA_TYPES[format], headers=headers)


@router.post("/sessions/{session_id}/revert")
async def revert_session(session_id: str, new: NewRevert, caller: IdeCaller, service: WithService) -> Reverted:
    """Reverts the session to its state before a turn: its conversation, its files, or both. With `preview` nothing
    changes, and the response says what would change."""
    return await service.reverts.revert(caller.user, session_id, new)


@router.post("/sessions/{session_id}/redo")
async def redo_session(session_id: str, caller: IdeCaller, service: WithService) -> Reverted:
    """Restores what was reverted since the last prompt."""
    return await service.reverts.redo(caller.user, session_id)


@router.get("/sessions/{session_id}/diff")
async def get_session_diff(
    session_id: str, caller: IdeCaller, service: WithService, scope: Literal["session", "uncommitted"] = "session"
) -> Diff:
    """Returns what has changed since the session began, or since the last commit. Asks the drone."""
    return await service.reverts.session_diff(caller.user, session_id, uncommitted=scope == "uncommitted")


@router.get("/turns/{turn_id}/diff")
async def get_turn_diff(turn_id: str, caller: IdeCaller, service: WithService) -> Diff:
    """Returns what the turn changed. Asks the drone."""
    return await service.reverts.turn_diff(caller.user, turn_id)
