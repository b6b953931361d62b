"""Transactions, for rare changes that must be atomic.

The steps of a turn do without (`MongoStore.record`): when a process dies in a transaction, the documents that it wrote
stay locked until the server ends it (60 s).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymongo import WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from gadget_code.store.records import store_errors

_ATTEMPTS = 5
_AGAIN_S = 0.05
_COMMIT_MS = 5000

ResultT = TypeVar("ResultT")


async def in_transaction(
    collection: AsyncCollection[Any], work: Callable[[AsyncClientSession], Awaitable[ResultT]]
) -> ResultT:
    """Runs `work` in a transaction and returns its result. Retries `work` after a conflicting write, so it must be safe
    to repeat. Raises its exceptions, and Unavailable."""
    snapshot, majority = ReadConcern("snapshot"), WriteConcern("majority")
    with store_errors():
        for attempt in range(_ATTEMPTS):
            try:
                async with (
                    collection.database.client.start_session() as session,
                    await session.start_transaction(snapshot, majority, max_commit_time_ms=_COMMIT_MS),
                ):
                    result = await work(session)
                return result
            except PyMongoError as exc:
                if attempt == _ATTEMPTS - 1 or not exc.has_error_label("TransientTransactionError"):
                    raise
                await asyncio.sleep(_AGAIN_S * attempt)
    raise AssertionError("the last attempt answers or raises")
