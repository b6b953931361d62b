"""Large tool output, whole: in parts, as MongoDB documents end at 16 MB.

A drone puts a blob part by part, each at its offset, and may put a part again after a break: the same offset is
the same document.
"""

from collections.abc import AsyncIterator

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import InvalidInput, NotFound, TooLarge
from gadget_code.store.records import SCHEMA_VERSION, Document, store_errors

PART_BYTES = 8 * 1024 * 1024
"""Every part but the last has this size."""
MAX_BLOB_BYTES = 512 * 1024 * 1024

INDEXES = [IndexModel([("turn", 1)], name="turn")]


class BlobStore:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self.collection = collection

    async def put(self, turn: str, blob: str, offset: int, data: bytes) -> None:
        """Raises InvalidInput for an offset off the grid of parts, TooLarge past the cap."""
        if offset % PART_BYTES or len(data) > PART_BYTES:
            raise InvalidInput(f"A blob is put in parts of {PART_BYTES} bytes, each at its offset.")
        if offset + len(data) > MAX_BLOB_BYTES:
            raise TooLarge(f"A blob has at most {MAX_BLOB_BYTES} bytes.")
        part = {"turn": turn, "offset": offset, "data": data, "schemaVersion": SCHEMA_VERSION}
        with store_errors():
            await self.collection.replace_one({"_id": f"{turn}:{blob}:{offset:012d}"}, part, upsert=True)

    async def read(self, turn: str, blob: str) -> AsyncIterator[bytes]:
        """The blob's parts in order. Raises NotFound before the first when there is none."""
        prefix = f"{turn}:{blob}:"
        with store_errors():
            parts = self.collection.find({"_id": {"$gte": prefix, "$lt": prefix[:-1] + ";"}}).sort("_id", 1)
            found = False
            async for part in parts.batch_size(1):
                found = True
                yield bytes(part["data"])
        if not found:
            raise NotFound("blob")

    async def copy(self, turn: str, copy: str) -> None:
        """The turn's blobs for another turn, copied by the database itself."""
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
