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
    """How the agent works in a session: `plan` is the level `plan`, `build` any other."""

    BUILD = "build"
    PLAN = "plan"


class Effort(StrEnum):
    """How much a model that reasons shall do so before it answers."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class SessionLock(WireModel):
    """The drone that works for one session alone until it is released."""

    drone_id: Id
    locked_at: UtcTime


class ModelChoice(WireModel):
    provider: Id
    model: ModelName


Fallbacks = Annotated[tuple[ModelChoice, ...], Field(max_length=8)]


class ForkedFrom(WireModel):
    session: Id
    turn: Id
    """The last that it has in common with the other."""


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
    """Null leaves it to the model's own settings."""
    drone: Id | None = None
    """The drone the user chose; null means any that fits."""
    workspace_id: str | None = None
    """Where the session's work was last done; drone selection prefers it."""
    lock: SessionLock | None = None
    level: PermissionLevel = PermissionLevel.FULL
    """What the agent may do without asking."""
    rules: Rules = ()
    budget: Budget = Budget()
    """Of the whole session. A null limit is the user's, else the install's; so in `turnBudget`."""
    turn_budget: Budget = Budget()
    """Of each turn."""
    fallbacks: Fallbacks = ()
    """Models to go on with, in this order, when the one before does not answer."""
    wants_title: bool = False
    """Whether its first turn gives it a name."""
    archived_at: UtcTime | None = None
    pinned_at: UtcTime | None = None
    """Kept on top of the list since then."""
    forked_from: ForkedFrom | None = None
    history_version: int = 0
    """Raised when turns are taken back or brought back."""
    revert: Revert | None = None
    """What was taken back and may be brought forward again; the next prompt ends that."""


class NewSession(WireModel):
    name: Name | None = None
    """Null: the first turn gives it one."""
    mode: SessionMode | None = None
    level: PermissionLevel | None = None
    """Null: the user's own."""
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
    """What may be changed of a session; what is left out stays."""

    name: Name | None = None
    mode: SessionMode | None = None
    provider: Id | None = None
    selected_model: ModelName | None = None
    effort: Effort | None = None
    """Null leaves it to the model's own settings. Of prompts from now on."""
    drone: Id | None = None
    """Null clears the choice."""
    level: PermissionLevel | None = None
    """Counts at once, in a turn that runs too; so do `mode` and `rules`."""
    rules: Rules | None = None
    budget: Budget | None = None
    turn_budget: Budget | None = None
    fallbacks: Fallbacks | None = None
    archived: bool | None = None
    pinned: bool | None = None


class NewFork(WireModel):
    """The body of `POST /sessions/{id}/fork`."""

    turn: Id | None = None
    """The last turn to take along; null takes all that are over."""
    name: Name | None = None


def settled(mode: SessionMode | None, level: PermissionLevel | None, otherwise: PermissionLevel) -> PermissionLevel:
    """The level of a session for which somebody asked for `mode`, `level`, both or neither. The mode `build` alone is
    `otherwise`, or `ask` where that is `plan`."""
    if level is not None:
        return level
    if mode is SessionMode.PLAN:
        return PermissionLevel.PLAN
    if mode is SessionMode.BUILD and otherwise is PermissionLevel.PLAN:
        return PermissionLevel.ASK
    return otherwise


def mode_of(level: PermissionLevel) -> SessionMode:
    return SessionMode.PLAN if level is PermissionLevel.PLAN else SessionMode.BUILD
