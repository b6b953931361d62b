"""Each user's limit for large outputs and images, in bytes.

There is no counter: an addition sums up an index. So deleting and expiry free space, and no crash leaves a wrong sum.
An addition and its sum are one transaction, which also writes to the user's document in `quotas`, so that the second of
two at once is retried and sees the first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from gadget_api.errors import StorageFull
from gadget_api.usage import StorageUsage
from gadget_code.store.records import Document, store_errors
from gadget_code.store.transactions import in_transaction

MB = 1_000_000


class Quota:
    def __init__(self, database: AsyncDatabase[Document], max_bytes: int) -> None:
        """`max_bytes`: of all blobs and images of one user."""
        self._database = database
        self._max_bytes = max_bytes
        self._adding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """User -> lock. Additions in one process wait for each other instead of being retried."""

    async def used(self, user: str) -> StorageUsage:
        with store_errors():
            return await self._used(user, None)

    async def add(self, user: str, write: Callable[[AsyncClientSession], Awaitable[int]]) -> None:
        """Runs `write`, which writes documents of `user` in the given transaction and returns by how many bytes they
        grew. Raises StorageFull, and writes nothing, when they grow beyond the limit."""

        async def write_and_check(session: AsyncClientSession) -> None:
            serial: Document = {"$inc": {"additions": 1}}
            await self._database.quotas.update_one({"_id": user}, serial, upsert=True, session=session)
            if await write(session) > 0:
                self._check(await self._used(user, session))

        async with self._adding.setdefault(user, asyncio.Lock()):
            await in_transaction(self._database.quotas, write_and_check)

    async def check(self, user: str) -> None:
        """Raises StorageFull."""
        self._check(await self.used(user))

    def _check(self, used: StorageUsage) -> None:
        if used.bytes > self._max_bytes:
            raise StorageFull(
                f"Your large outputs and images may have {self._max_bytes // MB:,} MB in all. Delete sessions that "
                "you no longer need, or ask the administrator for more (GADGET_STORAGE_MB)."
            )

    async def _used(self, user: str, session: AsyncClientSession | None) -> StorageUsage:
        blobs, images = [await self._sum(name, user, session) for name in ("blobs", "images")]
        return StorageUsage(blob_bytes=blobs, image_bytes=images, max_bytes=self._max_bytes)

    async def _sum(self, collection: str, user: str, session: AsyncClientSession | None) -> int:
        pipeline: list[Document] = [
            {"$match": {"user": user}},
            {"$group": {"_id": None, "bytes": {"$sum": "$sizeBytes"}}},
        ]
        sums = await self._database[collection].aggregate(pipeline, session=session, hint="quota")
        return sum([int(row["bytes"]) async for row in sums])
