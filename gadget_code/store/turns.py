"""Turns as documents: what their events add up to."""

from collections.abc import Mapping
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import Conflict
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.store.records import Document, Records, store_errors

INDEXES = [
    IndexModel([("session", 1), ("_id", -1)], name="session"),
    IndexModel([("session", 1), ("promptId", 1)], name="prompt", unique=True),
    IndexModel(
        [("status", 1), ("user", 1), ("_id", 1)],
        name="unfinished",
        partialFilterExpression={"status": {"$in": [ChatTurnStatus.QUEUED, ChatTurnStatus.PROCESSING]}},
    ),
]


class TurnStore(Records[ChatTurn]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, ChatTurn, "turn")

    async def submit(self, turn: ChatTurn) -> tuple[ChatTurn, bool]:
        """Stores a new turn, or answers the one that the same prompt made before; and whether it is new."""
        try:
            return await self.insert(turn), True
        except Conflict:
            earlier = await self.find({"session": turn.session, "promptId": turn.prompt_id})
            if earlier is None:
                raise
            return earlier, False

    async def unfinished(self, query: Mapping[str, Any]) -> list[ChatTurn]:
        """Queued and processing turns, oldest first."""
        statuses = [ChatTurnStatus.QUEUED, ChatTurnStatus.PROCESSING]
        return await self.all({"status": {"$in": statuses}, **query})

    async def users_with_queued(self) -> list[str]:
        with store_errors():
            return list(await self.collection.distinct("user", {"status": ChatTurnStatus.QUEUED}))

    async def before(self, turn: ChatTurn) -> str | None:
        """The id of the session's turn just before this one."""
        with store_errors():
            document = await self.collection.find_one(
                {"session": turn.session, "_id": {"$lt": turn.id}}, {"_id": 1}, sort=[("_id", -1)]
            )
        return None if document is None else str(document["_id"])

    async def in_order(self, session: str, *, after: str | None, up_to: str, limit: int) -> list[ChatTurn]:
        """The session's turns after one and up to another, oldest first."""
        window: dict[str, str] = {"$lte": up_to}
        if after is not None:
            window["$gt"] = after
        return await self.all({"session": session, "_id": window}, limit=limit)

    async def from_turn(self, session: str, turn: str) -> list[str]:
        """The ids of the session's turns from this one on, oldest first."""
        with store_errors():
            documents = self.collection.find({"session": session, "_id": {"$gte": turn}}, {"_id": 1}).sort("_id", 1)
            return [str(document["_id"]) async for document in documents]

    async def delete_session(self, session: str) -> None:
        with store_errors():
            await self.collection.delete_many({"session": session})

    async def count_by_status(self) -> dict[str, int]:
        with store_errors():
            rows = await (await self.collection.aggregate([{"$group": {"_id": "$status", "n": {"$sum": 1}}}])).to_list()
        return {row["_id"]: row["n"] for row in rows}
