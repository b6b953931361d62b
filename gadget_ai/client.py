"""The seam between the agent and a model: `ChatClient`, and the chunks it streams.

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
"""A message in a client's own form, opaque to everybody else. Made once, sent again unchanged with every request:
that costs nothing per step, and keeps the request's prefix byte-identical for the provider's cache."""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""


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
    """A piece of JSON text."""


@dataclass(frozen=True)
class UsageReport:
    usage: Usage


@dataclass(frozen=True)
class Finished:
    """The model said that it is done; a stream that ends without this was cut."""

    reason: FinishReason


@dataclass(frozen=True)
class ModelNotice:
    """Something the user should know about this call, such as a truncated context."""

    code: str
    message: str


@dataclass(frozen=True)
class Restarted:
    """What came before in this stream is void: `error` happened, and the call starts again after `delay_s`."""

    error: LLMError
    attempt: int
    """Of the call that follows: 2 for the first retry."""
    delay_s: float


Chunk = TextDelta | ThinkingDelta | ToolCallDelta | UsageReport | Finished | ModelNotice | Restarted


@dataclass(frozen=True)
class Timeouts:
    """Bounds on one model call, in seconds. 60 s without a chunk is given up (shared reliability promise P13)."""

    connect_s: float = 10.0
    first_chunk_s: float = 60.0
    between_chunks_s: float = 60.0


@dataclass(frozen=True)
class CallOptions:
    """How a client asks: sampling, reasoning and bounds, the same for every call of a turn."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    effort: Effort | None = None
    context_window: int | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)


class ChatClient(Protocol):
    """One model at one provider."""

    def encode(self, message: Message) -> Encoded:
        """`message` in this client's form, the same each time. With images it may take some milliseconds a megabyte;
        it may be called in another thread."""
        ...

    def encode_images(self, results: Sequence[ToolMessage]) -> Encoded | None:
        """What has to follow the results of one step so that their images are seen; None where nothing has to.

        `gadget_ai.transcript` puts it where it belongs.
        """
        ...

    def stream(self, messages: Sequence[Encoded], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        """One model call. Raises `LLMError` only. Closing the generator (`aclose`) ends the request at the provider."""
        ...

    async def list_models(self) -> list[ListedModel]:
        """The models the provider has. Raises `LLMError`."""
        ...

    async def close(self) -> None:
        """Frees the connections."""
        ...
