"""Deletes a session's content: its turns with their events, outputs, inquiries and images."""

import asyncio
import logging
from datetime import timedelta

from gadget_api.errors import GadgetError
from gadget_api.model import utc_now
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_EVERY_S = 24 * 3600.0
_AGE = timedelta(hours=1)
"""A session that is being forked has no document for some seconds."""


async def delete_content(store: MongoStore, user: str, session: str) -> None:
    """Deletes the content after the session's own document. The turns come last: `delete_orphans` finds the rest
    through them when this process dies."""
    turns = [turn for turn, _ in await store.turns.from_turn(session, "0")]
    await store.events.delete_turns(turns)
    await store.blobs.delete_turns(turns)
    await store.inquiries.delete_turns(turns)
    await store.images.release(user, await store.turns.images_only_in(session))
    await store.turns.delete_session(session)


async def delete_orphans(store: MongoStore, age: timedelta = _AGE) -> None:
    """Deletes what a fork or a deletion left when its process died, unless the session has a turn younger than
    `age`."""
    for user, session in await store.turns.orphaned_sessions(utc_now() - age):
        log.info("deleting the remains of session %s", session)
        await delete_content(store, user, session)


async def delete_orphans_daily(store: MongoStore) -> None:
    """Runs `delete_orphans` at the start and once a day."""
    while True:
        try:
            await delete_orphans(store)
        except GadgetError as exc:
            log.warning("orphans are deleted later: %s", exc.message)
        await asyncio.sleep(_EVERY_S)
