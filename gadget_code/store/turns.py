"""Turns as documents: the fold of their events, and their status."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.budgets import BudgetUsage
from gadget_api.drones import DroneRegistration
from gadget_api.errors import Conflict, NotFound
from gadget_api.ids import first_id, id_after, new_id
from gadget_api.model import utc_now
from gadget_api.turn_states import COMPLETE, END, REFUSE, Transition
from gadget_api.turns import MAX_STEERS, ChatTurn, ChatTurnStatus, Steer, Waiting
from gadget_code.store.records import Document, Records, store_errors
from gadget_code.store.write_batcher import WriteBatcher

UNFINISHED = [ChatTurnStatus.QUEUED, ChatTurnStatus.PROCESSING]

PAID = {"store.copyOf": None}
"""Matches turns that cost something: copies in forks did not."""

_CHANGED_FILES = {"checkpoint": {"$gt": ""}}

INDEXES = [
    IndexModel([("session", 1), ("_id", -1)], name="session"),
    IndexModel([("session", 1), ("promptId", 1)], name="prompt", unique=True),
    IndexModel(
        [("status", 1), ("user", 1), ("_id", 1)],
        name="unfinished",
        partialFilterExpression={"status": {"$in": UNFINISHED}},
    ),
    IndexModel([("session", 1), ("_id", 1)], name="changed files", partialFilterExpression=_CHANGED_FILES),
    IndexModel([("steers.0.steerId", 1)], name="steers", sparse=True),
    IndexModel([("user", 1), ("_id", -1)], name="user"),
    IndexModel([("formerIds", 1)], name="former ids", partialFilterExpression={"formerIds": {"$gt": ""}}),
    IndexModel([("store.images", 1)], name="images", sparse=True),
    IndexModel(
        [("user", 1), ("store.text", "text")],
        name="text",
        default_language="none",  # code and every language: no stop words, no stemming
        language_override="textLanguage",
    ),
]


_RECENT, _ENOUGH = 10, 3
"""Turns that determine what is usual, and how many of the session's own are enough."""
_SEARCHED = 20_000
"""Characters of a prompt and of an answer that are indexed for search. Indexing all of ten prompts of 900,000 bytes
takes more than three minutes; with this limit a prompt takes 3 ms (measured)."""


def _searched(turn: ChatTurn) -> str:
    return f"{turn.prompts.user[:_SEARCHED]}\n{turn.response[:_SEARCHED]}"


@dataclass(frozen=True)
class _TurnUpdate:
    """The update of a turn by its next events."""

    turn: ChatTurn
    update: Document
    id: str
    """Stored with the turn, to identify its newest write."""

    @property
    def query(self) -> Document:
        turn = self.turn
        return {"_id": turn.id, "epoch": turn.epoch, "status": turn.status, "lastSeq": turn.last_seq}


