"""The order of a session's queue.

A session's turns run in the order of their ids. So a turn that moves gets a new id, and keeps the old ones in
`formerIds`. One transaction does it: a prompt is never in the queue twice and never lost. A dispatcher that is about to
offer one of the turns does not find its old id and looks again, so the first of the queue always runs next.
"""

from collections.abc import Sequence
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession

from gadget_api.errors import Conflict, ErrorCode
from gadget_api.ids import id_after, new_id
from gadget_api.turns import MAX_FORMER_IDS, ChatTurn, ChatTurnStatus
from gadget_code.store.records import Document
from gadget_code.store.transactions import in_transaction
from gadget_code.store.turns import TurnStore


async def queue(turns: TurnStore, user: str, session: str) -> list[ChatTurn]:
    """Returns the session's queued turns in the order in which they will run."""
    return await turns.unfinished(_queued(user, session))


async def reorder(turns: TurnStore, user: str, session: str, prompts: Sequence[str]) -> list[ChatTurn]:
    """Puts these prompts, by `promptId`, first in the session's queue, in this order, and returns the turns with a new
    id. A turn that a drone has begun and lost stays before them. Raises Conflict when none of them waits."""
    queued = _queued(user, session)
    moved = await in_transaction(turns.collection, lambda transaction: _reorder(turns, transaction, queued, prompts))
    return [turns.read(document) for document in moved]


def _queued(user: str, session: str) -> Document:
    return {"user": user, "session": session, "status": ChatTurnStatus.QUEUED}


async def _reorder(
    turns: TurnStore, transaction: AsyncClientSession, queued: Document, prompts: Sequence[str]
) -> list[Document]:
    documents = await turns.collection.find(queued, session=transaction, hint="unfinished").sort("_id", 1).to_list()
    waiting = [document for document in documents if _may_move(document)]
    by_prompt = {document["promptId"]: document for document in waiting}
    named = [by_prompt[prompt] for prompt in dict.fromkeys(prompts) if prompt in by_prompt]
    if not named:
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "None of these prompts waits any more; look at the queue again.")
    ordered = [*named, *(document for document in waiting if document not in named)]
    same = next((n for n, pair in enumerate(zip(ordered, waiting, strict=True)) if pair[0] is not pair[1]), None)
    if same is None:
        return []
    moved = ordered[same:]
    newest = await turns.collection.find_one(
        {"session": queued["session"]}, {"_id": 1}, sort=[("_id", -1)], session=transaction, hint="session"
    )
    assert newest is not None
    await turns.collection.delete_many({"_id": {"$in": [document["_id"] for document in moved]}}, session=transaction)
    last = str(newest["_id"])
    for document in moved:
        last = max(new_id(), id_after(last))
        document["formerIds"] = [*document.get("formerIds", ()), document["_id"]][-MAX_FORMER_IDS:]
        document["_id"] = last
    await turns.collection.insert_many(moved, session=transaction)
    return moved


def _may_move(document: dict[str, Any]) -> bool:
    """Returns whether nothing refers to the turn's id yet: no drone has begun it, and it is not being cancelled."""
    store = document.get("store", {})
    return not (document["lastSeq"] or "begun" in store or document["cancelRequested"])
