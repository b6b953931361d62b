"""Requests and pushes on the socket that are not events of a turn.

A request carries one object and is acknowledged with `{ok: true, ...}` (the reply model here) or
`{ok: false, error: {code, message, retryable}}`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gadget_api.checkpoints import CheckpointId, Diff, FileChange, LeftAlone
from gadget_api.drones import DroneRegistration, DroneStatus, LoopLag
from gadget_api.errors import ErrorCode
from gadget_api.files import (
    MAX_FOUND_FILES,
    MAX_WRITTEN_BYTES,
    DeletedFiles,
    DirectoryPath,
    FileList,
    FilePath,
    FileQuery,
    FileVersion,
    FoundFiles,
    RenameFile,
    SavedFile,
)
from gadget_api.ids import Id
from gadget_api.images import MAX_IMAGES
from gadget_api.inquiries import Answer, Inquiry, InquiryAnswer
from gadget_api.model import Count, WireModel
from gadget_api.permissions import Policy
from gadget_api.sessions import ChatSession, SessionLock
from gadget_api.turns import ChatTurn, Steer
from gadget_api.work_order import OrderProject, WorkOrder
from gadget_api.workspace import WorkspaceMode

Content = Annotated[str, StringConstraints(min_length=1)]
Images = Annotated[tuple[Id, ...], Field(max_length=MAX_IMAGES)]
"""Ids that `POST /images` answered."""


class Done(WireModel):
    """The reply that says no more than yes."""

    ok: Literal[True] = True


class Cursor(WireModel):
    """The last event a watcher has; `seq` 0 is before the first."""

    turn_id: Id
    seq: int = Field(ge=0)
    epoch: int | None = Field(default=None, ge=0)
    """Of that event. With it the watcher is sent anew what it saw and nobody stored: an event of a later epoch takes
    the place of what it has from that `seq` on. Null: nothing is sent twice."""


# IDE -> web


class SelectSession(WireModel):
    chat_session_id: Id
    after: Cursor | None = None
    """Null: the running turn from its first event. Else everything after this event."""


class SessionSelected(WireModel):
    ok: Literal[True] = True
    session: ChatSession
    turns: tuple[ChatTurn, ...]
    """The latest turns, newest first."""
    lock: SessionLock | None
    workspace_mode: WorkspaceMode


class RequestSessionLock(WireModel):
    chat_session_id: Id
    drone_id: Id


class ReleaseSessionLock(WireModel):
    chat_session_id: Id


class RequestWorkspaceMode(WireModel):
    chat_session_id: Id
    mode: WorkspaceMode


class SubmitPrompt(WireModel):
    chat_session_id: Id
    content: Content
    prompt_id: Id
    """Made by the client; the same one again answers the same turn."""
    images: Images = ()


class PromptSubmitted(WireModel):
    ok: Literal[True] = True
    turn: ChatTurn


class CancelTurn(WireModel):
    turn_id: Id


class SteerTurn(WireModel):
    turn_id: Id
    content: Content
    steer_id: Id


class AnswerInquiry(Answer):
    """The first answer counts; another is refused, the same again is not."""

    inquiry_id: Id


class ContinueTurn(WireModel):
    """The turn's drone is lost: go on from its last step somewhere else."""

    turn_id: Id
    drone_id: Id | None = None
    """Null: any other drone that fits."""


class NewContinue(WireModel):
    """The body of `POST /turns/{id}/continue`."""

    drone_id: Id | None = None


class NewTurn(WireModel):
    """The body of `POST /sessions/{id}/turns`."""

    content: Content
    prompt_id: Id
    images: Images = ()


class NewSteer(WireModel):
    """The body of `POST /turns/{id}/steer`."""

    content: Content
    steer_id: Id | None = None


# web -> drone


class LockSession(WireModel):
    """Work for this session alone from now on."""

    chat_session_id: Id
    name: str
    project_id: Id
    slug: str
    git_url: str


class UnlockSession(WireModel):
    chat_session_id: Id


class SetWorkspaceMode(WireModel):
    chat_session_id: Id
    mode: WorkspaceMode


class ProcessWorkOrder(WireModel):
    work_order: WorkOrder


class PutSteer(Steer):
    """Put this before the model at the next step; the same id again changes nothing."""

    turn_id: Id


class PutAnswer(InquiryAnswer):
    """The answer to what the turn asked; the same again changes nothing."""

    turn_id: Id


class SetPolicy(WireModel):
    """What the running turn may do, from its next tool call on."""

    turn_id: Id
    policy: Policy


class ReadDiff(WireModel):
    """What changed in a project between two checkpoints. Refused when the drone does not have them."""

    project: OrderProject
    since: CheckpointId | None = None
    """Null: the last commit of the user's own git."""
    until: CheckpointId | None = None
    """Null: the files as they are now."""


class DiffRead(WireModel):
    ok: Literal[True] = True
    diff: Diff


class RestoreFiles(WireModel):
    """Make the project's files what they were at a checkpoint. Refused while a turn runs."""

    project: OrderProject
    checkpoint: CheckpointId
    preview: bool = False
    """Change nothing: say what would."""


