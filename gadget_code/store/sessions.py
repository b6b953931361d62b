"""Chat sessions.

`store.claim` is the running revert or redo (`{id, until}`), `store.revertedAfter` the newest turn at the time of the
last revert.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.errors import NotFound
from gadget_api.model import utc_now
from gadget_api.permissions import MAX_RULES, PermissionLevel, Rule
from gadget_api.sessions import ChatSession, SessionMode
from gadget_code.store.records import Document, Page, Records, store_errors

_LOCKED = {"lock.droneId": {"$gt": ""}}
_EVER = {"$gt": datetime.fromtimestamp(0, UTC)}

INDEXES = [
    IndexModel([("user", 1), ("_id", -1)], name="user"),
    IndexModel([("user", 1), ("archivedAt", 1), ("_id", -1)], name="listed"),
    IndexModel([("user", 1), ("_id", -1)], name="archived", partialFilterExpression={"archivedAt": _EVER}),
    IndexModel([("user", 1), ("_id", -1)], name="pinned", partialFilterExpression={"pinnedAt": _EVER}),
    IndexModel([("user", 1), ("project", 1), ("archivedAt", 1), ("_id", -1)], name="project"),
    IndexModel([("user", 1), ("provider", 1)], name="provider"),
    IndexModel([("user", 1), ("lock.droneId", 1)], name="locks", partialFilterExpression=_LOCKED),
]


class SessionStore(Records[ChatSession]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, ChatSession, "session")

    def read(self, document: Document) -> ChatSession:
        """Reads a session. One that is older than permission levels gets the level of its mode."""
        if "level" not in document and document.get("mode") == SessionMode.PLAN:
            document["level"] = PermissionLevel.PLAN
        return super().read(document)

    async def listed(
        self, user: str, *, project: str | None, archived: bool, pinned: bool, limit: int, cursor: str | None
    ) -> Page[ChatSession]:
        """Returns a page of the user's sessions: archived or not, of one project or all, pinned only or all."""
        query = {
            "user": user,
            "archivedAt": _EVER if archived else None,
            **({"project": project} if project is not None else {}),
            **({"pinnedAt": _EVER} if pinned else {}),
        }
        hint: str | None
        if pinned:
            hint = "pinned"
        elif archived:
            hint = "archived" if project is None else None  # MongoDB decides: a project may have few of them or most
        else:
            hint = "listed" if project is None else "project"
        return await self.page(query, limit=limit, cursor=cursor, hint=hint)

    async def add_rule(self, session: str, rule: Rule) -> ChatSession | None:
        """Returns None when it has the rule already, or `MAX_RULES` others."""
        return await self.update(without_rule(session, rule), {}, push={"rules": rule.model_dump()})

    async def claim(self, session: str, claim: str, for_s: float) -> ChatSession | None:
        """Claims the session for `for_s` seconds. Returns None when it is claimed already."""
        now = utc_now()
        free = {"_id": session, "store.claim.until": {"$not": {"$gt": now}}}
        return await self.update(free, {"store.claim": {"id": claim, "until": now + timedelta(seconds=for_s)}})

    async def with_claim(self, user: str, session: str) -> tuple[ChatSession, bool]:
        """Returns the user's session, and whether it is claimed. Raises NotFound."""
        with store_errors():
            document = await self.collection.find_one({"_id": session, "user": user})
        if document is None:
            raise NotFound(self.noun)
        claim = document.get("store", {}).get("claim")
        return self.read(document), claim is not None and claim["until"] > utc_now()

    async def locks(self, user: str) -> dict[str, str]:
        """Returns locked drone -> the session that it is locked for."""
        with store_errors():
            sessions = self.collection.find({"user": user, **_LOCKED}, {"lock.droneId": 1})
            return {document["lock"]["droneId"]: str(document["_id"]) async for document in sessions}

    async def release_claim(self, session: str, claim: str) -> None:
        await self.update({"_id": session, "store.claim.id": claim}, {}, unset={"store.claim": ""})

    async def reverted_after(self, session: str) -> str | None:
        """Returns the session's newest turn at the time of its last revert."""
        with store_errors():
            document = await self.collection.find_one({"_id": session}, {"store.revertedAfter": 1})
        return None if document is None else document.get("store", {}).get("revertedAfter")


def without_rule(record: str, rule: Rule) -> dict[str, Any]:
    """Matches the session or project when it may take `rule` and does not have it."""
    return {"_id": record, "rules": {"$ne": rule.model_dump()}, f"rules.{MAX_RULES - 1}": {"$exists": False}}
