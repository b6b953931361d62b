"""The files of a workspace's `.gadget/` directory, as they are on disk."""

from typing import Literal

from pydantic import Field

from gadget_api.drones import DroneStatus
from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel

WORKSPACE_VERSION = 1
"""Of the files in `.gadget/`; a drone refuses a workspace that a newer one wrote."""


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
    """`.gadget/workspace.json`: kept for ever."""

    version: int = WORKSPACE_VERSION
    workspace_id: str
    """UUID v4; never changes."""
    created_at: UtcTime
    hostname: str
    workspace_dir: str
    chat_session: LockedSession | None = None
    """The session this workspace works for now; null when idle."""
    locked_project: LockedProject | None = None
    projects: tuple[WorkspaceProject, ...] = ()
    registration: WorkspaceRegistration | None = None


class WorkOrderFile(WireModel):
    """`.gadget/work-order.json`: from acceptance until the end is acknowledged. Never holds a key."""

    turn_id: Id = Field(pattern="^[0-9A-Za-z]+$")
    """Names the turn's journal, too."""
    chat_session_id: Id
    project_id: Id
    work_order_id: Id
    received_at: UtcTime
    prompt: str
    status: Literal["processing", "completed", "error"]
    error: str | None = None
