"""Drones: the daemons that run turns in a workspace."""

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
    """The sandbox in which a drone runs the agent's commands."""

    kind: Literal["bubblewrap", "none"]
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    """With `none`: the cause and the remedy."""


class LoopLag(WireModel):
    """The lag of a process's event loop since the start of the process, measured by a tick every 100 ms."""

    max_ms: Count
    blocked_ms: Count
    """The longest lag that the process itself caused, without the time in which the machine ran other processes."""
    over_50_ms: Count
    """Number of ticks with a longer lag."""
    over_250_ms: Count


class DroneRegistration(WireModel):
    """A registered drone. A workspace has one registration, whenever its drone registers again."""

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
    """The turn that it runs."""
    projects: tuple[Id, ...] = ()
    """The projects that it has cloned, as far as the service knows."""
    version: str | None = None
    """The version of Gadget Code on its machine."""
    sandbox: Sandbox | None = None
    """Null: not reported."""


class NewRegistration(WireModel):
    hostname: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    workspace_dir: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    workspace_id: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    name: Name | None = None
    """Null: a name made of the host name and the directory."""
    protocol_version: int | None = None
    version: Annotated[str, StringConstraints(max_length=100)] | None = None
    sandbox: Sandbox | None = None


class Registered(WireModel):
    registration: DroneRegistration
    token: str
    """The drone's credential. It is valid for this user and this workspace only."""


class DroneChanges(WireModel):
    name: Name | None = None


class NewDroneToken(WireModel):
    """A credential for a new drone. The first workspace that registers with it keeps it."""

    token: str
    expires_at: UtcTime
