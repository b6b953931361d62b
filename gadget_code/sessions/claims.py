"""Claims: a revert or redo owns its session exclusively, across all web processes.

The claim is in the session's document, and expires when its process dies. While it holds, no other revert starts and
the dispatcher offers no turn of the session. The claim is written before the check for unfinished turns, and the
dispatcher checks the claim after a turn is stored: so either the check finds the turn, or the dispatcher finds the
claim.
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
"""Seconds that a drone may take to restore a large project. It stops by itself after 120 s, and may first have to
finish a diff, which stops after 30 s. So a late reply is not a lost one."""
CLAIM_S = RESTORE_S + 30.0


@dataclass
class Claim:
    """A session that this revert or redo owns."""

    id: str
    session: ChatSession
    """The session when it was claimed."""
    newest: str | None
    """The session's newest turn at that time. Later turns are ignored."""
    at: datetime
    is_at_drone: bool = False
    """Whether a drone may be changing the files. The claim is not released then; it expires."""


@asynccontextmanager
async def claimed(store: MongoStore, dispatcher: Dispatcher, session: ChatSession) -> AsyncIterator[Claim]:
    """Claims an idle session while the context is open. Raises Conflict when it is claimed or not idle."""
    claim_id = new_id()
    claimed_session = await store.sessions.claim(session.id, claim_id, CLAIM_S)
    if claimed_session is None:
        raise Conflict(
            ErrorCode.TURN_NOT_RUNNING, "A revert or redo of this session is running; try again.", retryable=True
        )
    claim = None
    try:
        claim = Claim(claim_id, claimed_session, await store.turns.newest(session.id), utc_now())
        await check_idle(store, claimed_session)
        yield claim
    finally:
        if claim is None or not claim.is_at_drone:
            await _release(store, dispatcher, session, claim_id)


async def check_idle(store: MongoStore, session: ChatSession) -> None:
    """Raises Conflict while a turn of the session waits or runs."""
    if await store.turns.unfinished({"user": session.user, "session": session.id}):
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "A turn of this session is not over; cancel it first.")


async def _release(store: MongoStore, dispatcher: Dispatcher, session: ChatSession, claim: str) -> None:
    try:
        await store.sessions.release_claim(session.id, claim)
    except GadgetError as exc:
        log.warning("the claim of session %s was not released and will expire: %s", session.id, exc.message)
    dispatcher.kick(session.user)
