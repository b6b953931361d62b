"""Long histories, made of one real turn: copies of its documents, straight into the store."""

from dataclasses import dataclass
from typing import Any, Self

from gadget_api.ids import new_id

Document = dict[str, Any]

_BATCH = 5_000


@dataclass(frozen=True)
class Template:
    database: Any
    """PyMongo's, asynchronous."""
    turn: Document
    events: list[Document]

    @classmethod
    async def of(cls, database: Any, turn: str) -> Self:
        """A turn that is over, and its events."""
        document = await database.turns.find_one({"_id": turn})
        assert document is not None
        return cls(database, document, [event async for event in database.events.find({"turn": turn})])

    async def copy(self, session: str, count: int) -> None:
        """So many copies as the newest turns of `session`, each with ids of its own, of its tool calls, too."""
        old, was_in = self.turn["_id"], self.turn["session"]
        turns: list[Document] = []
        copies: list[Document] = []
        for _ in range(count):
            fresh = new_id()
            turns.append({**self.turn, "_id": fresh, "session": session, "promptId": fresh})
            for event in self.events:
                body = event["body"].replace(old, fresh).replace(was_in, session).replace("call_", f"call_{fresh}_")
                copies.append({**event, "_id": event["_id"].replace(old, fresh), "turn": fresh, "body": body})
        await self.database.turns.insert_many(turns, ordered=False)
        for start in range(0, len(copies), _BATCH):
            await self.database.events.insert_many(copies[start : start + _BATCH], ordered=False)
