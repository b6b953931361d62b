"""The events of turns, each a document of its own: a turn has no size limit.

`{_id: "<turn>:<seq>", turn, seq, type, body, schemaVersion}`: `body` is the event's JSON, byte for byte as it goes
over the wire, so that neither a strange key in a tool's parameters nor a BSON limit changes what was said. `_id` makes
`(turn, seq)` unique and its index is the order of the stream; a second, small index finds a turn's history events.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError

from gadget_api.events import HISTORY_TYPES
from gadget_code.store.records import SCHEMA_VERSION, Document, store_errors

_DUPLICATE_KEY = 11000

INDEXES = [
    IndexModel(
        [("turn", 1), ("seq", 1)],
        name="history",
        partialFilterExpression={"type": {"$in": list(HISTORY_TYPES)}},
    )
]


@dataclass(frozen=True)
class StoredEvent:
    seq: int
    type: str
    body: str
    """The event as JSON."""

    def parsed(self) -> dict[str, Any]:
        event: dict[str, Any] = orjson.loads(self.body)
        return event


def _key(turn: str, seq: int) -> str:
    return f"{turn}:{seq:010d}"


def document_of(turn: str, event: StoredEvent) -> Document:
    return {
        "_id": _key(turn, event.seq),
        "turn": turn,
        "seq": event.seq,
        "type": event.type,
        "body": event.body,
        "schemaVersion": SCHEMA_VERSION,
    }


def _later_than(turn: str, seq: int) -> Document:
    # ";" sorts just above ":", and so above all keys of the turn.
    return {"_id": {"$gt": _key(turn, seq), "$lt": f"{turn};"}}


class EventStore:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self.collection = collection

    async def append(self, turn: str, events: Sequence[StoredEvent]) -> None:
        """Stores a group; what is stored already stays as it is. Returns after a majority has it."""
        with store_errors():
            try:
                await self.collection.insert_many([document_of(turn, event) for event in events], ordered=False)
            except BulkWriteError as exc:
                if any(error["code"] != _DUPLICATE_KEY for error in exc.details["writeErrors"]):
                    raise

    async def after(self, turn: str, seq: int, *, limit: int) -> list[StoredEvent]:
        """The next `limit` events of a turn after `seq`, in order."""
        with store_errors():
            documents = await self.collection.find(_later_than(turn, seq)).sort("_id", 1).limit(limit).to_list(limit)
        return [StoredEvent(d["seq"], d["type"], d["body"]) for d in documents]

    async def replay(self, turn: str, seq: int) -> AsyncIterator[StoredEvent]:
        """All events of a turn after `seq`, in order, a few in memory at a time."""
        with store_errors():
            async for d in self.collection.find(_later_than(turn, seq)).sort("_id", 1).batch_size(100):
                yield StoredEvent(d["seq"], d["type"], d["body"])

    async def last_seq(self, turn: str) -> int:
        """0 when the turn has no event yet."""
        with store_errors():
            document = await self.collection.find_one(_later_than(turn, 0), {"seq": 1}, sort=[("_id", -1)])
        return 0 if document is None else int(document["seq"])

    async def history(self, turn: str, *, after: int = 0, batch: int = 200) -> AsyncIterator[StoredEvent]:
        """A turn's `HISTORY_TYPES` events after `seq`, in order."""
        query = {"turn": turn, "type": {"$in": list(HISTORY_TYPES)}, "seq": {"$gt": after}}
        with store_errors():
            async for d in self.collection.find(query).sort("seq", 1).hint("history").batch_size(batch):
                yield StoredEvent(d["seq"], d["type"], d["body"])

    async def delete_turns(self, turns: Sequence[str]) -> None:
        with store_errors():
            for turn in turns:
                await self.collection.delete_many(_later_than(turn, 0))
