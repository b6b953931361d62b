"""The inquiries of turns, and their answers.

A document is written before the event that asks it counts (`MongoStore.record`), and never overwritten: a repeat
changes nothing. `store.taken` is set when the turn has confirmed the answer, `store.forgetAt` when the turn is over.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError

from gadget_api.events import InquiryAsked
from gadget_api.inquiries import GO_ON, Answer, Inquiry, InquiryAnswer, InquiryKind, InquiryStatus
from gadget_api.model import utc_now
from gadget_api.turns import ChatTurn
from gadget_code.store.records import Document, Records, stamped, store_errors

_CLOSED = [InquiryStatus.ANSWERED, InquiryStatus.EXPIRED]
_MAX_KNOWN = 100
_DOUBT = timedelta(minutes=1)
_KEEP = timedelta(days=30)
"""After the end of its turn. The turn's events keep inquiry and answer."""

INDEXES = [
    IndexModel([("user", 1), ("_id", -1)], name="user"),
    IndexModel([("user", 1), ("status", 1), ("_id", -1)], name="status"),
    IndexModel([("user", 1), ("session", 1), ("_id", -1)], name="session"),
    IndexModel([("turn", 1), ("_id", -1)], name="of a turn"),
    IndexModel([("expiresAt", 1)], name="pending", partialFilterExpression={"status": InquiryStatus.PENDING}),
    IndexModel([("turn", 1), ("status", 1)], name="open", partialFilterExpression={"store.taken": False}),
    IndexModel([("store.forgetAt", 1)], name="expiry", expireAfterSeconds=0, sparse=True),
]


