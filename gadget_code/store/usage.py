"""Sums up the usage of a user's turns in the database."""

from datetime import datetime
from typing import Any

from pymongo.errors import ExecutionTimeout

from gadget_api.errors import InvalidInput
from gadget_api.ids import first_id
from gadget_api.usage import UsageBy, UsageReport, UsageRow
from gadget_code.store.records import Document, store_errors
from gadget_code.store.turns import PAID, TurnStore

_MAX_ROWS = 1000
_MAX_MS = 5000
_KEYS: dict[UsageBy, Any] = {
    UsageBy.DAY: {"$dateToString": {"date": "$createdAt", "format": "%Y-%m-%d", "timezone": "UTC"}},
    UsageBy.MODEL: "$llm",
    UsageBy.PROJECT: "$project",
}
_SUMS = {
    "steps": "stepCount",
    "toolCalls": "toolCallCount",
    "inputTokens": "inputTokens",
    "cachedInputTokens": "cachedInputTokens",
    "responseTokens": "responseTokens",
    "thinkingTokens": "thinkingTokenCount",
    "cost": "cost",
    "durationMs": "durationMs",
}


async def usage(turns: TurnStore, user: str, by: UsageBy, since: datetime, until: datetime) -> UsageReport:
    """Reports on the turns created from `since` on and before `until`. Raises InvalidInput when it takes too long."""
    # Ids begin with their creation time, so the index over ids finds a period.
    window = {"$gte": first_id(since), "$lt": first_id(until)}
    order: Document = {"_id": 1} if by is UsageBy.DAY else {"cost": -1, "_id": 1}
    pipeline: list[Document] = [
        {"$match": {"user": user, "_id": window, **PAID}},
        {
            "$group": {
                "_id": _KEYS[by],
                "turns": {"$sum": 1},
                **{name: {"$sum": f"$stats.{field}"} for name, field in _SUMS.items()},
            }
        },
        {"$sort": order},
        {"$limit": _MAX_ROWS},
    ]
    with store_errors():
        try:
            rows = await (await turns.collection.aggregate(pipeline, maxTimeMS=_MAX_MS, hint="user")).to_list()
        except ExecutionTimeout as exc:
            raise InvalidInput("These are too many turns to sum up; choose a shorter period.") from exc
    items = tuple(UsageRow.model_validate({"key": str(row.pop("_id")), **row}) for row in rows)
    return UsageReport(by=by, since=since, until=until, items=items)
