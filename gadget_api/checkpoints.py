"""Checkpoints: the project's files after a step, stored by the drone outside the user's own git repository."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel

CheckpointId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""The hash of a commit in the drone's own object store."""
MAX_LISTED_FILES = 200
"""The most files that a checkpoint event lists; its `fileCount` is the number of all changed files."""


class FileChange(WireModel):
    path: str
    old_path: str | None = None
    """The path before a rename."""
    status: str
    """`added`, `modified`, `deleted`, `renamed` or `typeChanged`."""
    added: Count | None = None
    """Number of lines; null for a binary file."""
    removed: Count | None = None


class FileDiff(FileChange):
    diff: str | None = None
    """A unified diff in UTF-8; null when the file is binary or the diff is too large (then `truncated` is true)."""
    truncated: bool = False


class Diff(WireModel):
    """The changes between two checkpoints, or since one."""

    files: tuple[FileDiff, ...]
    file_count: Count
    truncated: bool = False
    """Whether files or diffs are left out."""


class RevertScope(StrEnum):
    FILES = "files"
    CONVERSATION = "conversation"
    BOTH = "both"


class NewRevert(WireModel):
    """The body of `POST /sessions/{id}/revert`: takes the session back to its state before this turn."""

    turn: Id
    scope: RevertScope = RevertScope.BOTH
    preview: bool = False
    """True changes nothing and returns what a revert would change."""


class Revert(WireModel):
    """A revert of a session. The user can undo it until the next prompt."""

    turn: Id
    """The first reverted turn."""
    scope: RevertScope
    at: UtcTime
    redo: CheckpointId | None = None
    """The files before the revert; null when the revert changed no files."""


class SkippedFile(WireModel):
    """A file that a revert does not change."""

    path: str
    reason: str


class Reverted(WireModel):
    """The result of a revert, or of its preview."""

    turns: tuple[Id, ...] = ()
    """The reverted turns."""
    files: tuple[FileChange, ...] = ()
    file_count: Count = 0
    left_alone: tuple[SkippedFile, ...] = ()


class CheckpointTaken(WireModel):
    """A checkpoint, as its event describes it."""

    checkpoint_id: CheckpointId
    parent: CheckpointId | None = None
    files: tuple[FileChange, ...] = Field(default=(), max_length=MAX_LISTED_FILES)
    """The changes since `parent`."""
    file_count: Count = 0
