"""Chat sessions and their turns."""

from typing import Annotated

from fastapi import APIRouter, Header

from gadget_api.commands import NewTurn
from gadget_api.drones import DroneStatus
from gadget_api.errors import NotFound
from gadget_api.history import HistoryPage
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.permissions import PermissionLevel
from gadget_api.queue import NewQueueOrder, Queue
from gadget_api.session_list import ListedSession
from gadget_api.sessions import ChatSession, Fallbacks, NewSession, SessionChanges, mode_of, resolve_level
from gadget_api.terminals import CloseTerminals
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.routes.access import DEFAULT_LIMIT, CurrentUser, DroneCaller, IdeCaller, Limit, WithService
from gadget_code.service import Service
from gadget_code.sessions.claims import check_idle
from gadget_code.sessions.deletion import delete_content
from gadget_code.sessions.history import history_page
from gadget_code.store.latest_turns import latest_turns
from gadget_code.store.queue import queue
from gadget_code.store.records import Page

router = APIRouter(prefix="/sessions", tags=["sessions"])

NAMELESS = "New session"


@router.get("")
async def list_sessions(
    caller: IdeCaller,
    service: WithService,
    limit: Limit = DEFAULT_LIMIT,
    cursor: str | None = None,
    project: str | None = None,
    archived: bool = False,
    pinned: bool = False,
) -> Page[ListedSession]:
    """Lists sessions: those that are not archived, or the archived ones; with `pinned` only pinned ones."""
    page = await service.store.sessions.listed(
        caller.user, project=project or None, archived=archived, pinned=pinned, limit=limit, cursor=cursor
    )
    latest = await latest_turns(service.store.turns, caller.user, [session.id for session in page.items])
    items = tuple(ListedSession(**dict(session), latest_turn=latest.get(session.id)) for session in page.items)
    return Page(items=items, next_cursor=page.next_cursor)


@router.post("", status_code=201)
async def create_session(new: NewSession, caller: IdeCaller, user: CurrentUser, service: WithService) -> ChatSession:
    """Creates a session. Without a name, its first turn names it; without level and mode, it gets the user's level."""
    await _check(service, caller.user, project=new.project, provider=new.provider, drone=new.drone)
    await _check_fallbacks(service, caller.user, new.fallbacks)
    level = resolve_level(new.mode, new.level, user.level)
    given = {**dict(new), "name": new.name or NAMELESS, "level": level, "mode": mode_of(level)}
    session = ChatSession(id=new_id(), created_at=utc_now(), user=caller.user, wants_title=new.name is None, **given)
    await service.store.sessions.insert(session)
    await service.rooms.emit_session(session)
    return session


@router.get("/{session_id}")
async def get_session(session_id: str, caller: IdeCaller, service: WithService) -> ChatSession:
    return await service.store.sessions.owned(caller.user, session_id)


@router.patch("/{session_id}")
async def change_session(
    session_id: str, changes: SessionChanges, caller: IdeCaller, user: CurrentUser, service: WithService
) -> ChatSession:
    """Changes a session. Level, mode and rules apply at once, also to a running turn; the rest applies from the next
    prompt on."""
    await _check(service, caller.user, provider=changes.provider, drone=changes.drone)
    await _check_fallbacks(service, caller.user, changes.fallbacks or ())
    sessions = service.store.sessions
    before = await sessions.owned(caller.user, session_id)
    given = sessions.given(changes)
    if changes.name is not None:
        given["wantsTitle"] = False
    if changes.mode is not None or changes.level is not None:
        own = user.level if before.level is PermissionLevel.PLAN else before.level
        level = resolve_level(changes.mode, changes.level, own)
        given |= {"level": level, "mode": mode_of(level)}
    if changes.archived is not None:
        given["archivedAt"] = (before.archived_at or utc_now()) if changes.archived else None
    if changes.pinned is not None:
        given["pinnedAt"] = (before.pinned_at or utc_now()) if changes.pinned else None
    session = await sessions.update({"_id": session_id, "user": caller.user}, given) if given else before
    if session is None:
        raise NotFound("session")
    await service.rooms.emit_session(session)
    if changes.archived:
        await _close_terminals(service, session)
    if (session.level, session.rules) != (before.level, before.rules):
        await service.policies.changed({"user": session.user, "session": session.id})
    service.dispatcher.kick(caller.user)
    return session


