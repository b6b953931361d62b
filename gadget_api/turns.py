"""A turn: one prompt and the work on it."""

from enum import StrEnum

from pydantic import Field

from gadget_api.checkpoints import CheckpointId
from gadget_api.errors import ErrorInfo
from gadget_api.ids import Id
from gadget_api.images import MAX_IMAGES, ImageRef
from gadget_api.messages import Usage
from gadget_api.model import MAX_COUNT, Count, UtcTime, WireModel
from gadget_api.providers import ModelPrice
from gadget_api.sessions import Effort, SessionMode

MAX_PROMPT_BYTES = 900_000
"""The largest prompt in UTF-8: it must fit into one Socket.IO frame, with its envelope."""
MAX_STEER_BYTES = 32_000
"""The largest message to a running turn in UTF-8."""
MAX_STEERS = 16
"""The most messages that may wait for the next step of a turn."""
MAX_FORMER_IDS = 50
"""How many former ids of a turn remain valid."""


class ChatTurnStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    FINISHED = "finished"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in (ChatTurnStatus.FINISHED, ChatTurnStatus.ERROR, ChatTurnStatus.CANCELLED)


class Waiting(StrEnum):
    """What a turn waits for, as a code for programs; `statusReason` is the text for a person."""

    DRONE = "drone"
    """No suitable drone is registered, or the chosen one was deleted."""
    DRONE_OFFLINE = "droneOffline"
    """All suitable drones are offline."""
    DRONE_BUSY = "droneBusy"
    """All suitable drones run another turn."""
    DRONE_RESERVED = "droneReserved"
    """All suitable drones are reserved for another session."""
    DRONE_REFUSED = "droneRefused"
    """The drone refused the turn; the service asks again."""
    WORKSPACE = "workspace"
    """The user, who edits in the workspace by hand."""
    DRONE_LOST = "droneLost"
    """Its drone, whose connection was lost while it worked: wait, cancel, or continue on another drone."""
    CANCEL = "cancel"
    """Its drone to end it; the service does so after 5 s."""


def duration_label(duration_ms: int) -> str:
    """Formats a duration: `850 ms`, `12.3s`, `2m 05s`, `3h 07m`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    seconds = duration_ms // 1000
    if seconds < 60:
        return f"{duration_ms // 100 / 10:.1f}s"  # cut, not rounded: 59,999 ms are not 60.0s
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"


class TurnStats(WireModel):
    """The usage of a turn so far."""

    step_count: Count = 0
    tool_call_count: Count = 0
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    thinking_token_count: Count = 0
    response_tokens: Count = 0
    cost: float | None = None
    """US dollars; null when the provider's model entry has no price."""
    duration_ms: Count = 0
    duration_label: str = "pending"
    """`pending` until the turn has ended, then a text such as `2m 05s`."""

    def with_step(self, usage: Usage, price: ModelPrice | None) -> "TurnStats":
        return self.with_usage(usage, price).replace(step_count=self.step_count + 1)

    def with_usage(self, usage: Usage, price: ModelPrice | None) -> "TurnStats":
        cost = self.cost
        if price is not None:
            cost = round((cost or 0.0) + price.cost_usd(usage), 9)
        return self.replace(
            # A provider may report any number, but JSON represents a larger sum only approximately.
            input_tokens=min(MAX_COUNT, self.input_tokens + usage.input_tokens),
            cached_input_tokens=min(MAX_COUNT, self.cached_input_tokens + usage.cached_input_tokens),
            thinking_token_count=min(MAX_COUNT, self.thinking_token_count + usage.thinking_token_count),
            response_tokens=min(MAX_COUNT, self.response_tokens + usage.response_tokens),
            cost=cost,
        )

    def with_tool_call(self) -> "TurnStats":
        return self.replace(tool_call_count=self.tool_call_count + 1)

    def ended(self, duration_ms: int) -> "TurnStats":
        return self.replace(duration_ms=duration_ms, duration_label=duration_label(duration_ms))


class Prompts(WireModel):
    user: str
    images: tuple[ImageRef, ...] = Field(default=(), max_length=MAX_IMAGES)


class SteerOrigin(StrEnum):
    USER = "user"
    SERVICE = "service"
    """A message of Gadget Code itself."""


class Steer(WireModel):
    """A message that waits for the turn's next step. The turn keeps it until its `steered` event is stored."""

    steer_id: Id
    content: str
    origin: SteerOrigin = SteerOrigin.USER


class ChatTurn(WireModel):
    """One prompt and its work. `thinking` and `response` come from the last step; the events have everything else."""

    id: Id = Field(alias="_id")
    former_ids: tuple[Id, ...] = Field(default=(), max_length=MAX_FORMER_IDS)
    """The ids that the turn had before it was moved in the queue, oldest first. They remain valid in requests."""
    created_at: UtcTime
    user: Id
    session: Id
    project: Id
    provider: Id
    llm: str
    """The provider's name for the model."""
    effort: Effort | None = None
    mode: SessionMode
    workspace_id: str | None = None
    drone: Id | None = None
    status: ChatTurnStatus
    waiting: Waiting | None = None
    """What the turn waits for; null when it does not wait."""
    status_reason: str | None = None
    """The same as a text for a person, with the remedy."""
    cancel_requested: bool = False
    """Whether the user has cancelled the turn. It then never continues, whatever happens before its end."""
    prompt_id: Id
    prompts: Prompts
    steers: tuple[Steer, ...] = ()
    """Accepted messages that the model has not read yet, in order."""
    inquiry: Id | None = None
    """The open inquiry that the turn waits for; null when there is none."""
    checkpoint: CheckpointId | None = None
    """The files before the turn's first change; null when it has changed none, or checkpoints are off."""
    last_checkpoint: CheckpointId | None = None
    reverted: bool = False
    """Whether the user has reverted the turn. A model no longer reads it."""
    thinking: str = ""
    response: str = ""
    unusual_at: UtcTime | None = None
    """The last time at which its usage was found to be far above that of other turns. Null: never, the user has looked
    at it since, or the turn has ended."""
    error: ErrorInfo | None = None
    ended_at: UtcTime | None = None
    """Null: the turn has not ended, or it ended before this field existed."""
    epoch: int = 0
    """Raised with every new owner of the turn; 0 before the first dispatch."""
    last_seq: int = 0
    """The `seq` of the newest stored event. `stats`, `thinking` and `response` follow from the events up to it."""
    stats: TurnStats = TurnStats()
