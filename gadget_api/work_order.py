"""The work order: all a drone needs to work on one turn, but for the session's history (which it fetches)."""

from pydantic import Field

from gadget_api.budgets import Budget, Spent
from gadget_api.checkpoints import CheckpointId
from gadget_api.ids import Id
from gadget_api.images import ImageRef
from gadget_api.inquiries import Inquiry
from gadget_api.model import Count, UtcTime, WireModel
from gadget_api.permissions import Policy
from gadget_api.providers import ApiType, BaseUrl, ModelParams, ModelPrice
from gadget_api.sessions import SessionMode
from gadget_api.turns import Steer, TurnStats


class OrderProject(WireModel):
    id: Id = Field(alias="_id")
    name: str
    slug: str
    git_url: str


class OrderSession(WireModel):
    id: Id = Field(alias="_id")
    name: str
    mode: SessionMode
    history_version: int = 0
    """Raised when turns of it are taken back or brought back: what a drone keeps of its history counts no more."""
    wants_title: bool = False
    """Whether it has no name of its own yet."""


class OrderProvider(WireModel):
    """The provider and its key. The key lives in memory only, and `repr` does not show it."""

    id: Id = Field(alias="_id")
    name: str
    sdk: ApiType
    base_url: BaseUrl
    api_key: str | None = Field(default=None, repr=False)
    model_id: str
    context_window: int | None = None
    params: ModelParams = ModelParams()
    price: ModelPrice | None = None
    sees_images: bool = False


class OrderUser(WireModel):
    id: Id = Field(alias="_id")
    email: str
    display_name: str


class OrderTurn(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: OrderUser


class ResumePoint(WireModel):
    """Where a turn goes on that has events already: number them from `ackedSeq` + 1, build on what is stored."""

    acked_seq: int = 0
    stats: TurnStats = TurnStats()
    worked_ms: Count = 0
    """From its first stored event to its last, without the time in which it waited for its user."""
    grants: int = 0
    """How often its user has let it go on past its budget."""
    inquiries: tuple[Inquiry, ...] = ()
    """What it asked last, with the answer where there is one."""
    last_checkpoint: CheckpointId | None = None


class WorkOrder(WireModel):
    work_order_id: Id
    """The same each time this turn is offered to a drone, so that an offer can be repeated."""
    epoch: int = Field(ge=1)
    project: OrderProject
    session: OrderSession
    provider: OrderProvider
    turn: OrderTurn
    prompt: str
    images: tuple[ImageRef, ...] = ()
    """Of the prompt."""
    workspace_id: str | None = None
    after_turn: Id | None = None
    """The turn of this session that came before; null for the first. The history up to it belongs to the context."""
    resume: ResumePoint | None = None
    """Null for a turn that has not begun."""
    policy: Policy = Policy()
    fallbacks: tuple[OrderProvider, ...] = ()
    """Models to go on with, in this order, when the one before does not answer."""
    turn_budget: Budget = Budget()
    session_budget: Budget = Budget()
    unusual: Budget = Budget()
    """A turn that uses this much is unusual: its user is told, again at each doubling, and nothing else happens."""
    session_spent: Spent = Spent()
    """By the turns of this session before this one."""
    answer_within_s: int = 24 * 3600
    """For how long the turn waits for an answer before the default counts."""
    steers: tuple[Steer, ...] = ()
    """Messages to put before the model at the next step; the drone drops those its journal has put there already."""
    traceparent: str | None = None
    """The trace that the turn belongs to, as W3C Trace Context says it; null when nobody traces."""
