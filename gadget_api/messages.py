"""Chat messages: the input and the output of a model.

`Message` is one entry of a conversation, independent of the provider. A message has no field for thinking: the
assistant's content starts with it, as `<thinking>...</thinking>`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from gadget_api.images import ImageRef
from gadget_api.model import Count, WireModel


class ToolCallRequest(WireModel):
    """A complete, parsed tool call of the model."""

    call_id: str
    """Unique within the turn."""
    name: str
    params: dict[str, Any]
    error: str | None = None
    """Set when the arguments are invalid (`params` is then empty): the call must not run, and the model reads this text
    as the result."""


class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "toolCalls"
    LENGTH = "length"
    CONTENT_FILTER = "contentFilter"
    INTERRUPTED = "interrupted"
    """A cancel or a failure ended the turn during the call; the partial answer is kept."""
    UNKNOWN = "unknown"


class Usage(WireModel):
    """Tokens of one model call, as the provider reported them; zero when it reported none."""

    input_tokens: Count = 0
    """All tokens of the request, including cached ones."""
    cached_input_tokens: Count = 0
    thinking_token_count: Count = 0
    response_tokens: Count = 0
    """All tokens of the answer, including thinking."""


class AssistantMessage(WireModel):
    """The answer of one model call."""

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
    """The answer of an earlier model call, as a model reads it."""

    role: Literal["assistant"] = "assistant"
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()

    @classmethod
    def of(cls, answer: AssistantMessage) -> "ModelMessage":
        """Returns `answer` with its thinking at the start of the content."""
        content = f"<thinking>{answer.thinking}</thinking>\n{answer.content}" if answer.thinking else answer.content
        return cls(content=content, tool_calls=answer.tool_calls)


class ToolMessage(WireModel):
    """The result of one tool call."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    content: str
    images: tuple[ImageRef, ...] = ()


Message = Annotated[SystemMessage | UserMessage | ModelMessage | ToolMessage, Field(discriminator="role")]


class Compaction(WireModel):
    """An entry of a conversation that shortens the messages before it for the model. The stored messages stay."""

    role: Literal["compaction"] = "compaction"
    kept: int | None = Field(default=None, ge=0)
    """How many of the newest messages before this entry the model still reads; null: all."""
    summary: str | None = None
    """Replaces the other messages; null: nothing replaces them."""
    trimmed: tuple[str, ...] = ()
    """The ids of tool calls whose results the model reads as `TRIMMED_RESULT`."""


TRIMMED_RESULT = "[this output was removed to make room; run the call again if it is needed]"

INTERRUPTED_RESULT = (
    "interrupted, outcome unknown: this call had started when the work was cut off; check before you repeat it"
)
"""The result of a tool call that has started and whose end was not recorded."""


def open_tool_calls(messages: Iterable["Message | Compaction"]) -> list[ToolCallRequest]:
    """Returns the tool calls in `messages` that have no result yet, in the model's order."""
    open_calls: dict[str, ToolCallRequest] = {}
    for message in messages:
        if isinstance(message, ModelMessage):
            open_calls.update((call.call_id, call) for call in message.tool_calls)
        elif isinstance(message, ToolMessage):
            open_calls.pop(message.call_id, None)
    return list(open_calls.values())