class InquiryStore(Records[Inquiry]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, Inquiry, "inquiry")

    async def ask(self, turn: ChatTurn, events: Sequence[InquiryAsked]) -> None:
        """Stores the inquiries of these events; existing ones stay as they are."""
        for event in events:
            document = stamped(event.inquiry.model_dump(), taken=False, seq=event.seq, counts=False, keptAt=utc_now())
            with store_errors(), suppress(DuplicateKeyError):
                await self.collection.insert_one(document)

    async def unconfirmed(self) -> list[tuple[Inquiry, int]]:
        """Returns pending inquiries whose event has not been confirmed for a minute, with the event's `seq`: a process
        may have died before the event counted."""
        query = {"status": InquiryStatus.PENDING, "store.counts": False, "store.keptAt": {"$lt": utc_now() - _DOUBT}}
        with store_errors():
            documents = await self.collection.find(query).hint("pending").limit(100).to_list()
        return [(self.read(dict(document)), document["store"]["seq"]) for document in documents]

    async def confirm(self, ids: Sequence[str]) -> None:
        """Marks the inquiries as asked by events that count."""
        with store_errors():
            await self.collection.update_many({"_id": {"$in": list(ids)}}, {"$set": {"store.counts": True}})

    async def retract(self, inquiry: Inquiry) -> Inquiry | None:
        """Withdraws an inquiry whose event does not count."""
        pending = {"_id": inquiry.id, "status": InquiryStatus.PENDING}
        return await self.update(pending, {"status": InquiryStatus.WITHDRAWN, "store.taken": True})

    async def answer(self, inquiry: Inquiry, answer: Answer) -> Inquiry | None:
        """Closes a pending inquiry with the user's answer. Returns None when it is closed already."""
        return await self._close(inquiry, InquiryStatus.ANSWERED, answer)

    async def overdue(self) -> list[Inquiry]:
        """Returns pending inquiries whose time is over."""
        return await self.all({"status": InquiryStatus.PENDING, "expiresAt": {"$lte": utc_now()}}, hint="pending")

    async def expire(self, inquiry: Inquiry) -> Inquiry | None:
        """Closes an overdue inquiry with its default. Returns None when it is closed already."""
        return await self._close(inquiry, InquiryStatus.EXPIRED, inquiry.default)

    async def _close(self, inquiry: Inquiry, status: InquiryStatus, answer: Answer) -> Inquiry | None:
        pending = {"_id": inquiry.id, "status": InquiryStatus.PENDING}
        return await self.update(pending, {"status": status, "answer": answer.model_dump(), "answeredAt": utc_now()})

    async def record_answer(self, turn: ChatTurn, answer: InquiryAnswer) -> Inquiry | None:
        """Stores the answer that the turn has used, whatever was stored before. Returns None when that is known.

        A drone that is disconnected for longer than an inquiry lasts uses the default by itself.
        """
        changes = {"status": answer.status, "answer": answer.answer.model_dump(), "store.taken": True}
        unconfirmed = {"_id": answer.inquiry_id, "turn": turn.id, "store.taken": False}
        inquiry = await self.update(unconfirmed, changes)
        if inquiry is not None and inquiry.answered_at is None:
            return await self.update({"_id": inquiry.id}, {"answeredAt": utc_now()})
        return inquiry

    async def close_overtaken(self, turn: ChatTurn, calls: Mapping[str, int]) -> list[Inquiry]:
        """Closes open approvals of these calls, which the turn works on already (call id -> `seq` of an event of its
        work), if they were asked before that. Returns the closed inquiries."""
        overtaken: list[Inquiry] = []
        for call, seq in calls.items():
            approval = {"turn": turn.id, "callId": call, "kind": InquiryKind.APPROVAL}
            for inquiry in await self.all({**approval, "store.taken": False, "store.seq": {"$lt": seq}}, hint="open"):
                withdrawn = {"status": InquiryStatus.WITHDRAWN, "answeredAt": utc_now(), "store.taken": True}
                open_ = {"_id": inquiry.id, "store.taken": False}
                closed = await self.update({**open_, "status": InquiryStatus.PENDING}, withdrawn)
                # Answered meanwhile: it stays answered, but is not delivered.
                closed = closed or await self.update(open_, {"store.taken": True})
                overtaken += [closed] if closed is not None else []
        return overtaken

    async def waits(self, turn: ChatTurn) -> list[tuple[datetime, datetime | None]]:
        """Returns from when to when each of the turn's inquiries was open; None for the end of an open one."""
        with store_errors():
            inquiries = self.collection.find({"turn": turn.id}, {"_id": 0, "createdAt": 1, "answeredAt": 1})
            return [(document["createdAt"], document.get("answeredAt")) async for document in inquiries]

    async def withdraw(self, turn: ChatTurn) -> list[Inquiry]:
        """Withdraws the pending inquiries of a turn that is over, and returns them."""
        with store_errors():
            if await self.collection.find_one({"turn": turn.id}, {"_id": 1}) is None:
                return []
        pending = await self.all({"turn": turn.id, "status": InquiryStatus.PENDING}, hint="of a turn")
        closed = [
            await self.update({"_id": inquiry.id, "status": InquiryStatus.PENDING}, {"status": InquiryStatus.WITHDRAWN})
            for inquiry in pending
        ]
        with store_errors():
            await self.collection.update_many(
                {"turn": turn.id}, {"$set": {"store.taken": True, "store.forgetAt": utc_now() + _KEEP}}
            )
        return [inquiry for inquiry in closed if inquiry is not None]

    async def undelivered_to(self, turn: ChatTurn) -> list[Inquiry]:
        """Returns the turn's inquiries whose answer it has not confirmed, oldest first."""
        return await self.all({"turn": turn.id, "store.taken": False}, hint="open")

    async def newest(self, turn: ChatTurn) -> list[Inquiry]:
        """Returns the turn's newest inquiries. Confirmed ones too: an approved call may not have started before a
        crash."""
        return await self.all({"turn": turn.id}, limit=_MAX_KNOWN, newest_first=True, hint="of a turn")

    async def undelivered(self) -> list[Inquiry]:
        """Returns answered inquiries that their turn has not confirmed."""
        query = {"store.taken": False, "status": {"$in": _CLOSED}}
        with store_errors():
            documents = await self.collection.find(query).hint("open").limit(1000).to_list()
        return [self.read(document) for document in documents]

    async def open_turns(self) -> list[str]:
        """Returns the turns with open or unconfirmed inquiries."""
        with store_errors():
            inquiries = self.collection.find({"store.taken": False}, {"_id": 0, "turn": 1}).hint("open")
            return list({str(document["turn"]) async for document in inquiries})

    async def grants(self, turn: ChatTurn) -> int:
        """Returns how often the user has allowed the turn to exceed its budget."""
        granted = {"turn": turn.id, "kind": InquiryKind.BUDGET, "answer.choice": GO_ON, "store.taken": True}
        with store_errors():
            return await self.collection.count_documents(granted)

    async def count_pending(self) -> int:
        with store_errors():
            return await self.collection.count_documents({"status": InquiryStatus.PENDING}, hint="pending")

    async def delete_turns(self, turns: Sequence[str]) -> None:
        with store_errors():
            await self.collection.delete_many({"turn": {"$in": list(turns)}})


def waited_ms(inquiry: Inquiry) -> int:
    """Returns how long it was open."""
    if inquiry.answered_at is None:
        return 0
    return max(0, int((inquiry.answered_at - inquiry.created_at).total_seconds() * 1000))
