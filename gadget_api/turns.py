"""A turn: one prompt, and all the work that answers it."""

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
"""The largest prompt, in UTF-8: it must fit one Socket.IO frame with room for its envelope."""
MAX_STEER_BYTES = 32_000
"""The largest message to a running turn, in UTF-8."""
MAX_STEERS = 16
"""How many of them may wait for the next step of a turn."""
MAX_FORMER_IDS = 50
"""How many of the ids that a turn had go on being names of it."""


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
    """What a turn waits for, for a program; `statusReason` says it to a person."""

    DRONE = "drone"
    """A drone: none is registered, or the chosen one is gone."""
    DRONE_OFFLINE = "droneOffline"
    """A drone that fits to connect."""
    DRONE_BUSY = "droneBusy"
    """A drone to be free: each works on another turn."""
    DRONE_RESERVED = "droneReserved"
    """A drone to be released: each is kept for another session."""
    DRONE_REFUSED = "droneRefused"
    """A drone that takes it: the one that was asked did not; it is asked again."""
    WORKSPACE = "workspace"
    """The user, who edits in the workspace by hand."""
    DRONE_LOST = "droneLost"
    """Its drone, whose connection was lost while it worked: wait, cancel, or continue on another drone."""
    CANCEL = "cancel"
    """Its drone to end it; the service does so after 5 s."""


def duration_label(duration_ms: int) -> str:
    """`850 ms`, `12.3s`, `2m 05s`, `3h 07m`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    seconds = duration_ms // 1000
    if seconds < 60:
        return f"{duration_ms // 100 / 10:.1f}s"  # cut, not rounded: 59,999 ms are not 60.0s
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"


class TurnStats(WireModel):
    """What a turn has used so far."""

    step_count: Count = 0
    tool_call_count: Count = 0
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    thinking_token_count: Count = 0
    response_tokens: Count = 0
    cost: float | None = None
    """US dollars; null where the provider's model entry gives no price."""
    duration_ms: Count = 0
    duration_label: str = "pending"
    """`pending` until the turn is over, then such as `2m 05s`."""

    def with_step(self, usage: Usage, price: ModelPrice | None) -> "TurnStats":
        return self.with_usage(usage, price).replace(step_count=self.step_count + 1)

    def with_usage(self, usage: Usage, price: ModelPrice | None) -> "TurnStats":
        cost = self.cost
        if price is not None:
            cost = round((cost or 0.0) + price.cost_usd(usage), 9)
        return self.replace(
            # A provider may report any number; a sum has to stay one that is held exactly.
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
    """Gadget Code itself has to tell the model something."""


class Steer(WireModel):
    """A message that waits to be put before the model at the turn's next step. It stays until that is stored."""

    steer_id: Id
    content: str
    origin: SteerOrigin = SteerOrigin.USER


class ChatTurn(WireModel):
    """One prompt and its work. `thinking` and `response` are those of the last step; the rest is in its events."""

    id: Id = Field(alias="_id")
    former_ids: tuple[Id, ...] = Field(default=(), max_length=MAX_FORMER_IDS)
    """That it had before it was moved in the queue, the oldest first; over REST and in requests each still names it."""
    created_at: UtcTime
    user: Id
    session: Id
    project: Id
    provider: Id
    llm: str
    """The provider's name of the model."""
    effort: Effort | None = None
    mode: SessionMode
    workspace_id: str | None = None
    drone: Id | None = None
    status: ChatTurnStatus
    waiting: Waiting | None = None
    """What the turn waits for; null when it does not."""
    status_reason: str | None = None
    """The same in words for a person, with the way out."""
    cancel_requested: bool = False
    """Whether the user has cancelled it: whatever happens before its end, it does not go on."""
    prompt_id: Id
    prompts: Prompts
    steers: tuple[Steer, ...] = ()
    """Messages that were accepted and are not before the model yet, in their order."""
    inquiry: Id | None = None
    """What it asked its user and waits for; null when it does not."""
    checkpoint: CheckpointId | None = None
    """The files as they were when it began; null when it changed none yet, or no checkpoints are kept."""
    last_checkpoint: CheckpointId | None = None
    reverted: bool = False
    """Whether its user took it back: no model reads it any more."""
    thinking: str = ""
    response: str = ""
    unusual_at: UtcTime | None = None
    """When it was last noticed that it uses far more than other turns. Null: it does not, its user has looked at it
    since, or it is over."""
    error: ErrorInfo | None = None
    ended_at: UtcTime | None = None
    """Null: it is not over, or was before this was kept."""
    epoch: int = 0
    """Raised whenever somebody else takes the turn over; 0 before its first dispatch."""
    last_seq: int = 0
    """Of its newest stored event; `stats`, `thinking` and `response` are what the events up to it add up to."""
    stats: TurnStats = TurnStats()
