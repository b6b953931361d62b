"""One model call, whole: what the agent loop asks for."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import orjson

from gadget_ai.client import (
    ChatClient,
    Chunk,
    Encoded,
    Finished,
    ModelNotice,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from gadget_ai.errors import LLMError
from gadget_ai.retry import RetryPolicy, retrying
from gadget_ai.watchdog import cut_off
from gadget_api.errors import ErrorCode
from gadget_api.ids import new_id
from gadget_api.messages import AssistantMessage, FinishReason, ToolCallRequest, Usage

MAX_ANSWER_BYTES = 600_000
"""As JSON. It must fit one event (`gadget_api.events.MAX_EVENT_BYTES`) with room for the rest of it."""

_CALL_CHARS = 60
"""No call is smaller as JSON."""

Live = TextDelta | ThinkingDelta | ModelNotice | Restarted
"""What is worth showing before the answer is whole. `Restarted` voids the deltas before it."""


@dataclass(frozen=True)
class Answer:
    """What one model call said, and what it cost."""

    message: AssistantMessage
    usage: Usage
    finish_reason: FinishReason


async def answer(
    client: ChatClient,
    messages: Sequence[Encoded],
    tools: Sequence[ToolSpec],
    *,
    on_live: Callable[[Live], None],
    used_call_ids: Collection[str] = (),
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (frozen)
) -> Answer:
    """Asks the model, again where that may help. `on_live` gets each delta at once, in order.

    `used_call_ids` are those in `messages`; the answer's own are different. Raises `LLMError`, the last one.
    """
    chunks = retrying(lambda: client.stream(messages, tools), retry)
    return await collect(chunks, on_live=on_live, used_call_ids=used_call_ids)


async def collect(
    chunks: AsyncGenerator[Chunk, None], *, on_live: Callable[[Live], None], used_call_ids: Collection[str] = ()
) -> Answer:
    """The answer that `chunks` make; closes them.

    A tool call that came broken has `error` set and no `params`. Raises `LLMError`: MODEL_BAD_RESPONSE for an answer
    larger than `MAX_ANSWER_BYTES`, MODEL_CUT_OFF for one without an end.
    """
    draft = _Draft()
    async with aclosing(chunks):
        async for chunk in chunks:
            match chunk:
                case TextDelta(content):
                    draft.text.append(content)
                    draft.grow(content)
                    on_live(chunk)
                case ThinkingDelta(content):
                    draft.thinking.append(content)
                    draft.grow(content)
                    on_live(chunk)
                case ToolCallDelta():
                    draft.add_fragment(chunk)
                case UsageReport(usage):
                    draft.usage = usage
                case Finished(reason):
                    draft.finish_reason = reason
                case Restarted():
                    draft = _Draft()
                    on_live(chunk)
                case ModelNotice():
                    on_live(chunk)
    return draft.answer(used_call_ids)


@dataclass
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass
class _Draft:
    """An answer as far as it has come."""

    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    open_calls: dict[int, _Call] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason | None = None
    size_chars: int = 0

    def grow(self, content: str) -> None:
        # Characters are never more than bytes: this bounds memory while it streams, `answer` measures exactly.
        self.size_chars += len(content)
        if self.size_chars > MAX_ANSWER_BYTES:
            raise _too_large()

    def add_fragment(self, fragment: ToolCallDelta) -> None:
        call = self.open_calls.get(fragment.index)
        # Gemini's compatible API gives each of several calls the index 0: a name with another id starts a new call.
        if call is None or (fragment.name and fragment.call_id and fragment.call_id != call.call_id):
            call = self.open_calls[fragment.index] = _Call()
            self.calls.append(call)
            self.size_chars += _CALL_CHARS
        call.call_id = call.call_id or fragment.call_id
        call.name = call.name or fragment.name
        call.arguments.append(fragment.arguments)
        # An empty fragment counts too: a flood of them must not be free.
        self.grow(fragment.arguments or " ")

    def answer(self, used_call_ids: Collection[str]) -> Answer:
        if self.finish_reason is None:
            raise cut_off()
        used = set(used_call_ids)
        requests = []
        for call in self.calls:
            is_cut = self.finish_reason is FinishReason.LENGTH and call is self.calls[-1]
            request = _request(call, is_cut, used)
            used.add(request.call_id)
            requests.append(request)
        message = AssistantMessage(
            thinking="".join(self.thinking), content="".join(self.text), tool_calls=tuple(requests)
        )
        if len(message.model_dump_json().encode()) > MAX_ANSWER_BYTES:
            raise _too_large()
        return Answer(message, self.usage, self.finish_reason)


def _request(call: _Call, is_cut: bool, used: set[str]) -> ToolCallRequest:
    text = "".join(call.arguments)
    params, error = _params(text)
    if is_cut and (error or not text.strip()):
        params, error = {}, "The call was cut off by the output limit and did not run; make it again, shorter."
    if not call.name:
        params, error = {}, "The call has no tool name; make it again with the name of one of the tools."
    call_id = call.call_id if call.call_id and call.call_id not in used else f"call_{new_id()}"
    return ToolCallRequest(call_id=call_id, name=call.name or "unknown", params=params, error=error)


def _params(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments and no error, or no arguments and a sentence for the model."""
    if not text.strip():
        return {}, None  # how OpenAI and most others call a tool without parameters
    try:
        params = orjson.loads(text)
        orjson.dumps(params)  # refuses what is nested deeper than it could be sent again
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as exc:
        return {}, f"The arguments are not valid JSON ({exc}), so the call did not run; make it again."
    if not isinstance(params, dict):
        return {}, "The arguments must be one JSON object, so the call did not run; make it again."
    return params, None


def _too_large() -> LLMError:
    return LLMError(
        ErrorCode.MODEL_BAD_RESPONSE,
        f"The model's answer is larger than {MAX_ANSWER_BYTES} bytes; ask for less at once.",
    )
