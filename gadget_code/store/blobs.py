"""Large tool outputs, in parts, because MongoDB documents have at most 16 MB.

A drone stores a blob part by part, each at its offset. It may repeat a part: the same offset is the same document.
"""

from collections.abc import AsyncIterator

from pymongo import IndexModel
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import InvalidInput, NotFound, StorageFull, TooLarge
from gadget_code.store.quota import Quota
from gadget_code.store.records import SCHEMA_VERSION, Document, store_errors

PART_BYTES = 8 * 1024 * 1024
"""The size of every part but the last."""
MAX_BLOB_BYTES = 512 * 1024 * 1024

INDEXES = [IndexModel([("turn", 1)], name="turn"), IndexModel([("user", 1), ("sizeBytes", 1)], name="quota")]


class BlobStore:
    def __init__(self, collection: AsyncCollection[Document], quota: Quota) -> None:
        self.collection = collection
        self._quota = quota

    async def put(self, user: str, turn: str, blob: str, offset: int, data: bytes) -> None:
        """Stores a part of a blob of the user's turn. Raises InvalidInput for an offset that is not a multiple of the
        part size, TooLarge, and StorageFull, which deletes the whole blob."""
        if offset % PART_BYTES or len(data) > PART_BYTES:
            raise InvalidInput(f"A blob is stored in parts of {PART_BYTES} bytes, each at its offset.")
        if offset + len(data) > MAX_BLOB_BYTES:
            raise TooLarge(f"A blob has at most {MAX_BLOB_BYTES} bytes.")
        part = {
            "user": user,
            "turn": turn,
            "offset": offset,
            "sizeBytes": len(data),
            "data": data,
            "schemaVersion": SCHEMA_VERSION,
        }

        key = {"_id": f"{turn}:{blob}:{offset:012d}"}

        async def write(session: AsyncClientSession) -> int:
            before = await self.collection.find_one_and_replace(
                key, part, projection={"sizeBytes": 1}, upsert=True, session=session
            )
            return len(data) - (before["sizeBytes"] if before else 0)

        try:
            await self._quota.add(user, write)
        except StorageFull:
            # An incomplete blob is of no use, and takes the space of smaller ones.
            with store_errors():
                await self.collection.delete_many(_parts(turn, blob))
            raise

    async def read(self, turn: str, blob: str) -> AsyncIterator[bytes]:
        """Yields the blob's parts in order. Raises NotFound before the first when there is none."""
        with store_errors():
            parts = self.collection.find(_parts(turn, blob)).sort("_id", 1)
            exists = False
            async for part in parts.batch_size(1):
                exists = True
                yield bytes(part["data"])
        if not exists:
            raise NotFound("blob")

    async def copy(self, turn: str, copy: str) -> None:
        """Copies the turn's blobs to another turn, inside the database."""
        tail = {"$substrBytes": ["$_id", len(turn), {"$strLenBytes": "$_id"}]}
        pipeline: list[Document] = [
            {"$match": {"turn": turn}},
            {"$set": {"turn": copy, "_id": {"$concat": [copy, tail]}}},
            {"$merge": {"into": self.collection.name, "whenMatched": "keepExisting"}},
        ]
        with store_errors():
            await (await self.collection.aggregate(pipeline)).to_list()

    async def delete_turns(self, turns: list[str]) -> None:
        with store_errors():
            await self.collection.delete_many({"turn": {"$in": turns}})


def _parts(turn: str, blob: str) -> Document:
    """Matches the parts of a blob."""
    return {"_id": {"$gte": f"{turn}:{blob}:", "$lt": f"{turn}:{blob};"}}
