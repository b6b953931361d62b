"""Forks: new sessions that begin with a copy of another's turns, and share nothing with it."""

import logging
from collections.abc import Mapping

import orjson

from gadget_api.errors import Conflict, ErrorCode, GadgetError
from gadget_api.events import EVENT_TYPES
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.sessions import ChatSession, ForkedFrom
from gadget_api.turns import ChatTurn
from gadget_code.store.database import MongoStore
from gadget_code.store.events import StoredEvent

log = logging.getLogger(__name__)

_LEFT_OUT = frozenset({"thinking", "response", "toolOutput", "inquiryAsked", "inquiryAnswered", "titled"})
"""Deltas (later events contain their text), the other session's inquiries, and its title."""
_BATCH_BYTES = 4 * 1024 * 1024


async def fork(store: MongoStore, source: ChatSession, last: str | None, name: str | None) -> ChatSession:
    """Creates a session with the turns of `source` up to `last` (None: all) that are over and not reverted.

    Writes the session's document last, so that nobody sees a fork that failed. Raises NotFound, Conflict, StorageFull.
    """
    turns = await _turns_up_to(store, source, last)
    forked = source.replace(
        id=new_id(),
        created_at=utc_now(),
        name=(name or f"{source.name[:190]} (fork)"),
        lock=None,
        wants_title=False,
        archived_at=None,
        pinned_at=None,
        forked_from=ForkedFrom(session=source.id, turn=turns[-1].id),
        history_version=0,
        revert=None,
    )
    copies: dict[str, str] = {}
    try:
        for turn in turns:
            copies[turn.id] = new_id()
            # First, so that `delete_orphans` finds the rest when this process dies.
            await store.turns.copy(turn, copies[turn.id], forked.id)
            await _copy_events(store, turn, copies[turn.id], forked.id)
            await store.blobs.copy(turn.id, copies[turn.id])
        await store.quota.check(source.user)
        return await store.sessions.insert(forked)
    except GadgetError:
        await _clean_up(store, forked.id, copies)
        raise


async def _turns_up_to(store: MongoStore, source: ChatSession, last: str | None) -> list[ChatTurn]:
    if last is not None:
        wanted = await store.turns.owned(source.user, last)
        if wanted.session != source.id or wanted.reverted or not wanted.status.is_over:
            raise Conflict(ErrorCode.TURN_NOT_RUNNING, "Fork at a turn of this session that is over and not reverted.")
    turns = await store.turns.in_order(source.id, after=None, up_to=last or "~", limit=100_000)
    over = [turn for turn in turns if turn.status.is_over]
    if not over:
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "No turn of this session is over yet; there is nothing to fork.")
    return over


async def _copy_events(store: MongoStore, turn: ChatTurn, copy: str, session: str) -> None:
    batch: list[StoredEvent] = []
    size = 0
    async for event in store.events.replay(turn.id, 0, up_to=turn.last_seq):
        if not EVENT_TYPES[event.type].is_forked:
            continue
        body = orjson.dumps({**event.parsed(), "turnId": copy, "chatSessionId": session}).decode()
        batch.append(StoredEvent(event.seq, event.epoch, event.type, body, event.agent))
        size += len(body)
        if size > _BATCH_BYTES:
            await store.events.put(copy, batch)
            batch, size = [], 0
    if batch:
        await store.events.put(copy, batch)


async def _clean_up(store: MongoStore, session: str, copies: Mapping[str, str]) -> None:
    try:
        await store.events.delete_turns(list(copies.values()))
        await store.blobs.delete_turns(list(copies.values()))
        await store.turns.delete_session(session)
    except GadgetError as exc:
        log.warning("a failed fork was not cleaned up: %s", exc.message)