class FilesRestored(WireModel):
    ok: Literal[True] = True
    files: tuple[FileChange, ...]
    file_count: Count
    left_alone: tuple[LeftAlone, ...] = ()
    before: CheckpointId | None = None
    """The files as they were before; null in a preview."""


class ListFiles(WireModel):
    """What is in one directory of a project. Refused with `notCloned` when the drone does not have the project."""

    project: OrderProject
    path: DirectoryPath = ""


class FilesListed(WireModel):
    ok: Literal[True] = True
    files: FileList


class FindFiles(WireModel):
    """Paths of a project that fit a query."""

    project: OrderProject
    query: FileQuery
    limit: int = Field(default=MAX_FOUND_FILES, ge=1, le=MAX_FOUND_FILES)


class FilesFound(WireModel):
    ok: Literal[True] = True
    found: FoundFiles


MAX_CHUNK_BYTES = 256 * 1024
"""Of a file, in one answer: in base64 well below `MAX_EVENT_BYTES`, past which the connection is dropped."""


class ReadFile(WireModel):
    """A piece of a file, `MAX_CHUNK_BYTES` at most. Refused with `fileChanged` when it is not `version` any more."""

    project: OrderProject
    path: FilePath
    offset: Count = 0
    version: FileVersion | None = None
    """Of the pieces read before; null with the first."""


class FileRead(WireModel):
    ok: Literal[True] = True
    version: FileVersion
    size_bytes: Count
    """Of the whole file."""
    data: Annotated[str, StringConstraints(max_length=(MAX_CHUNK_BYTES + 2) // 3 * 4)]
    """Base64; empty past the end."""


class WriteFile(WireModel):
    """Replace a whole file, or make one. Refused with `fileChanged`, `alreadyExists`, `workspaceBusy`."""

    project: OrderProject
    path: FilePath
    version: FileVersion | None
    """What is to be there now; null: nothing."""
    data: Annotated[str, StringConstraints(max_length=4 * (MAX_WRITTEN_BYTES // 3 + 1))]
    """Base64. It is one message: the library at the drone's end takes 4 MiB."""


class FileWritten(WireModel):
    ok: Literal[True] = True
    file: SavedFile


class RenameProjectFile(RenameFile):
    """Refused with `alreadyExists`, `workspaceBusy`."""

    project: OrderProject


class DeleteFile(WireModel):
    """Refused with `fileChanged`, `workspaceBusy`."""

    project: OrderProject
    path: FilePath
    version: FileVersion | None = None
    """What the file is to be; null: whatever it is."""
    recursive: bool = False
    """Whether it may be a directory."""


class FilesDeleted(WireModel):
    ok: Literal[True] = True
    deleted: DeletedFiles


class TurnAck(WireModel):
    """Everything up to `seq` is stored."""

    turn_id: Id
    seq: int


class TurnResend(WireModel):
    """Events are missing: send again everything after `afterSeq`."""

    turn_id: Id
    after_seq: int


class TurnRevoked(WireModel):
    """The turn went on without this drone, or is over, or was never its own: stop, and drop what is left of it."""

    turn_id: Id
    code: ErrorCode
    message: str


class RecoveryAction(StrEnum):
    DISCARD = "discard"
    RESUME = "resume"
    RETRY = "retry"


class CrashRecoveryResponse(WireModel):
    turn_id: Id
    action: RecoveryAction
    retry_delay: int = 0
    """Milliseconds to wait before a retry."""
    epoch: int = 0
    """The epoch to go on with; 0 with `discard`."""
    acked_seq: int = 0
    question: Id | None = None
    """That of the request."""
    work_order: WorkOrder | None = None
    """With `resume` and `retry`: the order again, for the drone kept no key."""


# drone -> web


class DroneWorkspaceMode(WireModel):
    mode: WorkspaceMode
    turn_id: Id | None = None
    """With `agent`: the turn that is about to begin. Refused when it is not the drone's under this epoch (any more): an
    offer may have been long on its way."""
    epoch: int | None = None


class RequestCrashRecovery(WireModel):
    workspace_id: str
    turn_id: Id
    chat_session_id: Id
    last_seq: int = Field(ge=0)
    question: Id | None = None
    """Told apart by it, an answer that comes late is not taken for that to a later question."""


class ReportStatus(WireModel):
    status: DroneStatus
    projects: tuple[Id, ...] | None = None
    """The projects it has cloned; null leaves the record as it is."""
    loop_lag: LoopLag | None = None


# web -> IDE


class TurnStatus(WireModel):
    turn: ChatTurn


class SessionUpdated(WireModel):
    session: ChatSession


class InquiryChanged(WireModel):
    inquiry: Inquiry


class DroneStatusChanged(WireModel):
    drone: DroneRegistration


class WorkspaceModeChanged(WireModel):
    chat_session_id: Id
    drone_id: Id
    mode: WorkspaceMode


class SessionLockChanged(WireModel):
    chat_session_id: Id
    lock: SessionLock | None
