"""Chat messages: what a model is told, and what it says.

`Message` is the provider-neutral form of one entry of a conversation. Thinking that is kept rides in front of
the assistant's content as `<thinking>...</thinking>`: there is no separate field for it in a message.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from gadget_api.images import ImageRef
from gadget_api.model import Count, WireModel


class ToolCallRequest(WireModel):
    """A tool call as the model asked for it, whole and parsed."""

    call_id: str
    """Unique within the turn."""
    name: str
    params: dict[str, Any]
    error: str | None = None
    """Why it must not run, when its arguments came broken (`params` is then empty); the model is told this instead."""


class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "toolCalls"
    LENGTH = "length"
    CONTENT_FILTER = "contentFilter"
    INTERRUPTED = "interrupted"
    """The call was cut off by a cancel or a failure that ended the turn; what it had said is kept."""
    UNKNOWN = "unknown"


class Usage(WireModel):
    """Tokens of one model call, as the provider reported them; zero where it reported nothing."""

    input_tokens: Count = 0
    """All tokens of the request, cached ones included."""
    cached_input_tokens: Count = 0
    thinking_token_count: Count = 0
    response_tokens: Count = 0
    """All tokens of the answer, thinking included."""


class AssistantMessage(WireModel):
    """What one model call said."""

    thinking: str = ""
    content: str = ""
    tool_calls: tuple[ToolCallRequest, ...] = ()


class SystemMessage(WireModel):
    role: Literal["system"] = "system"
    content: str


class UserMessage(WireModel):
    role: Literal["user"] = "user"
    content: str
    images: tuple[ImageRef, ...] = ()


class ModelMessage(WireModel):
    """An assistant's turn of the conversation, as a model reads it."""

    role: Literal["assistant"] = "assistant"
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()

    @classmethod
    def of(cls, said: AssistantMessage) -> "ModelMessage":
        """`said` with its thinking put before the answer."""
        content = f"<thinking>{said.thinking}</thinking>\n{said.content}" if said.thinking else said.content
        return cls(content=content, tool_calls=said.tool_calls)


class ToolMessage(WireModel):
    """The one result of one tool call."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    content: str
    images: tuple[ImageRef, ...] = ()


Message = Annotated[SystemMessage | UserMessage | ModelMessage | ToolMessage, Field(discriminator="role")]


class Compaction(WireModel):
    """A mark in a conversation: how a model reads what came before it from here on. The log itself stays as it is."""

    role: Literal["compaction"] = "compaction"
    kept: int | None = Field(default=None, ge=0)
    """How many messages before it stay as they are, the newest; null keeps all."""
    summary: str | None = None
    """Stands for the messages that are not kept; null for nothing."""
    trimmed: tuple[str, ...] = ()
    """Tool calls whose results, among those that are kept, are replaced by `TRIMMED`."""


TRIMMED = "[this output was removed to make room; run the call again if it is needed]"

INTERRUPTED = (
    "interrupted, outcome unknown: this call had started when the work was cut off; check before you repeat it"
)
"""The result that a tool call gets which started and was never seen to end."""


def unanswered(messages: Iterable["Message | Compaction"]) -> list[ToolCallRequest]:
    """The tool calls in `messages` that have no result yet, in the order the model asked for them."""
    open_calls: dict[str, ToolCallRequest] = {}
    for message in messages:
        if isinstance(message, ModelMessage):
            open_calls.update((call.call_id, call) for call in message.tool_calls)
        elif isinstance(message, ToolMessage):
            open_calls.pop(message.call_id, None)
    return list(open_calls.values())