class TurnStore(Records[ChatTurn]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, ChatTurn, "turn")
        self._updates = WriteBatcher(self._apply_all)

    async def owned(self, user: str, record_id: str) -> ChatTurn:
        """Finds a turn by its id, or by one that it had before it was moved in the queue."""
        turn = await self.find({"_id": record_id, "user": user})
        turn = turn or await self.find({"formerIds": record_id, "user": user})
        if turn is None:
            raise NotFound(self.noun)
        return turn

    async def submit(self, turn: ChatTurn, newest: str | None, traceparent: str | None = None) -> tuple[ChatTurn, bool]:
        """Stores a new turn, or finds the one that the same prompt created before. Returns it, and whether it is new.

        Makes its id greater than that of the session's `newest` turn: ids are the session's order, and the clocks of
        web processes differ or are set back.
        """
        if newest is not None and newest >= turn.id:
            turn = turn.replace(id=id_after(newest))
        try:
            images = [image.id for image in turn.prompts.images]
            store = {**({"images": images} if images else {}), **({"traceparent": traceparent} if traceparent else {})}
            return await self.insert(turn, text=_searched(turn), **store), True
        except Conflict:
            earlier = await self.find({"session": turn.session, "promptId": turn.prompt_id})
            if earlier is None:
                raise
            return earlier, False

    async def move(
        self,
        turn: ChatTurn,
        transition: Transition,
        target: ChatTurnStatus,
        changes: Mapping[str, Any],
        **operators: Mapping[str, Any],
    ) -> ChatTurn | None:
        """Moves `turn` to the status `target`. Returns None when the stored turn has changed meanwhile.

        The only way to another status, except for the end, which `MongoStore.record` writes.
        """
        assert turn.status in transition.sources, f"{transition.name} from {turn.status}"
        assert target in transition.targets, f"{transition.name} to {target}"
        assert not transition.ends
        query: Document = {"_id": turn.id, "epoch": turn.epoch, "status": turn.status}
        if transition is REFUSE:
            query["store.begun"] = {"$ne": turn.epoch}
        operators.setdefault("inc", {"epoch": 1} if transition.starts_epoch else {})
        return await super().update(query, {"status": target, **changes}, **operators)

    async def begin(self, turn_id: str, drone: str, epoch: int | None) -> ChatTurn | None:
        """Marks the turn as begun by the drone. Returns None when it is not the drone's under this epoch."""
        running = {"_id": turn_id, "drone": drone, "epoch": epoch, "status": ChatTurnStatus.PROCESSING}
        return await self.update(running, {"store.begun": epoch})

    async def update(
        self, query: Mapping[str, Any], changes: Mapping[str, Any], **operators: Mapping[str, Any]
    ) -> ChatTurn | None:
        assert not {"status", "epoch"} & changes.keys(), "a status changes through `move`"
        return await super().update(query, changes, **operators)

    async def wait_for(self, turn: ChatTurn, waiting: Waiting | None, reason: str | None) -> ChatTurn | None:
        """Stores what `turn` waits for, or None. Returns None when nothing changes, or the turn has changed
        meanwhile."""
        return await self.update(
            {
                "_id": turn.id,
                "epoch": turn.epoch,
                "status": turn.status,
                "cancelRequested": False,  # a cancelled turn only waits for its end
                "$or": [{"waiting": {"$ne": waiting}}, {"statusReason": {"$ne": reason}}],
            },
            {"waiting": waiting, "statusReason": reason},
        )

    async def request_cancel(self, turn: ChatTurn) -> ChatTurn | None:
        """Stores that the user has cancelled the turn. Returns None when that is known, or the turn has changed
        meanwhile."""
        return await self.update(
            {"_id": turn.id, "epoch": turn.epoch, "status": turn.status, "cancelRequested": False},
            {
                "cancelRequested": True,
                "waiting": Waiting.CANCEL,
                "statusReason": "Cancelling.",
                "store.cancelAt": utc_now(),
            },
        )

    async def cancel_overdue(self, after: timedelta) -> list[ChatTurn]:
        """Returns turns that their drone should have ended by now."""
        overdue = {"cancelRequested": True, "store.cancelAt": {"$lt": utc_now() - after}}
        return await self.unfinished(overdue)

    async def add_steer(self, turn: ChatTurn, steer: Steer) -> ChatTurn | None:
        """Adds a message for the turn's next step. Returns None when the turn is over, has the message, or has too
        many."""
        return await self.update(
            {
                "_id": turn.id,
                "status": {"$in": UNFINISHED},
                "steers.steerId": {"$ne": steer.steer_id},
                "store.steered": {"$ne": steer.steer_id},
                f"steers.{MAX_STEERS - 1}": {"$exists": False},
            },
            {},
            push={"steers": steer.model_dump()},
        )

    async def knows_steer(self, turn: ChatTurn, steer_id: str) -> bool:
        """Returns whether this message waits, or has reached the model."""
        known = {"_id": turn.id, "$or": [{"steers.steerId": steer_id}, {"store.steered": steer_id}]}
        return await self.find(known) is not None

    async def drop_steer(self, turn: ChatTurn, steer_id: str) -> None:
        """Removes the waiting message, and remembers its id for ever."""
        known = {"store.steered": steer_id}
        await self.update({"_id": turn.id}, {}, pull={"steers": {"steerId": steer_id}}, addToSet=known)

    async def ended_with_steers(self) -> list[ChatTurn]:
        """Returns turns that ended, not cancelled, while messages still waited."""
        ended = {"$in": [ChatTurnStatus.FINISHED, ChatTurnStatus.ERROR]}
        return await self.all({"steers.0.steerId": {"$gt": ""}, "status": ended}, hint="steers")

    async def fence(self, turn: ChatTurn) -> ChatTurn | None:
        """Raises the turn's epoch, so that only the caller may write its events. Returns None when the turn has changed
        meanwhile. Safe when the caller dies: the old owner is told, and the turn is dispatched again."""
        return await super().update({"_id": turn.id, "epoch": turn.epoch, "status": turn.status}, {}, inc={"epoch": 1})

    async def apply_events(
        self, turn: ChatTurn, after: ChatTurn, steered: list[str], images: Collection[str] = ()
    ) -> bool:
        """Writes `after`, which is `turn` after its next events. Returns False when the stored turn is not `turn` any
        more (`MongoStore.record`)."""
        fields = {"thinking", "response", "stats", "inquiry", "checkpoint", "last_checkpoint", "unusual_at"}
        # Write only the fields that change: a delta does not write the answer again.
        changed = {name for name in fields if getattr(after, name) != getattr(turn, name)}
        if after.status.is_over:
            legal = [by for by in (COMPLETE, END) if turn.status in by.sources and after.status in by.targets]
            assert legal, f"from {turn.status} to {after.status}"
            # In any case: others write these fields, too.
            changed |= {"status", "waiting", "status_reason", "unusual_at", "error", "ended_at"}
        update: Document = {"$set": after.model_dump(include={"last_seq", *changed})}
        if after.status.is_over:
            update["$set"]["store.text"] = _searched(after)
        known = {"store.steered": steered, "store.images": list(images)}
        if steered:
            update["$pull"] = {"steers": {"steerId": {"$in": steered}}}
        if any(known.values()):
            update["$addToSet"] = {name: {"$each": ids} for name, ids in known.items() if ids}
        update["$set"]["store.take"] = take = new_id()
        with store_errors():
            return await self._updates.write(_TurnUpdate(turn, update, take))

    async def _apply_all(self, updates: Sequence[_TurnUpdate]) -> list[bool]:
        """Does `apply_events` for several turns."""
        if len(updates) == 1:
            [one] = updates
            return [bool((await self.collection.update_one(one.query, one.update)).matched_count)]
        commands = [UpdateOne(one.query, one.update) for one in updates]
        done = await self.collection.bulk_write(commands, ordered=False)
        if done.matched_count == len(updates):
            return [True] * len(updates)
        # The result does not say which of them matched.
        written = {"_id": {"$in": [one.turn.id for one in updates]}, "store.take": {"$in": [one.id for one in updates]}}
        kept = {document["store"]["take"] async for document in self.collection.find(written, {"store.take": 1})}
        return [one.id in kept for one in updates]

    async def spent_before(self, turn: ChatTurn) -> BudgetUsage:
        """Returns the usage of the session's turns before this one, including reverted ones."""
        ms = {"$subtract": ["$stats.durationMs", {"$ifNull": ["$store.waitedMs", 0]}]}
        begun = {"session": turn.session, "_id": {"$lt": turn.id}, "lastSeq": {"$gt": 1}, **PAID}
        sums = {
            "steps": {"$sum": "$stats.stepCount"},
            "tokens": {"$sum": {"$add": ["$stats.inputTokens", "$stats.responseTokens"]}},
            "usd": {"$sum": "$stats.cost"},
            "ms": {"$sum": {"$max": [0, ms]}},
        }
        with store_errors():
            rows = await (
                await self.collection.aggregate([{"$match": begun}, {"$group": {"_id": None, **sums}}], hint="session")
            ).to_list()
        if not rows:
            return BudgetUsage()
        [row] = rows
        return BudgetUsage(steps=row["steps"], tokens=row["tokens"], usd=row["usd"], minutes=row["ms"] / 60_000)

    async def usual_usage(self, turn: ChatTurn) -> BudgetUsage:
        """Returns the highest usage, per figure, of the session's last finished turns before this one; of the user's
        when the session has too few."""
        before = {"_id": {"$lt": turn.id}, "status": ChatTurnStatus.FINISHED}
        with store_errors():
            newest = await self._newest({"session": turn.session, **before}, "session")
            if len(newest) < _ENOUGH:
                newest = await self._newest({"user": turn.user, **before}, "user")
        stats = [document["stats"] for document in newest]
        waited_ms = [document.get("store", {}).get("waitedMs", 0) for document in newest]
        worked_ms = [one["durationMs"] - waited for one, waited in zip(stats, waited_ms, strict=True)]
        return BudgetUsage(
            steps=max((one["stepCount"] for one in stats), default=0),
            tokens=max((one["inputTokens"] + one["responseTokens"] for one in stats), default=0),
            usd=max((one["cost"] or 0.0 for one in stats), default=0.0),
            minutes=max(0, max(worked_ms, default=0)) / 60_000,
        )

    async def _newest(self, query: Document, hint: str) -> list[Document]:
        cursor = self.collection.find(query, {"stats": 1, "store.waitedMs": 1}, hint=hint)
        return await cursor.sort("_id", -1).limit(_RECENT).to_list()

    async def mark_seen(self, turn: ChatTurn) -> ChatTurn | None:
        """Clears the turn's mark as unusual. Returns None when it has none."""
        return await self.update({"_id": turn.id, "unusualAt": {"$ne": None}}, {"unusualAt": None})

    async def add_waited(self, turn: ChatTurn, ms: int) -> None:
        """Adds to the time that it waited for its user, which counts neither as work nor for a budget."""
        await self.update({"_id": turn.id}, {}, inc={"store.waitedMs": ms})

    async def unfinished(self, query: Mapping[str, Any]) -> list[ChatTurn]:
        """Returns queued and processing turns, oldest first. A query with a user reads only that user's turns."""
        return await self.all({"status": {"$in": UNFINISHED}, **query}, hint="unfinished")

    async def running_on(self, drone: DroneRegistration) -> list[ChatTurn]:
        """Returns the turns that the drone works on."""
        return await self.unfinished({"user": drone.user, "drone": drone.id, "status": ChatTurnStatus.PROCESSING})

    async def users_with_queued(self) -> list[str]:
        with store_errors():
            return list(await self.collection.distinct("user", {"status": ChatTurnStatus.QUEUED}))

    async def count_queued(self, user: str, session: str) -> int:
        """Returns the number of the session's queued turns."""
        waiting = {"user": user, "session": session, "status": ChatTurnStatus.QUEUED}
        with store_errors():
            return await self.collection.count_documents(waiting, hint="unfinished")

    async def newest(self, session: str) -> str | None:
        """Returns the id of the session's newest turn."""
        with store_errors():
            newest = {"sort": [("_id", -1)], "hint": "session"}
            document = await self.collection.find_one({"session": session}, {"_id": 1}, **newest)
        return None if document is None else str(document["_id"])

    async def previous_and_trace(self, turn: ChatTurn) -> tuple[str | None, str | None]:
        """Returns the id of the session's previous turn that is not reverted, and the trace that this turn's prompt
        began."""
        so_far = {"session": turn.session, "_id": {"$lte": turn.id}, "reverted": {"$ne": True}}
        with store_errors():
            cursor = self.collection.find(so_far, {"store.traceparent": 1}, hint="session").sort("_id", -1).limit(2)
            traces = {str(document["_id"]): document.get("store", {}).get("traceparent") async for document in cursor}
        traceparent = traces.pop(turn.id, None)
        return next(iter(traces), None), traceparent

    async def in_order(self, session: str, *, after: str | None, up_to: str, limit: int) -> list[ChatTurn]:
        """Returns the session's turns after one and up to another that are not reverted, oldest first."""
        window: dict[str, str] = {"$lte": up_to}
        if after is not None:
            window["$gt"] = after
        query = {"session": session, "_id": window, "reverted": {"$ne": True}}
        return await self.all(query, limit=limit, hint="session")

    async def from_turn(self, session: str, turn: str) -> list[tuple[str, int]]:
        """Returns id and last seq of the session's turns from this one on, oldest first."""
        query = {"session": session, "_id": {"$gte": turn}}
        with store_errors():
            cursor = self.collection.find(query, {"_id": 1, "lastSeq": 1}, hint="session").sort("_id", 1)
            return [(str(document["_id"]), int(document["lastSeq"])) async for document in cursor]

    async def copy(self, turn: ChatTurn, copy: str, session: str) -> None:
        """Copies a finished turn to another session, without its steers and its inquiry."""
        fields = {"id": copy, "session": session, "steers": (), "inquiry": None, "reverted": False}
        with store_errors():
            document = await self.collection.find_one({"_id": turn.id}, {"store.images": 1})
        images = (document or {}).get("store", {}).get("images")
        await self.insert(
            turn.replace(**fields), copyOf=turn.id, text=_searched(turn), **({"images": images} if images else {})
        )

    async def first_with_checkpoint(self, session: str) -> ChatTurn | None:
        """Returns the session's first turn that changed files and is not reverted."""
        counts = {"session": session, **_CHANGED_FILES, "reverted": {"$ne": True}}
        turns = await self.all(counts, limit=1, hint="changed files")
        return turns[0] if turns else None

    async def mark_reverted(self, turns: list[str], at: datetime) -> None:
        """Marks turns as reverted: no model reads them any more. `unmark_reverted` finds them by `at`."""
        with store_errors():
            await self.collection.update_many(
                {"_id": {"$in": turns}}, {"$set": {"reverted": True, "store.revertedAt": at}}
            )

    async def unmark_reverted(self, session: str, since: str, at: datetime) -> list[ChatTurn]:
        """Removes that mark from the turns from `since` on that were reverted `at`. Returns them, oldest first."""
        query = {"session": session, "_id": {"$gte": since}, "reverted": True, "store.revertedAt": at}
        turns = await self.all(query, limit=100_000, hint="session")
        changes = {"$set": {"reverted": False}, "$unset": {"store.revertedAt": ""}}
        with store_errors():
            await self.collection.update_many(query, changes, hint="session")
        return turns

    async def images_only_in(self, session: str) -> list[str]:
        """Returns the images that only this session's turns name."""
        with store_errors():
            images = [str(i) for i in await self.collection.distinct("store.images", {"session": session})]
            others = {"store.images": {"$in": images}, "session": {"$ne": session}}
            used = set(await self.collection.distinct("store.images", others))
        return [image for image in images if image not in used]

    async def orphaned_sessions(self, before: datetime) -> list[tuple[str, str]]:
        """Returns user and id of sessions that do not exist any more and whose newest turn is older than `before`."""
        pipeline: list[Document] = [
            {"$sort": {"session": 1, "_id": -1}},
            {"$group": {"_id": "$session", "turn": {"$first": "$_id"}, "user": {"$first": "$user"}}},
            {"$match": {"turn": {"$lt": first_id(before)}}},
            {"$lookup": {"from": "sessions", "localField": "_id", "foreignField": "_id", "as": "kept"}},
            {"$match": {"kept": []}},
        ]
        with store_errors():
            rows = await self.collection.aggregate(pipeline, hint="session")
            return [(str(row["user"]), str(row["_id"])) async for row in rows]

    async def delete_session(self, session: str) -> None:
        with store_errors():
            await self.collection.delete_many({"session": session})

    async def count_by_status(self) -> dict[str, int]:
        """Returns the number of queued, processing and all other turns (`over`). The last is an estimate, which reads
        no documents."""
        counts: dict[str, int] = {}
        with store_errors():
            for status in UNFINISHED:
                counts[status] = await self.collection.count_documents({"status": status}, hint="unfinished")
            every = await self.collection.estimated_document_count()
        return {**counts, "over": max(0, every - sum(counts.values()))}
