"""Chat sessions."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.budgets import Budget
from gadget_api.checkpoints import Revert
from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.permissions import PermissionLevel, Rules

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class SessionMode(StrEnum):
    """How the agent works in a session: `plan` is the permission level `plan`, `build` is any other level."""

    BUILD = "build"
    PLAN = "plan"


class Effort(StrEnum):
    """How much a reasoning model reasons before it answers."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class SessionLock(WireModel):
    """The drone that is reserved for one session until the user releases it."""

    drone_id: Id
    locked_at: UtcTime


class ModelChoice(WireModel):
    provider: Id
    model: ModelName


Fallbacks = Annotated[tuple[ModelChoice, ...], Field(max_length=8)]


class ForkedFrom(WireModel):
    session: Id
    turn: Id
    """The last turn that both sessions have in common."""


class ChatSession(WireModel):
    """A conversation about a project."""

    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    name: Name
    mode: SessionMode = SessionMode.BUILD
    project: Id
    provider: Id
    selected_model: str
    effort: Effort | None = None
    """Null: the effort of the model's entry."""
    drone: Id | None = None
    """The drone that the user chose; null: any suitable drone."""
    workspace_id: str | None = None
    """The workspace of the session's last turn; drone selection prefers it."""
    lock: SessionLock | None = None
    level: PermissionLevel = PermissionLevel.FULL
    """The permission level: what the agent may do without asking."""
    rules: Rules = ()
    budget: Budget = Budget()
    """For the whole session. In both budgets a null limit means the user's limit, or else the install's."""
    turn_budget: Budget = Budget()
    """For each turn."""
    fallbacks: Fallbacks = ()
    """Models to try in this order when the model before does not answer."""
    wants_title: bool = False
    """Whether the first turn gives the session a name."""
    archived_at: UtcTime | None = None
    pinned_at: UtcTime | None = None
    """Null: the session is not pinned to the top of the list."""
    forked_from: ForkedFrom | None = None
    history_version: int = 0
    """Raised when a revert or redo changes the history."""
    revert: Revert | None = None
    """The last revert. The user can undo it until the next prompt."""


class NewSession(WireModel):
    name: Name | None = None
    """Null: the first turn gives the session a name."""
    mode: SessionMode | None = None
    level: PermissionLevel | None = None
    """Null: the user's default level."""
    rules: Rules = ()
    budget: Budget = Budget()
    turn_budget: Budget = Budget()
    fallbacks: Fallbacks = ()
    project: Id
    provider: Id
    selected_model: ModelName
    effort: Effort | None = None
    drone: Id | None = None
    workspace_id: str | None = None


class SessionChanges(WireModel):
    """Changes to a session. Omitted fields do not change."""

    name: Name | None = None
    mode: SessionMode | None = None
    provider: Id | None = None
    selected_model: ModelName | None = None
    effort: Effort | None = None
    """Null: the effort of the model's entry. Applies to later prompts."""
    drone: Id | None = None
    """Null: any suitable drone."""
    level: PermissionLevel | None = None
    """Applies at once, also to a running turn; so do `mode` and `rules`."""
    rules: Rules | None = None
    budget: Budget | None = None
    turn_budget: Budget | None = None
    fallbacks: Fallbacks | None = None
    archived: bool | None = None
    pinned: bool | None = None


class NewFork(WireModel):
    """The body of `POST /sessions/{id}/fork`."""

    turn: Id | None = None
    """The last turn to copy; null copies all turns that have ended."""
    name: Name | None = None


def resolve_level(
    mode: SessionMode | None, level: PermissionLevel | None, otherwise: PermissionLevel
) -> PermissionLevel:
    """Returns the permission level for a requested `mode` and `level`, of which either may be missing. The mode `build`
    without a level gives `otherwise`, but `ask` when `otherwise` is `plan`."""
    if level is not None:
        return level
    if mode is SessionMode.PLAN:
        return PermissionLevel.PLAN
    if mode is SessionMode.BUILD and otherwise is PermissionLevel.PLAN:
        return PermissionLevel.ASK
    return otherwise


def mode_of(level: PermissionLevel) -> SessionMode:
    return SessionMode.PLAN if level is PermissionLevel.PLAN else SessionMode.BUILD
