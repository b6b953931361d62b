"""The events of turns, each a document of its own: a turn has no size limit.

`{_id: "<turn>:<seq>", turn, agent, seq, epoch, type, body, schemaVersion}`: `body` is the event's JSON as it is on the
wire, so that neither unusual keys in a tool's parameters nor BSON limits change it. `_id` makes `(turn, seq)` unique,
and its index gives the order of the stream. A second, small index finds the history and content of one agent of a turn;
`agent` is null for the turn's own.

An event counts when its turn's `lastSeq` has reached it (`MongoStore.record`). Events beyond come from a process that
died or was too late, and are overwritten. So every reader has to give the turn's `lastSeq`.

A delta also has `expireAt`; MongoDB deletes it some time after that. The steps and tool results, which contain what
deltas contain, stay as long as their session.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from gadget_api.events import DELTA_TYPES, HISTORY_TYPES, SHOWN_TYPES
from gadget_api.model import utc_now
from gadget_code.store.records import SCHEMA_VERSION, Document, store_errors
from gadget_code.store.write_batcher import WriteBatcher

_DUPLICATE_KEY = 11000

_CONTENT: Document = {"type": {"$in": list(SHOWN_TYPES)}}

INDEXES = [
    IndexModel([("turn", 1), ("agent", 1), ("seq", 1)], name="agent_content", partialFilterExpression=_CONTENT),
    IndexModel([("expireAt", 1)], name="expiry", expireAfterSeconds=0, sparse=True),
]


@dataclass(frozen=True)
class StoredEvent:
    seq: int
    epoch: int
    type: str
    body: str
    """The event as JSON."""
    agent: str | None = None
    """The id of its agent; None: the turn's own."""

    @classmethod
    def of(cls, document: Document) -> "StoredEvent":
        return cls(document["seq"], document["epoch"], document["type"], document["body"], document.get("agent"))

    def parsed(self) -> dict[str, Any]:
        event: dict[str, Any] = orjson.loads(self.body)
        return event


def _key(turn: str, seq: int) -> str:
    return f"{turn}:{seq:010d}"


def document_of(turn: str, event: StoredEvent) -> Document:
    return {
        "_id": _key(turn, event.seq),
        "turn": turn,
        "agent": event.agent,
        "seq": event.seq,
        "epoch": event.epoch,
        "type": event.type,
        "body": event.body,
        "schemaVersion": SCHEMA_VERSION,
    }


def _between(turn: str, after: int, up_to: int) -> Document:
    return {"_id": {"$gt": _key(turn, after), "$lte": _key(turn, up_to)}}


