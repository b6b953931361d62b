"""The interface between the agent and a model: `ChatClient` and the chunks that it streams.

Three implementations: `gadget_ai.openai`, `gadget_ai.ollama`, and the scripted one in `gadget_ai.testing`.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gadget_ai.errors import LLMError
from gadget_api.messages import FinishReason, Message, ToolMessage, Usage
from gadget_api.providers import ListedModel
from gadget_api.sessions import Effort

Encoded = Any
"""A message in the format of one client. It is encoded once and sent unchanged with every request: this costs nothing
per step, and the start of each request stays byte-identical for the provider's cache."""


@dataclass(frozen=True)
class ToolSpec:
    """The description of a tool for the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of type `object`."""


@dataclass(frozen=True)
class TextDelta:
    content: str


@dataclass(frozen=True)
class ThinkingDelta:
    content: str


@dataclass(frozen=True)
class ToolCallDelta:
    """A fragment of a tool call; fragments with the same `index` belong together."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    """A part of a JSON text."""


@dataclass(frozen=True)
class UsageChunk:
    usage: Usage


@dataclass(frozen=True)
class Finished:
    """The answer is complete. A stream that ends without this chunk was cut off."""

    reason: FinishReason


@dataclass(frozen=True)
class ModelNotice:
    """A notice to the user about this call, such as a truncated context."""

    code: str
    message: str


@dataclass(frozen=True)
class Restarted:
    """The call has failed with `error` and starts again after `delay_s`. All earlier chunks of the stream are void."""

    error: LLMError
    attempt: int
    """The number of the next attempt: 2 for the first retry."""
    delay_s: float


Chunk = TextDelta | ThinkingDelta | ToolCallDelta | UsageChunk | Finished | ModelNotice | Restarted


@dataclass(frozen=True)
class Timeouts:
    """Time limits of one model call, in seconds. A call ends after 60 s without a chunk (reliability promise P13)."""

    connect_s: float = 10.0
    first_chunk_s: float = 60.0
    between_chunks_s: float = 60.0


@dataclass(frozen=True)
class CallOptions:
    """Sampling, reasoning and time limits, the same for every call of a turn."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    effort: Effort | None = None
    context_window: int | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)


class ChatClient(Protocol):
    """One model at one provider."""

    def encode(self, message: Message) -> Encoded:
        """Encodes a message; the result is always the same. Images take some milliseconds per megabyte. It may run in
        another thread."""
        ...

    def encode_images(self, results: Sequence[ToolMessage]) -> Encoded | None:
        """Encodes the images of one step's tool results as an extra message; None when no extra message is necessary.

        `gadget_ai.transcript` puts it after the results.
        """
        ...

    def stream(self, messages: Sequence[Encoded], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        """Streams one model call. Raises only `LLMError`. `aclose` of the generator cancels the provider's request."""
        ...

    async def list_models(self) -> list[ListedModel]:
        """Returns the provider's models. Raises `LLMError`."""
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...
