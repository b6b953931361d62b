"""The format of the files in a workspace's `.gadget/` directory."""

from typing import Literal

from pydantic import Field

from gadget_api.drones import DroneStatus
from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel

WORKSPACE_VERSION = 1
"""The version of this format. A drone refuses a workspace with a newer version."""


class LockedSession(WireModel):
    id: Id = Field(alias="_id")
    name: str
    locked_at: UtcTime


class LockedProject(WireModel):
    id: Id = Field(alias="_id")
    slug: str
    git_url: str
    locked_at: UtcTime


class WorkspaceProject(WireModel):
    id: Id = Field(alias="_id")
    slug: str
    git_url: str
    cloned_at: UtcTime
    last_sync_at: UtcTime


class WorkspaceRegistration(WireModel):
    id: Id = Field(alias="_id")
    status: DroneStatus
    registered_at: UtcTime


class WorkspaceFile(WireModel):
    """`.gadget/workspace.json`. It is never deleted."""

    version: int = WORKSPACE_VERSION
    workspace_id: str
    """UUID v4; never changes."""
    created_at: UtcTime
    hostname: str
    workspace_dir: str
    chat_session: LockedSession | None = None
    """The session that this workspace is reserved for; null when there is none."""
    locked_project: LockedProject | None = None
    projects: tuple[WorkspaceProject, ...] = ()
    registration: WorkspaceRegistration | None = None


class WorkOrderFile(WireModel):
    """`.gadget/work-order.json`. It exists from the acceptance of a turn until the service has acknowledged its end. It
    never contains a key."""

    turn_id: Id = Field(pattern="^[0-9A-Za-z]+$")
    """Also the name of the turn's journal."""
    chat_session_id: Id
    project_id: Id
    work_order_id: Id
    received_at: UtcTime
    prompt: str
    status: Literal["processing", "completed", "error"]
    error: str | None = None
