"""Turns as documents: what their events add up to, and where they stand."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import IndexModel, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.budgets import Spent
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
"""Matches turns that cost something: a fork's copies did not."""

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
        default_language="none",  # code and every language: no word is left out, none is cut to its stem
        language_override="textLanguage",
    ),
]


_RECENT, _ENOUGH = 10, 3
"""Turns that are looked at for what is usual, and how many of a session are enough to speak for it."""
_SEARCHED = 20_000
"""Characters of a prompt, and of an answer, that a search finds. Ten prompts of 900,000 bytes were not through an index
over all of them in three minutes; with this much of each, a prompt costs 3 ms (measured)."""


def _searched(turn: ChatTurn) -> str:
    return f"{turn.prompts.user[:_SEARCHED]}\n{turn.response[:_SEARCHED]}"


@dataclass(frozen=True)
class _TurnUpdate:
    """What the next events of a turn make of it."""

    turn: ChatTurn
    update: Document
    id: str
    """Kept with the turn, to know its newest write by."""

    @property
    def query(self) -> Document:
        turn = self.turn
        return {"_id": turn.id, "epoch": turn.epoch, "status": turn.status, "lastSeq": turn.last_seq}


class TurnStore(Records[ChatTurn]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, ChatTurn, "turn")
        self._updates = WriteBatcher(self._apply_all)

    async def owned(self, user: str, record_id: str) -> ChatTurn:
        """By its id, or one that it had before it was moved in the queue."""
        turn = await self.find({"_id": record_id, "user": user})
        turn = turn or await self.find({"formerIds": record_id, "user": user})
        if turn is None:
            raise NotFound(self.noun)
        return turn

    async def submit(self, turn: ChatTurn, newest: str | None, traceparent: str | None = None) -> tuple[ChatTurn, bool]:
        """Stores a new turn, or answers the one that the same prompt made before; and whether it is new.

        Its id is made greater than that of the session's `newest`: ids are the session's order, and the clocks of two
        web processes, or one that is set back, are not.
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
        """Takes `turn` from where it was read to `target`; None when it has gone on meanwhile.

        The one way to another status for a turn that is not over after it; `MongoStore.record` is the one to its end.
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
        """Notes that the drone begins to work on the turn; None when it is not its turn under this epoch (any more)."""
        its = {"_id": turn_id, "drone": drone, "epoch": epoch, "status": ChatTurnStatus.PROCESSING}
        return await self.update(its, {"store.begun": epoch})

    async def update(
        self, query: Mapping[str, Any], changes: Mapping[str, Any], **operators: Mapping[str, Any]
    ) -> ChatTurn | None:
        assert not {"status", "epoch"} & changes.keys(), "a status changes through `move`"
        return await super().update(query, changes, **operators)

    async def wait_for(self, turn: ChatTurn, waiting: Waiting | None, reason: str | None) -> ChatTurn | None:
        """Notes what `turn` waits for, or that it does not; None when that is known, or the turn has gone on."""
        return await self.update(
            {
                "_id": turn.id,
                "epoch": turn.epoch,
                "status": turn.status,
                "cancelRequested": False,  # then it waits for its end, whatever else it may wait for
                "$or": [{"waiting": {"$ne": waiting}}, {"statusReason": {"$ne": reason}}],
            },
            {"waiting": waiting, "statusReason": reason},
        )

    async def request_cancel(self, turn: ChatTurn) -> ChatTurn | None:
        """Notes that the user wants the turn's end, whatever happens before it; None when it has gone on meanwhile, or
        this is known."""
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
        """Turns whose drone was told to end them longer ago, and has not."""
        overdue = {"cancelRequested": True, "store.cancelAt": {"$lt": utc_now() - after}}
        return await self.unfinished(overdue)

    async def add_steer(self, turn: ChatTurn, steer: Steer) -> ChatTurn | None:
        """Adds a message for the next step of an unfinished turn; None when it cannot take it (over, known, full)."""
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
        """Whether this message waits, or was put before the model."""
        known = {"_id": turn.id, "$or": [{"steers.steerId": steer_id}, {"store.steered": steer_id}]}
        return await self.find(known) is not None

    async def drop_steer(self, turn: ChatTurn, steer_id: str) -> None:
        """It waits no more, and is known for ever."""
        known = {"store.steered": steer_id}
        await self.update({"_id": turn.id}, {}, pull={"steers": {"steerId": steer_id}}, addToSet=known)

    async def ended_with_steers(self) -> list[ChatTurn]:
        """Turns that ended by themselves before a message which was accepted for them came before the model."""
        ended = {"$in": [ChatTurnStatus.FINISHED, ChatTurnStatus.ERROR]}
        return await self.all({"steers.0.steerId": {"$gt": ""}, "status": ended}, hint="steers")

    async def fence(self, turn: ChatTurn) -> ChatTurn | None:
        """Raises the turn's epoch: from here on only who knows that may write its events. None when it has gone on
        meanwhile. Nothing depends on what follows: whoever worked on it is told, and it is dispatched again."""
        return await super().update({"_id": turn.id, "epoch": turn.epoch, "status": turn.status}, {}, inc={"epoch": 1})

    async def apply_events(
        self, turn: ChatTurn, after: ChatTurn, steered: list[str], images: Collection[str] = ()
    ) -> bool:
        """Writes what its next events make of `turn`; False when it is not as it was read any more (`MongoStore.record`)."""
        fields = {"thinking", "response", "stats", "inquiry", "checkpoint", "last_checkpoint", "unusual_at"}
        # Of the rest only what these events change: a delta writes no answer again.
        changed = {name for name in fields if getattr(after, name) != getattr(turn, name)}
        if after.status.is_over:
            legal = [by for by in (COMPLETE, END) if turn.status in by.sources and after.status in by.targets]
            assert legal, f"from {turn.status} to {after.status}"
            # Whatever they are by now: others write them, too.
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

    async def _apply_all(self, taken: Sequence["_TurnUpdate"]) -> list[bool]:
        """`apply_events` for several turns."""
        if len(taken) == 1:
            [one] = taken
            return [bool((await self.collection.update_one(one.query, one.update)).matched_count)]
        updates = [UpdateOne(one.query, one.update) for one in taken]
        done = await self.collection.bulk_write(updates, ordered=False)
        if done.matched_count == len(taken):
            return [True] * len(taken)
        # Which of them, the answer does not say.
        its = {"_id": {"$in": [one.turn.id for one in taken]}, "store.take": {"$in": [one.id for one in taken]}}
        kept = {document["store"]["take"] async for document in self.collection.find(its, {"store.take": 1})}
        return [one.id in kept for one in taken]

    async def spent_before(self, turn: ChatTurn) -> Spent:
        """What the session's turns before this one have used; those that were taken back have cost, too."""
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
            return Spent()
        [row] = rows
        return Spent(steps=row["steps"], tokens=row["tokens"], usd=row["usd"], minutes=row["ms"] / 60_000)

    async def usual_usage(self, turn: ChatTurn) -> Spent:
        """The most of each that one of the session's newest finished turns before this one used; of
        the user's, where the session has few."""
        before = {"_id": {"$lt": turn.id}, "status": ChatTurnStatus.FINISHED}
        with store_errors():
            found = await self._newest({"session": turn.session, **before}, "session")
            if len(found) < _ENOUGH:
                found = await self._newest({"user": turn.user, **before}, "user")
        stats = [document["stats"] for document in found]
        waited_ms = [document.get("store", {}).get("waitedMs", 0) for document in found]
        worked_ms = [one["durationMs"] - waited for one, waited in zip(stats, waited_ms, strict=True)]
        return Spent(
            steps=max((one["stepCount"] for one in stats), default=0),
            tokens=max((one["inputTokens"] + one["responseTokens"] for one in stats), default=0),
            usd=max((one["cost"] or 0.0 for one in stats), default=0.0),
            minutes=max(0, max(worked_ms, default=0)) / 60_000,
        )

    async def _newest(self, query: Document, hint: str) -> list[Document]:
        found = self.collection.find(query, {"stats": 1, "store.waitedMs": 1}, hint=hint)
        return await found.sort("_id", -1).limit(_RECENT).to_list()

    async def mark_seen(self, turn: ChatTurn) -> ChatTurn | None:
        """Its user has looked at it; None when it does not matter."""
        return await self.update({"_id": turn.id, "unusualAt": {"$ne": None}}, {"unusualAt": None})

    async def add_waited(self, turn: ChatTurn, ms: int) -> None:
        """It has waited for its user: no work, and nothing of a budget."""
        await self.update({"_id": turn.id}, {}, inc={"store.waitedMs": ms})

    async def unfinished(self, query: Mapping[str, Any]) -> list[ChatTurn]:
        """Queued and processing turns, oldest first. A query that names their user looks at nobody else's."""
        return await self.all({"status": {"$in": UNFINISHED}, **query}, hint="unfinished")

    async def running_on(self, drone: DroneRegistration) -> list[ChatTurn]:
        """The turns that the drone holds."""
        return await self.unfinished({"user": drone.user, "drone": drone.id, "status": ChatTurnStatus.PROCESSING})

    async def users_with_queued(self) -> list[str]:
        with store_errors():
            return list(await self.collection.distinct("user", {"status": ChatTurnStatus.QUEUED}))

    async def count_queued(self, user: str, session: str) -> int:
        """How many wait in the session of this user."""
        waiting = {"user": user, "session": session, "status": ChatTurnStatus.QUEUED}
        with store_errors():
            return await self.collection.count_documents(waiting, hint="unfinished")

    async def newest(self, session: str) -> str | None:
        """The id of the session's newest turn."""
        its = {"session": session}
        with store_errors():
            document = await self.collection.find_one(its, {"_id": 1}, sort=[("_id", -1)], hint="session")
        return None if document is None else str(document["_id"])

    async def previous_and_trace(self, turn: ChatTurn) -> tuple[str | None, str | None]:
        """The id of the session's turn just before this one that was not taken back; and the trace that this one's
        prompt began."""
        so_far = {"session": turn.session, "_id": {"$lte": turn.id}, "reverted": {"$ne": True}}
        with store_errors():
            found = self.collection.find(so_far, {"store.traceparent": 1}, hint="session").sort("_id", -1).limit(2)
            traces = {str(document["_id"]): document.get("store", {}).get("traceparent") async for document in found}
        traceparent = traces.pop(turn.id, None)
        return next(iter(traces), None), traceparent

    async def in_order(self, session: str, *, after: str | None, up_to: str, limit: int) -> list[ChatTurn]:
        """The session's turns after one and up to another that were not taken back, oldest first."""
        window: dict[str, str] = {"$lte": up_to}
        if after is not None:
            window["$gt"] = after
        query = {"session": session, "_id": window, "reverted": {"$ne": True}}
        return await self.all(query, limit=limit, hint="session")

    async def from_turn(self, session: str, turn: str) -> list[tuple[str, int]]:
        """The session's turns from this one on, oldest first: the id of each, and its last seq."""
        query = {"session": session, "_id": {"$gte": turn}}
        with store_errors():
            found = self.collection.find(query, {"_id": 1, "lastSeq": 1}, hint="session").sort("_id", 1)
            return [(str(document["_id"]), int(document["lastSeq"])) async for document in found]

    async def copy(self, turn: ChatTurn, copy: str, session: str) -> None:
        """A copy of a turn that is over, in another session. What its user had to do with it is not copied."""
        fields = {"id": copy, "session": session, "steers": (), "inquiry": None, "reverted": False}
        with store_errors():
            document = await self.collection.find_one({"_id": turn.id}, {"store.images": 1})
        images = (document or {}).get("store", {}).get("images")
        await self.insert(
            turn.replace(**fields), copyOf=turn.id, text=_searched(turn), **({"images": images} if images else {})
        )

    async def first_with_checkpoint(self, session: str) -> ChatTurn | None:
        """The session's first turn that counts and changed files."""
        counts = {"session": session, **_CHANGED_FILES, "reverted": {"$ne": True}}
        found = await self.all(counts, limit=1, hint="changed files")
        return found[0] if found else None

    async def mark_reverted(self, turns: list[str], at: datetime) -> None:
        """No model reads them any more; `unmark_reverted` finds them by `at`."""
        with store_errors():
            await self.collection.update_many(
                {"_id": {"$in": turns}}, {"$set": {"reverted": True, "store.revertedAt": at}}
            )

    async def unmark_reverted(self, session: str, since: str, at: datetime) -> list[ChatTurn]:
        """Those from the turn `since` on that were taken back `at`, oldest first: they count again."""
        query = {"session": session, "_id": {"$gte": since}, "reverted": True, "store.revertedAt": at}
        turns = await self.all(query, limit=100_000, hint="session")
        changes = {"$set": {"reverted": False}, "$unset": {"store.revertedAt": ""}}
        with store_errors():
            await self.collection.update_many(query, changes, hint="session")
        return turns

    async def images_only_in(self, session: str) -> list[str]:
        """The images that its turns name, and no other session's."""
        with store_errors():
            images = [str(i) for i in await self.collection.distinct("store.images", {"session": session})]
            others = {"store.images": {"$in": images}, "session": {"$ne": session}}
            used = set(await self.collection.distinct("store.images", others))
        return [image for image in images if image not in used]

    async def orphaned_sessions(self, before: datetime) -> list[tuple[str, str]]:
        """User and id of each session that is gone while turns of it, made `before` then, are here."""
        pipeline: list[Document] = [
            {"$sort": {"session": 1, "_id": -1}},
            {"$group": {"_id": "$session", "turn": {"$first": "$_id"}, "user": {"$first": "$user"}}},
            {"$match": {"turn": {"$lt": first_id(before)}}},
            {"$lookup": {"from": "sessions", "localField": "_id", "foreignField": "_id", "as": "kept"}},
            {"$match": {"kept": []}},
        ]
        with store_errors():
            found = await self.collection.aggregate(pipeline, hint="session")
            return [(str(row["user"]), str(row["_id"])) async for row in found]

    async def delete_session(self, session: str) -> None:
        with store_errors():
            await self.collection.delete_many({"session": session})

    async def count_by_status(self) -> dict[str, int]:
        """Those that wait, those at work, and all others as `over`: nobody looks at each of those."""
        counts: dict[str, int] = {}
        with store_errors():
            for status in UNFINISHED:
                counts[status] = await self.collection.count_documents({"status": status}, hint="unfinished")
            every = await self.collection.estimated_document_count()
        return {**counts, "over": max(0, every - sum(counts.values()))}
