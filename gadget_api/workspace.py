"""Who holds a workspace: the directory a drone works in."""

from enum import StrEnum


class WorkspaceMode(StrEnum):
    """Who may change the workspace's files now."""

    IDLE = "idle"
    USER = "user"
    AGENT = "agent"
