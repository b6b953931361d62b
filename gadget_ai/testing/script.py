"""The script of a scripted model: a list of replies, or a function from request to reply.

Script([Reply(Think("Hm."), Text("I look.", deltas=3), Call("list", {"path": "."})), Reply(Text("Done."))])
Script(lambda request: Reply(Text(f"You sent {len(request.messages)} messages.")))
"""

import itertools
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gadget_ai.client import TextDelta, ThinkingDelta, ToolCallDelta
from gadget_ai.encoding import encoded_images, image_bytes
from gadget_api.ids import new_id
from gadget_api.messages import FinishReason, Usage

_DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")


@dataclass(frozen=True)
class Text:
    content: str
    deltas: int = 1
    """The number of deltas."""
    pause_s: float = 0.0
    """The pause before each delta."""


@dataclass(frozen=True)
class Think:
    content: str
    deltas: int = 1
    pause_s: float = 0.0


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is raw text instead of `params`. The default `call_id` is a new one; "" sends none."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    arguments: str | None = None
    call_id: str | None = None
    deltas: int = 1


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Cut:
    """Closes the connection before the end of the body."""


@dataclass(frozen=True)
class Reset:
    """Resets the connection (TCP RST)."""


@dataclass(frozen=True)
class RawBytes:
    """Sends these bytes unchanged in the body."""

    data: bytes


@dataclass(frozen=True)
class HttpError:
    """An error response instead of an answer. It must be the first piece."""

    status: int
    body: Any = field(default_factory=dict)
    """JSON, or bytes that are sent unchanged."""
    headers: Mapping[str, str] = field(default_factory=dict)


Piece = Text | Think | Call | Usage | Pause | Cut | Reset | RawBytes | HttpError
Delta = TextDelta | ThinkingDelta | ToolCallDelta | Pause | Cut | Reset | RawBytes | HttpError


class Reply:
    """One answer. `finish` is by default TOOL_CALLS with calls and STOP without; UNKNOWN sends no reason."""

    def __init__(
        self,
        *pieces: Piece,
        finish: FinishReason | None = None,
        done: bool = True,
        content_type: str | None = None,
    ) -> None:
        self.pieces = pieces
        called = any(isinstance(piece, Call) for piece in pieces)
        self.finish = finish or (FinishReason.TOOL_CALLS if called else FinishReason.STOP)
        self.done = done
        """Whether the stream has its end mark: OpenAI's `[DONE]`, Ollama's `done: true`."""
        self.content_type = content_type

    def usage(self, request: "RequestView") -> Usage:
        """Returns the reply's `Usage`, or an estimate of 4 bytes per token without images."""
        for piece in self.pieces:
            if isinstance(piece, Usage):
                return piece
        answer_chars = sum(len(piece.content) for piece in self.pieces if isinstance(piece, Text | Think))
        text_bytes = len(request.body) - sum(map(image_bytes, request.messages))
        return Usage(input_tokens=text_bytes // 4, response_tokens=answer_chars // 4 + 1)

    def deltas(self) -> Iterator[Delta]:
        """Yields the deltas to send."""
        index = 0
        for piece in self.pieces:
            match piece:
                case Text(content, count, pause_s) | Think(content, count, pause_s):
                    for part in split(content, count):
                        if pause_s:
                            yield Pause(pause_s)
                        yield TextDelta(part) if isinstance(piece, Text) else ThinkingDelta(part)
                case Call():
                    arguments = piece.arguments
                    if arguments is None:
                        arguments = orjson.dumps(dict(piece.params)).decode()
                    call_id = f"call_{new_id()}" if piece.call_id is None else piece.call_id
                    first, *more = split(arguments, piece.deltas)
                    yield ToolCallDelta(index, call_id, piece.name, first)
                    for part in more:
                        yield ToolCallDelta(index, arguments=part)
                    index += 1
                case Usage():
                    pass
                case _:
                    yield piece


def split(content: str, count: int) -> list[str]:
    """Splits `content` into `count` parts of about the same size; a short text has fewer parts."""
    count = max(1, min(count, len(content)))
    edges = [len(content) * n // count for n in range(count + 1)]
    return [content[start:end] for start, end in itertools.pairwise(edges)]


@dataclass(frozen=True)
class RequestView:
    """A request to the scripted model."""

    api: str
    """`openai`, `ollama`, or `scripted` for `ScriptedClient`, which uses OpenAI's format."""
    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    """The raw body."""


class Script:
    """The replies of one model: from a list, in order, or from a function of the request."""

    def __init__(self, replies: Sequence[Reply] | Callable[[RequestView], Reply]) -> None:
        self._answer = replies if callable(replies) else None
        self._left = [] if callable(replies) else list(replies)

    def next(self, request: RequestView) -> Reply:
        if self._answer is not None:
            return self._answer(request)
        if self._left:
            return self._left.pop(0)
        return Reply(HttpError(400, {"error": {"message": "The script has no reply for this request."}}))


def message_text(message: Mapping[str, Any]) -> str:
    """Returns the text of a message in a request; its content parts are separate lines."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def message_images(message: dict[str, Any]) -> list[bytes]:
    """Returns the images of a message in a request of either API."""
    return [b64decode(image.rpartition(",")[2], validate=True) for image in encoded_images(message)]


def _parts_fault(message: Mapping[str, Any]) -> str | None:
    """Returns why OpenAI's API would refuse the content parts; None when it accepts them."""
    if not isinstance(parts := message.get("content"), list):
        return None
    for part in parts:
        match part:
            case {"type": "text", "text": str()}:
                continue
            case {"type": "image_url", "image_url": {"url": str(url)}} if _DATA_URL.fullmatch(url):
                if message.get("role") != "user":
                    return f"an image in a message of the role {message.get('role')}"
            case _:
                return "a content part that is neither text nor an image"
    return None if parts else "a content without parts"


def history_fault(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Returns what is wrong with a history; None when it is valid. Each tool call must have a unique id and one result
    directly after it. Content parts must be text, or images in a user message.

    Calls without ids (Ollama) are matched by their number.
    """
    seen: set[str] = set()
    open_calls: list[str] = []
    for message in messages:
        if fault := _parts_fault(message):
            return fault
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id is None and open_calls:
                open_calls.pop(0)
            elif call_id in open_calls:
                open_calls.remove(call_id)
            else:
                return f"a tool result without its call: {call_id!r}"
            continue
        if open_calls:
            return f"tool calls without a result: {', '.join(open_calls)}"
        for number, call in enumerate(message.get("tool_calls") or ()):
            call_id = call.get("id") or f"#{len(seen)}.{number}"
            if call_id in seen:
                return f"a repeated tool call id: {call_id}"
            seen.add(call_id)
            open_calls.append(call_id)
    return f"tool calls without a result: {', '.join(open_calls)}" if open_calls else None
