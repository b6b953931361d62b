"""Chat sessions."""

from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.permissions import MAX_RULES, PermissionLevel, Rule
from gadget_api.sessions import ChatSession, SessionMode
from gadget_code.store.records import Document, Records

INDEXES = [IndexModel([("user", 1), ("_id", -1)], name="user")]


class SessionStore(Records[ChatSession]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, ChatSession, "session")

    def read(self, document: Document) -> ChatSession:
        """A session that was made before there were levels has the one of its mode."""
        if "level" not in document and document.get("mode") == SessionMode.PLAN:
            document["level"] = PermissionLevel.PLAN
        return super().read(document)

    async def add_rule(self, session: str, rule: Rule) -> ChatSession | None:
        """None when it has the rule, or `MAX_RULES` others."""
        return await self.update(without(session, rule), {}, push={"rules": rule.model_dump()})


def without(record: str, rule: Rule) -> dict[str, Any]:
    """Matches the session or project of this id when it may take `rule` and does not have it."""
    return {"_id": record, "rules": {"$ne": rule.model_dump()}, f"rules.{MAX_RULES - 1}": {"$exists": False}}
