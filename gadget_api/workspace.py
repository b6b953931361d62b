"""The mode of a workspace, the directory that a drone works in."""

from enum import StrEnum


class WorkspaceMode(StrEnum):
    """Who may currently change the workspace's files."""

    IDLE = "idle"
    USER = "user"
    AGENT = "agent"
