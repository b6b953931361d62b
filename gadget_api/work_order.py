"""The work order: everything a drone needs for one turn except the session's history, which it fetches."""

from pydantic import Field

from gadget_api.budgets import Budget, BudgetUsage
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
    """Raised when a revert or redo changes the history. A drone then drops its cached history of the session."""
    wants_title: bool = False
    """Whether the session still needs a name."""


class OrderProvider(WireModel):
    """The provider and its key. Keep the key in memory only; `repr` does not show it."""

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
    """The state from which a drone resumes a turn that has events. Its next event is `ackedSeq` + 1."""

    acked_seq: int = 0
    stats: TurnStats = TurnStats()
    worked_ms: Count = 0
    """The time from its first stored event to its last, without the time in which it waited for its user."""
    grants: int = 0
    """How often the user has allowed the turn to exceed its budget."""
    inquiries: tuple[Inquiry, ...] = ()
    """Its last inquiries, with their answers."""
    last_checkpoint: CheckpointId | None = None


class WorkOrder(WireModel):
    work_order_id: Id
    """The same in every offer of this turn, so that the service can repeat an offer."""
    epoch: int = Field(ge=1)
    project: OrderProject
    session: OrderSession
    provider: OrderProvider
    turn: OrderTurn
    prompt: str
    images: tuple[ImageRef, ...] = ()
    """The images of the prompt."""
    workspace_id: str | None = None
    after_turn: Id | None = None
    """The previous turn of the session; null for the first. The context is the history up to that turn."""
    resume: ResumePoint | None = None
    """Null for a turn that has not started."""
    policy: Policy = Policy()
    fallbacks: tuple[OrderProvider, ...] = ()
    """Models to try in this order when the model before does not answer."""
    turn_budget: Budget = Budget()
    session_budget: Budget = Budget()
    unusual: Budget = Budget()
    """The usage above which the turn is unusual. The user then gets a notice, and another one each time the usage
    doubles. The turn continues."""
    session_spent: BudgetUsage = BudgetUsage()
    """The usage of the session's earlier turns."""
    answer_within_s: int = 24 * 3600
    """How long the turn waits for an answer before the default applies."""
    steers: tuple[Steer, ...] = ()
    """Messages to add to the model's input at the next step. The drone ignores those that its journal already has."""
    traceparent: str | None = None
    """The turn's trace in the form of W3C Trace Context; null when tracing is off."""
