"""Where sessions stand, for a list of them: found in the turns each time, in two commands for any number of sessions.

Not kept with the session's document: a turn and that would be two writes, and a process that dies between them, or two
that are late, would leave a list that is wrong until the next turn.
"""

from collections.abc import Sequence
from typing import Any

from gadget_api.session_list import LatestTurn
from gadget_code.store.records import Document, store_errors
from gadget_code.store.turns import UNFINISHED, TurnStore

_SHOWN = ("createdAt", "status", "waiting", "inquiry", "unusualAt", "endedAt")


async def latest_turns(turns: TurnStore, user: str, sessions: Sequence[str]) -> dict[str, LatestTurn]:
    """By session, without those that have no turn."""
    if not sessions:
        return {}
    # Sorted as the index over `session` and `_id` is, so that only the first turn of each session is looked at.
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
        # Asked second: a turn that has ended since is not among them, and one that came since is no older.
        waiting = await turns.collection.find(unfinished, fields).sort("_id", -1).to_list()
    latest = {str(row["_id"]): _read(row["turn"], row) for row in rows}
    for row in waiting:  # the oldest of a session comes last
        known = latest.get(row["session"])
        if known is not None and (known.id != row["_id"] or not known.status.is_over):
            latest[row["session"]] = _read(row["_id"], row)
    return latest


def _read(turn: str, row: Document) -> LatestTurn:
    return LatestTurn.model_validate({"_id": turn, **{name: row.get(name) for name in _SHOWN}})
