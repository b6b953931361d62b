"""Chat sessions.

`store.claim` is who takes a session back just now (`{id, until}`), `store.revertedAfter` the newest turn that it had
when it was taken back last.
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
        """A session that was made before there were levels has the one of its mode."""
        if "level" not in document and document.get("mode") == SessionMode.PLAN:
            document["level"] = PermissionLevel.PLAN
        return super().read(document)

    async def listed(
        self, user: str, *, project: str | None, archived: bool, pinned: bool, limit: int, cursor: str | None
    ) -> Page[ChatSession]:
        """The user's sessions that are not archived, or those that are; of a project, and pinned ones alone, if so
        asked."""
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
            hint = "archived" if project is None else None  # few of a project or most: MongoDB finds out which
        else:
            hint = "listed" if project is None else "project"
        return await self.page(query, limit=limit, cursor=cursor, hint=hint)

    async def add_rule(self, session: str, rule: Rule) -> ChatSession | None:
        """None when it has the rule, or `MAX_RULES` others."""
        return await self.update(without_rule(session, rule), {}, push={"rules": rule.model_dump()})

    async def claim(self, session: str, claim: str, for_s: float) -> ChatSession | None:
        """The session, which nobody else may claim for `for_s` seconds; None when somebody has."""
        now = utc_now()
        free = {"_id": session, "store.claim.until": {"$not": {"$gt": now}}}
        return await self.update(free, {"store.claim": {"id": claim, "until": now + timedelta(seconds=for_s)}})

    async def with_claim(self, user: str, session: str) -> tuple[ChatSession, bool]:
        """The user's session, and whether somebody has claimed it. Raises NotFound."""
        with store_errors():
            document = await self.collection.find_one({"_id": session, "user": user})
        if document is None:
            raise NotFound(self.noun)
        claim = document.get("store", {}).get("claim")
        return self.read(document), claim is not None and claim["until"] > utc_now()

    async def locks(self, user: str) -> dict[str, str]:
        """By each locked drone of the user: the session that it is kept for."""
        with store_errors():
            found = self.collection.find({"user": user, **_LOCKED}, {"lock.droneId": 1})
            return {document["lock"]["droneId"]: str(document["_id"]) async for document in found}

    async def release_claim(self, session: str, claim: str) -> None:
        await self.update({"_id": session, "store.claim.id": claim}, {}, unset={"store.claim": ""})

    async def reverted_after(self, session: str) -> str | None:
        """The newest turn that the session had when it was taken back last."""
        with store_errors():
            document = await self.collection.find_one({"_id": session}, {"store.revertedAfter": 1})
        return None if document is None else document.get("store", {}).get("revertedAfter")


def without_rule(record: str, rule: Rule) -> dict[str, Any]:
    """Matches the session or project of this id when it may take `rule` and does not have it."""
    return {"_id": record, "rules": {"$ne": rule.model_dump()}, f"rules.{MAX_RULES - 1}": {"$exists": False}}