@router.delete("/{session_id}", status_code=204)
async def delete_session(session_id: str, caller: IdeCaller, service: WithService) -> None:
    """Deletes the session with all its turns. Refused while a turn waits or runs."""
    session = await service.store.sessions.owned(caller.user, session_id)
    await check_idle(service.store, session)
    await service.store.sessions.delete(caller.user, session.id)
    await _close_terminals(service, session)
    await delete_content(service.store, caller.user, session.id)


@router.get("/{session_id}/turns")
async def list_turns(
    session_id: str, caller: IdeCaller, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[ChatTurn]:
    session = await service.store.sessions.owned(caller.user, session_id)
    return await service.store.turns.page({"session": session.id}, limit=limit, cursor=cursor, hint="session")


@router.post("/{session_id}/turns", status_code=201)
async def create_turn(
    session_id: str,
    new: NewTurn,
    caller: IdeCaller,
    service: WithService,
    traceparent: Annotated[str | None, Header()] = None,
) -> ChatTurn:
    """Submits a prompt. The same `promptId` again returns the same turn."""
    return await service.turns.submit(caller.user, session_id, new.content, new.prompt_id, new.images, traceparent)


@router.get("/{session_id}/queue")
async def get_queue(session_id: str, caller: IdeCaller, service: WithService) -> Queue:
    """Returns the session's queued prompts in the order in which they will run."""
    session = await service.store.sessions.owned(caller.user, session_id)
    return Queue(items=tuple(await queue(service.store.turns, session.user, session.id)))


@router.put("/{session_id}/queue")
async def put_queue_order(session_id: str, order: NewQueueOrder, caller: IdeCaller, service: WithService) -> Queue:
    """Reorders queued prompts. A turn that moves gets a new id; its old id still finds it (`formerIds`)."""
    return Queue(items=tuple(await service.turns.reorder(caller.user, session_id, order.prompts)))


@router.get("/{session_id}/context")
async def get_context(
    session_id: str, caller: DroneCaller, service: WithService, afterTurn: str | None = None
) -> HistoryPage:
    """Returns the session's history as messages, for the drone that runs its turn: the turns after `afterTurn` up to
    the running one, oldest first. `nextCursor` is the next `afterTurn`."""
    at_work = {"user": caller.user, "session": session_id, "drone": caller.drone, "status": ChatTurnStatus.PROCESSING}
    running = await service.store.turns.unfinished(at_work)
    if not running:
        raise NotFound("session at work on this drone")
    return await history_page(service.store, session_id, after_turn=afterTurn, up_to=running[0])


async def _close_terminals(service: Service, session: ChatSession) -> None:
    """Ends the terminals of a session. A drone that is offline asks about them when it connects again."""
    for drone in await service.store.drones.all({"user": session.user}):
        if drone.status is not DroneStatus.OFFLINE:
            await service.rooms.emit_to_drone(drone.id, "closeTerminals", CloseTerminals(chat_session_id=session.id))


async def _check(
    service: Service, user: str, *, project: str | None = None, provider: str | None = None, drone: str | None = None
) -> None:
    """Raises NotFound unless the named records are the user's."""
    if project is not None:
        await service.store.projects.owned(user, project)
    if provider is not None:
        await service.store.providers.owned(user, provider)
    if drone is not None:
        await service.store.drones.owned(user, drone)


async def _check_fallbacks(service: Service, user: str, fallbacks: Fallbacks) -> None:
    for provider in {choice.provider for choice in fallbacks}:
        await service.store.providers.owned(user, provider)