class EventStore:
    def __init__(self, collection: AsyncCollection[Document], keep_deltas: timedelta | None) -> None:
        self.collection = collection
        self._keep_deltas = keep_deltas
        """How long deltas are kept; None: as long as their session."""
        self._inserts = WriteBatcher(
            self._insert, lambda documents: sum(len(document["body"]) for document in documents)
        )

    async def put(self, turn: str, events: Sequence[StoredEvent]) -> bool:
        """Stores a group and overwrites events of earlier epochs. A majority has it when this returns. Returns False
        when a later epoch has stored these. The events do not count yet: see `MongoStore.record`."""
        documents = [document_of(turn, event) for event in events]
        if self._keep_deltas is not None:
            expire_at = utc_now() + self._keep_deltas
            for document in documents:
                if document["type"] in DELTA_TYPES:
                    document["expireAt"] = expire_at
        with store_errors():
            for document in await self._inserts.write(documents):
                earlier = {"_id": document["_id"], "epoch": {"$lte": document["epoch"]}}
                if not (await self.collection.replace_one(earlier, document)).matched_count:
                    return False
        return True

    async def _insert(self, groups: Sequence[Sequence[Document]]) -> list[list[Document] | BaseException]:
        """Inserts the groups of several turns. Returns for each group the documents that exist already."""
        documents = [document for group in groups for document in group]
        try:
            await self.collection.insert_many(documents, ordered=False)
        except BulkWriteError as exc:
            if exc.details["writeConcernErrors"]:  # inserted, but no majority has confirmed it
                raise
            failed = {error["index"]: error["code"] for error in exc.details["writeErrors"]}
        else:
            return [[] for _ in groups]
        there: list[list[Document] | BaseException] = []
        start = 0
        for group in groups:
            codes = {index - start: failed[index] for index in range(start, start + len(group)) if index in failed}
            start += len(group)
            if all(code == _DUPLICATE_KEY for code in codes.values()):
                there.append([group[index] for index in codes])
            else:
                there.append(OperationFailure("an event was not stored"))
        return there

    async def after(self, turn: str, seq: int, *, up_to: int, limit: int) -> list[StoredEvent]:
        """Returns the next `limit` events of a turn after `seq`, in order."""
        cursor = self.collection.find(_between(turn, seq, up_to)).sort("_id", 1).limit(limit)
        with store_errors():
            return [StoredEvent.of(document) for document in await cursor.to_list(limit)]

    def replay(self, turn: str, seq: int, *, up_to: int) -> AsyncIterator[StoredEvent]:
        """Yields all events of a turn after `seq`, in order, a few in memory at a time."""
        return self._in_order(_between(turn, seq, up_to))

    async def span(self, turn: str, *, up_to: int) -> tuple[datetime, datetime] | None:
        """Returns the times of a turn's first and last event, of those that still exist."""
        ends = []
        for order in (1, -1):
            with store_errors():
                document = await self.collection.find_one(_between(turn, 0, up_to), sort=[("_id", order)])
            if document is None:
                return None
            ends.append(datetime.fromisoformat(StoredEvent.of(document).parsed()["at"]))
        return ends[0], ends[1]

    async def last_up_to_epoch(self, turn: str, epoch: int, seq: int) -> int:
        """Returns the highest seq up to `seq` of an event of `epoch` or an earlier one; 0 when there is none.

        Epochs never decrease along a stream, so this is a binary search. Where an event has expired, the one before it
        decides.
        """
        low, high = 0, seq
        while low < high:
            middle = (low + high + 1) // 2
            with store_errors():
                newest = {"filter": _between(turn, 0, middle), "sort": [("_id", -1)]}
                document = await self.collection.find_one(**newest, projection={"seq": 1, "epoch": 1})
            if document is None or document["epoch"] <= epoch:
                low = middle
            else:
                high = document["seq"] - 1
        return low

    def history(self, turn: str, agent: str | None = None, *, after: int = 0, up_to: int) -> AsyncIterator[StoredEvent]:
        """Yields an agent's `HISTORY_TYPES` events after a seq, in order."""
        return self._of_types(HISTORY_TYPES, turn, agent, after, up_to)

    def content(self, turn: str, agent: str | None = None, *, after: int = 0, up_to: int) -> AsyncIterator[StoredEvent]:
        """Yields an agent's `SHOWN_TYPES` events after a seq, in order."""
        return self._of_types(SHOWN_TYPES, turn, agent, after, up_to)

    async def _of_types(
        self, types: Collection[str], turn: str, agent: str | None, after: int, up_to: int
    ) -> AsyncIterator[StoredEvent]:
        # The index's filter has to be in the query, too: MongoDB does not see that these types are a subset.
        of_types = {"$and": [_CONTENT, {"type": {"$in": list(types)}}]}
        query = {"turn": turn, "agent": agent, "seq": {"$gt": after, "$lte": up_to}, **of_types}
        with store_errors():
            async for document in self.collection.find(query).sort("seq", 1).hint("agent_content").batch_size(200):
                yield StoredEvent.of(document)

    def without_deltas(self, turn: str, *, up_to: int) -> AsyncIterator[StoredEvent]:
        """Yields a turn's events except deltas, in order."""
        return self._in_order({**_between(turn, 0, up_to), "type": {"$nin": list(DELTA_TYPES)}})

    async def _in_order(self, query: Document) -> AsyncIterator[StoredEvent]:
        with store_errors():
            async for document in self.collection.find(query).sort("_id", 1).batch_size(100):
                yield StoredEvent.of(document)

    async def delete_turns(self, turns: Sequence[str]) -> None:
        with store_errors():
            for turn in turns:
                # ";" sorts just after ":", and so after all keys of the turn.
                await self.collection.delete_many({"_id": {"$gt": f"{turn}:", "$lt": f"{turn};"}})
