"""The latest turn of each session, for a list of sessions: two commands for any number of sessions.

Read from the turns each time, not kept in the session's document. That would be a second write, and a process that dies
between the two, or two late ones, would leave a wrong list until the next turn.
"""

from collections.abc import Sequence
from typing import Any

from gadget_api.session_list import LatestTurn
from gadget_code.store.records import Document, store_errors
from gadget_code.store.turns import UNFINISHED, TurnStore

_SHOWN = ("createdAt", "status", "waiting", "inquiry", "unusualAt", "endedAt")


async def latest_turns(turns: TurnStore, user: str, sessions: Sequence[str]) -> dict[str, LatestTurn]:
    """Returns session -> its latest turn, for sessions that have one."""
    if not sessions:
        return {}
    # Sorted like the index over `session` and `_id`, so that MongoDB reads only the first turn of each session.
    first: dict[str, Any] = {"turn": {"$first": "$_id"}, **{name: {"$first": f"${name}"} for name in _SHOWN}}
    newest: list[Document] = [
        {"$match": {"session": {"$in": list(sessions)}}},
        {"$sort": {"session": 1, "_id": -1}},
        {"$group": {"_id": "$session", **first}},
    ]
    unfinished = {"status": {"$in": UNFINISHED}, "user": user}
    fields = {"session": 1, **dict.fromkeys(_SHOWN, 1)}
    with store_errors():
        rows = await (await turns.collection.aggregate(newest)).to_list()
        # After the first query: a turn that has ended since is not in the result, and a newer one is handled below.
        waiting = await turns.collection.find(unfinished, fields).sort("_id", -1).to_list()
    latest = {str(row["_id"]): _read(row["turn"], row) for row in rows}
    for row in waiting:  # the oldest of a session comes last
        known = latest.get(row["session"])
        if known is not None and (known.id != row["_id"] or not known.status.is_over):
            latest[row["session"]] = _read(row["_id"], row)
    return latest


def _read(turn: str, row: Document) -> LatestTurn:
    return LatestTurn.model_validate({"_id": turn, **{name: row.get(name) for name in _SHOWN}})
