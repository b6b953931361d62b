"""Searches the names of a user's sessions, and prompts and answers of their turns, as far as these are indexed
(`store.text`).

A user's text is never a query: the search takes words from it, and matches each literally. Every search ends after two
seconds.
"""

import re
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ExecutionTimeout

from gadget_api.errors import InvalidInput
from gadget_api.model import utc_now
from gadget_api.search import SearchHit, SearchPage
from gadget_code.store.records import Document, store_errors

MAX_QUERY = 500
_MAX_WORDS = 12
_MAX_MS = 2000
_MAX_NAMES = 50
_AROUND = 80
"""Characters on either side of a match."""
_WORD = re.compile(r"\w+")


async def search(
    database: AsyncDatabase[Document], user: str, query: str, *, project: str | None, limit: int, cursor: str | None
) -> SearchPage:
    """Finds what contains all the words of `query`, newest first; names of sessions on the first page. Raises
    InvalidInput when there is no word, or the search takes too long."""
    words = list(dict.fromkeys(_WORD.findall(query[:MAX_QUERY].lower())))[:_MAX_WORDS]
    if not words:
        raise InvalidInput("The query has no word; type one.")
    within: Document = {"user": user, **({"project": project} if project is not None else {})}
    with store_errors():
        names = [] if cursor is not None else await _names(database, within, words)
        turns = await _turns(database, within, words, limit + 1, cursor)
        sessions = await _session_names(database, user, {turn["session"] for turn in turns})
    hits = [
        SearchHit(
            session=turn["session"],
            session_name=sessions[turn["session"]],
            project=turn["project"],
            turn=turn["_id"],
            at=turn["createdAt"],
            snippet=snippet(turn["store"]["text"], words),
        )
        for turn in turns[:limit]
        if turn["session"] in sessions
    ]
    return SearchPage(items=(*names, *hits), next_cursor=turns[limit - 1]["_id"] if len(turns) > limit else None)


async def _names(database: AsyncDatabase[Document], within: Document, words: list[str]) -> list[SearchHit]:
    every = [{"name": {"$regex": re.escape(word), "$options": "i"}} for word in words]
    sessions = database.sessions.find({**within, "$and": every}).sort("_id", -1).limit(_MAX_NAMES).max_time_ms(_MAX_MS)
    return [
        SearchHit(
            session=session["_id"],
            session_name=session["name"],
            project=session["project"],
            at=session.get("createdAt", utc_now()),
            snippet=snippet(session["name"], words),
        )
        async for session in sessions
    ]


async def _turns(
    database: AsyncDatabase[Document], within: Document, words: list[str], limit: int, cursor: str | None
) -> list[dict[str, Any]]:
    # A quoted word must occur. No word contains a quote, so nothing of the query is an operator.
    query: Document = {
        **within,
        "$text": {"$search": " ".join(f'"{word}"' for word in words)},
        "reverted": {"$ne": True},
        **({"_id": {"$lt": cursor}} if cursor is not None else {}),
    }
    fields = {"session": 1, "project": 1, "createdAt": 1, "store.text": 1}
    try:
        return await database.turns.find(query, fields).sort("_id", -1).limit(limit).max_time_ms(_MAX_MS).to_list()
    except ExecutionTimeout as exc:
        raise InvalidInput("This search takes too long; use rarer words, or search in one project.") from exc


async def _session_names(database: AsyncDatabase[Document], user: str, sessions: set[str]) -> dict[str, str]:
    named = database.sessions.find({"_id": {"$in": list(sessions)}, "user": user}, {"name": 1})
    return {session["_id"]: session["name"] async for session in named}


def snippet(text: str, words: list[str]) -> str:
    """Returns one line of `text` around the first match."""
    lowered = text.lower()
    at = min((place for word in words if (place := lowered.find(word)) >= 0), default=0)
    begin, end = max(0, at - _AROUND), at + _AROUND
    line = " ".join(text[begin:end].split())
    return f"{'… ' if begin else ''}{line}{' …' if end < len(text) else ''}"
