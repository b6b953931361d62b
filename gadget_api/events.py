"""The events of a turn: one numbered stream, the same on the socket, over REST, in the store and in the journal.

The drone gives each event of a turn its `seq` (1, 2, 3 ... without gaps). `type` is the socket event's name.
"""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter

from gadget_api.checkpoints import CheckpointTaken
from gadget_api.errors import ErrorInfo
from gadget_api.ids import Id
from gadget_api.images import MAX_IMAGES, ImageRef
from gadget_api.inquiries import Inquiry, InquiryAnswer
from gadget_api.messages import AssistantMessage, Compaction, FinishReason, Usage
from gadget_api.model import Count, UtcTime, WireModel
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurnStatus, SteerOrigin, TurnStats

MAX_EVENT_BYTES = 1_000_000
"""No event is larger as JSON: it is one Socket.IO frame, and frames are cut off at 1 MB."""


class TurnEvent(WireModel):
    """The fields and properties that every event of a turn has."""

    is_delta: ClassVar[bool] = False
    """Whether it is a piece of content that a later event repeats as a whole. Deltas of an ended turn may expire."""
    is_in_history: ClassVar[bool] = False
    """Whether the messages for a model are built from it (`gadget_api.history`)."""
    is_shown: ClassVar[bool] = False
    """Whether clients show it after the turn has ended. The other events repeat these or the turn document."""
    is_urgent: ClassVar[bool] = False
    """Whether the service stores it at once, because the user or the drone waits for it."""
    is_forked: ClassVar[bool] = True
    """Whether a fork of the session gets a copy of it."""

    type: str
    turn_id: Id
    chat_session_id: Id
    epoch: int = Field(ge=1)
    """Which dispatch of the turn this belongs to; the store refuses an older one."""
    seq: int = Field(ge=1)
    at: UtcTime

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        """`stats` with this event taken in; most events change nothing."""
        return stats


class Thinking(TurnEvent):
    """A piece of the model's thinking."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["thinking"] = "thinking"
    content: str


class Response(TurnEvent):
    """A piece of the model's answer."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["response"] = "response"
    content: str


class ToolStarted(TurnEvent):
    """A tool is about to run."""

    type: Literal["toolStarted"] = "toolStarted"
    call_id: str
    name: str
    params: dict[str, Any]


class ToolOutput(TurnEvent):
    """A piece of a running tool's output."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["toolOutput"] = "toolOutput"
    call_id: str
    content: str


class BlobRef(WireModel):
    """Content too large for an event, to be fetched at `GET /turns/{turnId}/blobs/{blobId}`."""

    blob_id: Id
    size_bytes: Count


class ToolCall(TurnEvent):
    """A tool has ended."""

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    type: Literal["toolCall"] = "toolCall"
    call_id: str
    name: str
    params: dict[str, Any]
    response: str
    """What the model was told: the whole output, or its head and tail when that was too large (then see `blob`)."""
    is_error: bool
    duration_ms: Count
    blob: BlobRef | None = None
    images: tuple[ImageRef, ...] = Field(default=(), max_length=MAX_IMAGES)
    denied: bool = False
    """Whether permissions, and not the tool, said no."""
    because: str = Field(default="", max_length=1000)
    """Why it was allowed, or denied; "" where nothing was to be decided."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_tool_call()


class Step(TurnEvent):
    """One model call: the durable boundary of a turn.

    With the finish reason `interrupted` it holds what had been said when the call was cut off; the turn ends after it.
    """

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    type: Literal["step"] = "step"
    index: int = Field(ge=1)
    message: AssistantMessage
    usage: Usage
    finish_reason: FinishReason
    model: str

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_step(self.usage, price)


class Steered(TurnEvent):
    """A message was put before the model while the turn ran."""

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    type: Literal["steered"] = "steered"
    steer_id: Id
    content: str
    origin: SteerOrigin = SteerOrigin.USER


TURN_UNUSUAL = "turnUnusual"
"""The code of a notice that the turn has used far more than its user's turns do."""


class Notice(TurnEvent):
    """Something the user should know: retrying, cloning, truncated context ..."""

    is_shown: ClassVar[bool] = True
    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    code: str
    message: str


class InquiryAsked(TurnEvent):
    """The turn asks its user, and waits."""

    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["inquiryAsked"] = "inquiryAsked"
    inquiry: Inquiry


class InquiryAnswered(TurnEvent):
    """The answer has reached the turn, which goes on."""

    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["inquiryAnswered"] = "inquiryAnswered"
    answer: InquiryAnswer


class Compacted(TurnEvent):
    """From here on the model reads a shorter form of what came before; nothing is deleted."""

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    type: Literal["compacted"] = "compacted"
    compaction: Compaction
    tokens_before: Count
    """An estimate."""
    tokens_after: Count
    usage: Usage = Usage()
    """Of the model call that made the summary."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_usage(self.usage, price)


class Checkpoint(TurnEvent):
    """The project's files as they are now were kept, to be gone back to."""

    is_shown: ClassVar[bool] = True
    type: Literal["checkpoint"] = "checkpoint"
    checkpoint: CheckpointTaken


class Titled(TurnEvent):
    """A name for a session that was made without one."""

    is_forked: ClassVar[bool] = False
    type: Literal["titled"] = "titled"
    title: str = Field(min_length=1, max_length=200)
    usage: Usage = Usage()
    """Of the model call that made it."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_usage(self.usage, price)


class WorkOrderComplete(TurnEvent):
    """The end of a turn: last, and once."""

    is_urgent: ClassVar[bool] = True
    type: Literal["workOrderComplete"] = "workOrderComplete"
    success: bool
    message: str
    status: Literal[ChatTurnStatus.FINISHED, ChatTurnStatus.ERROR, ChatTurnStatus.CANCELLED]
    stats: TurnStats
    error: ErrorInfo | None = None


AnyTurnEvent = Annotated[
    Thinking
    | Response
    | ToolStarted
    | ToolOutput
    | ToolCall
    | Step
    | Steered
    | Notice
    | InquiryAsked
    | InquiryAnswered
    | Compacted
    | Checkpoint
    | Titled
    | WorkOrderComplete,
    Field(discriminator="type"),
]
turn_event = TypeAdapter[AnyTurnEvent](AnyTurnEvent)
"""Validates and serialises any event of a turn."""

EVENT_TYPES: dict[str, type[TurnEvent]] = {
    kind.model_fields["type"].default: kind for kind in get_args(get_args(AnyTurnEvent)[0])
}
"""The class of each event, by the `type` on the wire."""
DELTA_TYPES = frozenset(name for name, kind in EVENT_TYPES.items() if kind.is_delta)
HISTORY_TYPES = frozenset(name for name, kind in EVENT_TYPES.items() if kind.is_in_history)
SHOWN_TYPES = frozenset(name for name, kind in EVENT_TYPES.items() if kind.is_shown)
