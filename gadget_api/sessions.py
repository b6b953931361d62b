"""Chat sessions."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class SessionMode(StrEnum):
    """How the agent works in a session."""

    BUILD = "build"
    PLAN = "plan"


class SessionLock(WireModel):
    """The drone that works for one session alone until it is released."""

    drone_id: Id
    locked_at: UtcTime


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
    drone: Id | None = None
    """The drone the user chose; null means any that fits."""
    workspace_id: str | None = None
    """Where the session's work was last done; drone selection prefers it."""
    lock: SessionLock | None = None


class NewSession(WireModel):
    name: Name
    mode: SessionMode = SessionMode.BUILD
    project: Id
    provider: Id
    selected_model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    drone: Id | None = None
    workspace_id: str | None = None


class SessionChanges(WireModel):
    """What may be changed of a session; what is left out stays."""

    name: Name | None = None
    mode: SessionMode | None = None
    provider: Id | None = None
    selected_model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    drone: Id | None = None
    """Null clears the choice."""
