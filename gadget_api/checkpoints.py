"""Checkpoints: the project's files as they were after a step, kept by the drone apart from the user's own git."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel

CheckpointId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""A commit in the drone's own object store."""
MAX_LISTED_FILES = 200
"""Of a checkpoint event; `fileCount` counts all."""


class FileChange(WireModel):
    path: str
    old_path: str | None = None
    """Where it was renamed from."""
    status: str
    """`added`, `modified`, `deleted`, `renamed` or `typeChanged`."""
    added: Count | None = None
    """Lines; null for a binary file."""
    removed: Count | None = None


class FileDiff(FileChange):
    diff: str | None = None
    """Unified, in UTF-8; null when it is binary or too large (then see `truncated`)."""
    truncated: bool = False


class Diff(WireModel):
    """What changed between two checkpoints, or since one."""

    files: tuple[FileDiff, ...]
    file_count: Count
    truncated: bool = False
    """Whether files are missing, or their diffs are."""


class RevertScope(StrEnum):
    FILES = "files"
    CONVERSATION = "conversation"
    BOTH = "both"


class NewRevert(WireModel):
    """The body of `POST /sessions/{id}/revert`: back to where the session was before this turn."""

    turn: Id
    scope: RevertScope = RevertScope.BOTH
    preview: bool = False
    """Changes nothing: answers what would."""


class Revert(WireModel):
    """A session that was taken back, and may be brought forward again until its next prompt."""

    turn: Id
    """The first that does not count any more; null scope parts are as they were."""
    scope: RevertScope
    at: UtcTime
    redo: CheckpointId | None = None
    """The files as they were before; null when none were changed."""


class LeftAlone(WireModel):
    """A file that a revert does not touch."""

    path: str
    reason: str


class Reverted(WireModel):
    """The answer to a revert, or what it would do."""

    turns: tuple[Id, ...] = ()
    """Those that do not count any more."""
    files: tuple[FileChange, ...] = ()
    file_count: Count = 0
    left_alone: tuple[LeftAlone, ...] = ()


class CheckpointTaken(WireModel):
    """A checkpoint as its event carries it."""

    checkpoint_id: CheckpointId
    parent: CheckpointId | None = None
    files: tuple[FileChange, ...] = Field(default=(), max_length=MAX_LISTED_FILES)
    """What changed since `parent`."""
    file_count: Count = 0
