"""Claims: whoever takes a session back, or brings it forward, has it alone meanwhile, over all web processes.

A claim is kept with the session's document, and runs out by itself when its process dies. While it holds, nobody else
takes the session back, and no prompt of it is dispatched: one that comes now waits, and comes after it. It is written
before we look for turns that wait or run, and the dispatcher looks for it after a turn was stored: so either we see the
turn, or the dispatcher sees the claim.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from gadget_api.errors import Conflict, ErrorCode, GadgetError
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.sessions import ChatSession
from gadget_code.store.database import MongoStore
from gadget_code.turns.dispatch import Dispatcher

log = logging.getLogger(__name__)

RESTORE_S = 180.0
"""How long a drone may take to restore a large project. It gives up by itself after 120 s, and may first have to end a
comparison, which it does after 30 s: an answer that is late is none that is lost."""
CLAIM_S = RESTORE_S + 30.0


@dataclass
class Claim:
    """A session that is ours."""

    id: str
    session: ChatSession
    """As it was when it was claimed."""
    newest: str | None
    """The session's newest turn then: later ones are of no concern to us."""
    at: datetime
    is_at_drone: bool = False
    """Whether a drone may change the files now. Then the claim is not given up, whatever happens to us: it runs out."""


@asynccontextmanager
async def claimed(store: MongoStore, dispatcher: Dispatcher, session: ChatSession) -> AsyncIterator[Claim]:
    """The session, idle and ours for as long as the context. Raises Conflict when it is not to be had."""
    claim_id = new_id()
    ours = await store.sessions.claim(session.id, claim_id, CLAIM_S)
    if ours is None:
        raise Conflict(
            ErrorCode.TURN_NOT_RUNNING, "The session is taken back just now; look at it again.", retryable=True
        )
    claim = None
    try:
        claim = Claim(claim_id, ours, await store.turns.newest(ours.id), utc_now())
        await check_idle(store, ours)
        yield claim
    finally:
        if claim is None or not claim.is_at_drone:
            await _release(store, dispatcher, ours, claim_id)


async def check_idle(store: MongoStore, session: ChatSession) -> None:
    """Raises Conflict while a turn of the session waits or runs."""
    if await store.turns.unfinished({"user": session.user, "session": session.id}):
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "A turn of this session is not over; cancel it first.")


async def _release(store: MongoStore, dispatcher: Dispatcher, session: ChatSession, claim: str) -> None:
    try:
        await store.sessions.release_claim(session.id, claim)
    except GadgetError as exc:
        log.warning("the claim of session %s runs out by itself: %s", session.id, exc.message)
    dispatcher.kick(session.user)
