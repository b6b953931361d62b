"""Runs one model call to its end and returns the whole answer, for the agent loop."""

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
    UsageChunk,
)
from gadget_ai.errors import LLMError
from gadget_ai.retry import RetryPolicy, retrying
from gadget_ai.watchdog import cut_off_error
from gadget_api.errors import ErrorCode
from gadget_api.ids import new_id
from gadget_api.messages import AssistantMessage, FinishReason, ToolCallRequest, Usage

MAX_MODEL_ANSWER_BYTES = 600_000
"""The largest answer as JSON: one event (`gadget_api.events.MAX_EVENT_BYTES`) contains it and other fields."""

_CALL_CHARS = 60
"""The smallest size of a tool call as JSON."""

LiveChunk = TextDelta | ThinkingDelta | ModelNotice | Restarted
"""The chunks that clients show before the answer is complete. `Restarted` voids the deltas before it."""


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of one model call, and its usage."""

    message: AssistantMessage
    usage: Usage
    finish_reason: FinishReason


async def ask_model(
    client: ChatClient,
    messages: Sequence[Encoded],
    tools: Sequence[ToolSpec],
    *,
    on_live: Callable[[LiveChunk], None],
    used_call_ids: Collection[str] = (),
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (frozen)
) -> ModelAnswer:
    """Calls the model, with retries after retryable errors. Passes each delta to `on_live` at once, in order.

    The answer uses no call id of `used_call_ids`, the call ids in `messages`. Raises the last `LLMError`.
    """
    chunks = retrying(lambda: client.stream(messages, tools), retry)
    return await collect(chunks, on_live=on_live, used_call_ids=used_call_ids)


async def collect(
    chunks: AsyncGenerator[Chunk, None], *, on_live: Callable[[LiveChunk], None], used_call_ids: Collection[str] = ()
) -> ModelAnswer:
    """Collects the answer from `chunks`, and closes them.

    An invalid tool call has `error` set and no `params`. Raises `LLMError`: MODEL_BAD_RESPONSE for an answer larger
    than `MAX_MODEL_ANSWER_BYTES`, MODEL_CUT_OFF for a stream without `Finished`.
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
                case UsageChunk(usage):
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
    """An answer that is not complete yet."""

    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    open_calls: dict[int, _Call] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason | None = None
    size_chars: int = 0

    def grow(self, content: str) -> None:
        # A text never has more characters than bytes. This limits memory while streaming; `answer` measures exactly.
        self.size_chars += len(content)
        if self.size_chars > MAX_MODEL_ANSWER_BYTES:
            raise _too_large()

    def add_fragment(self, fragment: ToolCallDelta) -> None:
        call = self.open_calls.get(fragment.index)
        # Gemini's compatible API gives several calls the same index 0, so a name with another id starts a new call.
        if call is None or (fragment.name and fragment.call_id and fragment.call_id != call.call_id):
            call = self.open_calls[fragment.index] = _Call()
            self.calls.append(call)
            self.size_chars += _CALL_CHARS
        call.call_id = call.call_id or fragment.call_id
        call.name = call.name or fragment.name
        call.arguments.append(fragment.arguments)
        # An empty fragment counts too, because a flood of them would use memory.
        self.grow(fragment.arguments or " ")

    def answer(self, used_call_ids: Collection[str]) -> ModelAnswer:
        if self.finish_reason is None:
            raise cut_off_error()
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
        if len(message.model_dump_json().encode()) > MAX_MODEL_ANSWER_BYTES:
            raise _too_large()
        return ModelAnswer(message, self.usage, self.finish_reason)


def _request(call: _Call, is_cut: bool, used: set[str]) -> ToolCallRequest:
    text = "".join(call.arguments)
    params, error = _params(text)
    if is_cut and (error or not text.strip()):
        params, error = {}, "The output limit cut the call off, so it did not run; repeat it with shorter arguments."
    if not call.name:
        params, error = {}, "The call has no tool name, so it did not run; repeat it with the name of a tool."
    call_id = call.call_id if call.call_id and call.call_id not in used else f"call_{new_id()}"
    return ToolCallRequest(call_id=call_id, name=call.name or "unknown", params=params, error=error)


def _params(text: str) -> tuple[dict[str, Any], str | None]:
    """Returns the arguments without an error, or no arguments and a sentence for the model."""
    if not text.strip():
        return {}, None  # OpenAI and most others call a tool without parameters like this
    try:
        params = orjson.loads(text)
        orjson.dumps(params)  # refuses nesting that is too deep to send it again
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as exc:
        return {}, f"The arguments are not valid JSON ({exc}), so the call did not run; repeat it."
    if not isinstance(params, dict):
        return {}, "The arguments must be one JSON object, so the call did not run; repeat it."
    return params, None


def _too_large() -> LLMError:
    return LLMError(
        ErrorCode.MODEL_BAD_RESPONSE,
        f"The model's answer is larger than {MAX_MODEL_ANSWER_BYTES} bytes; ask for a shorter one.",
    )
