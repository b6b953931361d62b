"""The events of a turn: one numbered stream, the same on the socket, over REST, in the store and in the journal.

The drone numbers the events of a turn with `seq` (1, 2, 3 ... without gaps). `type` is the name of the socket event.
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
"""The largest event as JSON: an event is one Socket.IO frame, and the frame limit is 1 MB."""


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
    """The dispatch of the turn that this event belongs to. The store refuses events of an older epoch."""
    seq: int = Field(ge=1)
    at: UtcTime
    agent_id: Id | None = None
    """The agent in the turn that it is of; None, and left out on the wire: the turn's own."""

    def to_wire(self) -> dict[str, Any]:
        wire = super().to_wire()
        if self.agent_id is None:
            del wire["agentId"]
        return wire

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        """Returns `stats` after this event. Most events do not change it."""
        return stats


class Thinking(TurnEvent):
    """A part of the model's thinking."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["thinking"] = "thinking"
    content: str


class Response(TurnEvent):
    """A part of the model's answer."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["response"] = "response"
    content: str


class ToolStarted(TurnEvent):
    """A tool starts."""

    type: Literal["toolStarted"] = "toolStarted"
    call_id: str
    name: str
    params: dict[str, Any]


class ToolOutput(TurnEvent):
    """A part of a running tool's output."""

    is_delta: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["toolOutput"] = "toolOutput"
    call_id: str
    content: str


class BlobRef(WireModel):
    """A reference to content that is too large for an event. `GET /turns/{turnId}/blobs/{blobId}` returns it."""

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
    """The result that the model reads: the whole output, or its start and end when it is too large (see `blob`)."""
    is_error: bool
    duration_ms: Count
    blob: BlobRef | None = None
    images: tuple[ImageRef, ...] = Field(default=(), max_length=MAX_IMAGES)
    denied: bool = False
    """Whether permissions denied the call, so that the tool did not run."""
    because: str = Field(default="", max_length=1000)
    """The reason why the call was allowed or denied; "" when no decision was necessary."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_tool_call()


class Step(TurnEvent):
    """A model call has ended. After a crash a turn resumes from its last step.

    With the finish reason `interrupted` it has the partial answer of a call that was cut off; the turn then ends.
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
    """A message was added to the model's input while the turn ran."""

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    type: Literal["steered"] = "steered"
    steer_id: Id
    content: str
    origin: SteerOrigin = SteerOrigin.USER


TURN_UNUSUAL = "turnUnusual"
"""The code of the notice that the turn has used far more than the user's other turns."""


class Notice(TurnEvent):
    """Something the user should know: retrying, cloning, truncated context ..."""

    is_shown: ClassVar[bool] = True
    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    code: str
    message: str


class InquiryAsked(TurnEvent):
    """The turn asks its user and waits for the answer."""

    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["inquiryAsked"] = "inquiryAsked"
    inquiry: Inquiry


class InquiryAnswered(TurnEvent):
    """The turn has received the answer and continues."""

    is_shown: ClassVar[bool] = True
    is_urgent: ClassVar[bool] = True
    is_forked: ClassVar[bool] = False
    type: Literal["inquiryAnswered"] = "inquiryAnswered"
    answer: InquiryAnswer


class Compacted(TurnEvent):
    """The context was compacted: from here on the model reads a shorter form of the earlier messages.

    No event is deleted."""

    is_in_history: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    type: Literal["compacted"] = "compacted"
    compaction: Compaction
    tokens_before: Count
    """An estimate."""
    tokens_after: Count
    usage: Usage = Usage()
    """The tokens of the model call that wrote the summary."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_usage(self.usage, price)


class Checkpoint(TurnEvent):
    """The drone has stored the project's current files, so that the user can go back to them."""

    is_shown: ClassVar[bool] = True
    type: Literal["checkpoint"] = "checkpoint"
    checkpoint: CheckpointTaken


class Titled(TurnEvent):
    """The turn has given a name to a session that was created without one."""

    is_forked: ClassVar[bool] = False
    type: Literal["titled"] = "titled"
    title: str = Field(min_length=1, max_length=200)
    usage: Usage = Usage()
    """The tokens of the model call that wrote the title."""

    def counted(self, stats: TurnStats, price: ModelPrice | None) -> TurnStats:
        return stats.with_usage(self.usage, price)


class WorkOrderComplete(TurnEvent):
    """The turn has ended. Every turn has exactly one such event, as its last."""

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
