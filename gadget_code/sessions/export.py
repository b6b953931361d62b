"""Exports a session as one document: Markdown to read, JSON to process. Generates it while it is sent, turn by turn.

The document has prompts, answers and tool calls. No session contains keys.
"""

import re
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import quote

import orjson

from gadget_api.events import Compacted, Steered, Step, ToolCall, turn_event
from gadget_api.model import iso
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurn
from gadget_code.store.database import MongoStore

Format = Literal["markdown", "json"]
MEDIA_TYPES: dict[Format, str] = {"markdown": "text/markdown; charset=utf-8", "json": "application/json"}
_SUFFIXES: dict[Format, str] = {"markdown": "md", "json": "json"}
_PAGE_TURNS = 20


def disposition(session: ChatSession, format: Format) -> str:
    """Returns `Content-Disposition` with a file name made of the session's name."""
    name = re.sub(r"[^\w.-]+", "-", session.name).strip("-.")[:80] or "session"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "session"
    suffix = _SUFFIXES[format]
    return f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(name, safe='')}.{suffix}"


async def exported(store: MongoStore, session: ChatSession, format: Format) -> AsyncIterator[bytes]:
    """Yields the session's turns that are not reverted, oldest first."""
    parts = _markdown(store, session) if format == "markdown" else _json(store, session)
    async for part in parts:
        yield part.encode()


async def _turns(store: MongoStore, session: ChatSession) -> AsyncIterator[ChatTurn]:
    after: str | None = None
    while page := await store.turns.in_order(session.id, after=after, up_to="~", limit=_PAGE_TURNS):
        for turn in page:
            yield turn
        after = page[-1].id


async def _json(store: MongoStore, session: ChatSession) -> AsyncIterator[str]:
    # The bodies are sent as they are stored, without parsing.
    yield f'{{"session":{_dumps(session.to_wire())},"turns":['
    first = True
    async for turn in _turns(store, session):
        yield f'{"" if first else ","}{{"turn":{_dumps(turn.to_wire())},"events":['
        first, separator = False, ""
        async for event in store.events.history(turn.id, up_to=turn.last_seq):
            yield separator + event.body
            separator = ","
        yield "]}"
    yield "]}\n"


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()


async def _markdown(store: MongoStore, session: ChatSession) -> AsyncIterator[str]:
    yield f"# {_one_line(session.name)}\n"
    async for turn in _turns(store, session):
        yield f"\n## {iso(turn.created_at)} · {_one_line(turn.llm)} · {turn.status}\n\n"
        yield _quoted(turn.prompts.user)
        for image in turn.prompts.images:
            yield f"> (image {image.id}, {image.width} × {image.height})\n"
        async for stored in store.events.history(turn.id, up_to=turn.last_seq):
            yield _event(turn_event.validate_json(stored.body))
        if turn.error is not None:
            yield f"\n**{turn.error.code}**: {_one_line(turn.error.message)}\n"


def _event(event: object) -> str:
    match event:
        case Step():
            message = event.message
            thinking = f"\n<details><summary>Thinking</summary>\n\n{fenced(message.thinking)}\n</details>\n"
            if not (message.thinking or message.content):
                return ""
            return f"{thinking if message.thinking else ''}\n{message.content}\n"
        case ToolCall():
            params = orjson.dumps(event.params, option=orjson.OPT_INDENT_2).decode()
            failed = " (failed)" if event.is_error else ""
            return f"\n**{_one_line(event.name)}**{failed}\n\n{fenced(params, 'json')}\n{fenced(event.response)}\n"
        case Steered():
            return f"\n{_quoted(event.content)}"
        case Compacted():
            summary = event.compaction.summary
            return f"\n*The context was compacted.*\n\n{fenced(summary)}\n" if summary else ""
        case _:
            return ""


def fenced(text: str, language: str = "") -> str:
    """Returns a code block with a fence that `text` does not contain."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}\n"


def _quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines()) or ">\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
