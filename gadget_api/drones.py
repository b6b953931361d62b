"""Drones: the daemons that do the work."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel
from gadget_api.sessions import Name
from gadget_api.workspace import WorkspaceMode


class DroneStatus(StrEnum):
    STARTING = "starting"
    AVAILABLE = "available"
    BUSY = "busy"
    OFFLINE = "offline"


class Sandbox(WireModel):
    """What holds the commands that an agent runs on a drone."""

    kind: Literal["bubblewrap", "none"]
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    """Why there is none, and what to do."""


class LoopLag(WireModel):
    """How late a process's event loop was, since the process began. A tick each 100 ms is what is counted."""

    max_ms: Count
    blocked_ms: Count
    """The most that was the process's own doing: without what a busy machine took to run it again."""
    over_50_ms: Count
    """Ticks that were later than this."""
    over_250_ms: Count


class DroneRegistration(WireModel):
    """A drone as its user sees it. The same workspace is always the same registration."""

    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    name: Name
    hostname: str
    workspace_dir: str
    workspace_id: str
    status: DroneStatus
    workspace_mode: WorkspaceMode
    last_seen_at: UtcTime
    turn: Id | None = None
    """The turn it works on."""
    projects: tuple[Id, ...] = ()
    """Projects that it has cloned, as far as the server knows."""
    version: str | None = None
    """Of Gadget Code on its machine."""
    sandbox: Sandbox | None = None
    """Null: it has not said."""


class NewRegistration(WireModel):
    hostname: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    workspace_dir: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    workspace_id: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    name: Name | None = None
    """Null names it after its host and directory."""
    protocol_version: int | None = None
    version: Annotated[str, StringConstraints(max_length=100)] | None = None
    sandbox: Sandbox | None = None


class Registered(WireModel):
    registration: DroneRegistration
    token: str
    """The drone's credential: for this user and this workspace alone."""


class DroneChanges(WireModel):
    name: Name | None = None


class NewDroneToken(WireModel):
    """A credential for a drone that has not registered yet; the first workspace to use it keeps it."""

    token: str
    expires_at: UtcTime
