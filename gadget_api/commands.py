"""Socket requests and pushes other than the events of a turn.

A request carries one object. The receiver acknowledges it with `{ok: true, ...}` (the reply model here) or
`{ok: false, error: {code, message, retryable}}`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gadget_api.checkpoints import CheckpointId, Diff, FileChange, SkippedFile
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

MessageText = Annotated[str, StringConstraints(min_length=1)]
ImageIds = Annotated[tuple[Id, ...], Field(max_length=MAX_IMAGES)]
"""Ids returned by `POST /images`."""


class OkReply(WireModel):
    """The reply of a successful request. A reply with data is a subclass."""

    ok: Literal[True] = True


class Cursor(WireModel):
    """The last event that a client has received; `seq` 0 means none."""

    turn_id: Id
    seq: int = Field(ge=0)
    epoch: int | None = Field(default=None, ge=0)
    """The epoch of that event. With it the service sends events again that the client saw but that were never stored:
    an event of a later epoch replaces the client's events from that `seq` on. Null: no event is sent twice."""


# IDE -> web


class SelectSession(WireModel):
    chat_session_id: Id
    after: Cursor | None = None
    """The replay starts after this event; null: at the first event of the running turn."""


class SessionSelected(OkReply):
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
    content: MessageText
    prompt_id: Id
    """Made by the client. A repeated request with the same id returns the same turn."""
    images: ImageIds = ()


class PromptSubmitted(OkReply):
    turn: ChatTurn


class CancelTurn(WireModel):
    turn_id: Id


class SteerTurn(WireModel):
    turn_id: Id
    content: MessageText
    steer_id: Id


class AnswerInquiry(Answer):
    """The first answer is final: a different answer is refused, the same answer again is accepted."""

    inquiry_id: Id


class ContinueTurn(WireModel):
    """Continues a turn from its last step on another drone, after its drone is lost."""

    turn_id: Id
    drone_id: Id | None = None
    """Null: any other suitable drone."""


class NewContinue(WireModel):
    """The body of `POST /turns/{id}/continue`."""

    drone_id: Id | None = None


class NewTurn(WireModel):
    """The body of `POST /sessions/{id}/turns`."""

    content: MessageText
    prompt_id: Id
    images: ImageIds = ()


class NewSteer(WireModel):
    """The body of `POST /turns/{id}/steer`."""

    content: MessageText
    steer_id: Id | None = None


# web -> drone


class LockSession(WireModel):
    """Reserves the drone for this session."""

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


class DeliverSteer(Steer):
    """Adds a message to the model's input at the next step. A repeated request with the same id has no effect."""

    turn_id: Id


class DeliverAnswer(InquiryAnswer):
    """Delivers the answer to the turn's inquiry. A repeated request has no effect."""

    turn_id: Id


class SetPolicy(WireModel):
    """Replaces the permissions of the running turn, from its next tool call on."""

    turn_id: Id
    policy: Policy


class ReadDiff(WireModel):
    """Reads the changes in a project between two checkpoints. Refused when the drone does not have the checkpoints."""

    project: OrderProject
    since: CheckpointId | None = None
    """Null: the last commit in the user's own git repository."""
    until: CheckpointId | None = None
    """Null: the current files."""


class DiffRead(OkReply):
    diff: Diff


class RestoreFiles(WireModel):
    """Restores the project's files to a checkpoint. Refused while a turn runs."""

    project: OrderProject
    checkpoint: CheckpointId
    preview: bool = False
    """True changes nothing and returns what the request would change."""


class FilesRestored(OkReply):
    files: tuple[FileChange, ...]
    file_count: Count
    left_alone: tuple[SkippedFile, ...] = ()
    before: CheckpointId | None = None
    """The files before the change; null in a preview."""


class ListFiles(WireModel):
    """Lists one directory of a project. Refused with `notCloned` when the drone does not have the project."""

    project: OrderProject
    path: DirectoryPath = ""


class FilesListed(OkReply):
    files: FileList


class FindFiles(WireModel):
    """Finds the files of a project whose paths match a query."""

    project: OrderProject
    query: FileQuery
    limit: int = Field(default=MAX_FOUND_FILES, ge=1, le=MAX_FOUND_FILES)


class FilesFound(OkReply):
    found: FoundFiles


MAX_CHUNK_BYTES = 256 * 1024
"""The most bytes of a file in one reply. In base64 this is well below `MAX_EVENT_BYTES`, above which the connection
is closed."""


class ReadFile(WireModel):
    """Reads a part of a file, at most `MAX_CHUNK_BYTES`. Refused with `fileChanged` when the file no longer has the
    given `version`."""

    project: OrderProject
    path: FilePath
    offset: Count = 0
    version: FileVersion | None = None
    """The version of the parts that were read before; null in the first request."""


class FileRead(OkReply):
    version: FileVersion
    size_bytes: Count
    """The size of the whole file."""
    data: Annotated[str, StringConstraints(max_length=(MAX_CHUNK_BYTES + 2) // 3 * 4)]
    """Base64; empty when `offset` is at or after the end."""


class WriteFile(WireModel):
    """Replaces a whole file or creates one. Refused with `fileChanged`, `alreadyExists`, `workspaceBusy`."""

    project: OrderProject
    path: FilePath
    version: FileVersion | None
    """The version that the file must have; null: the file must not exist."""
    data: Annotated[str, StringConstraints(max_length=4 * (MAX_WRITTEN_BYTES // 3 + 1))]
    """Base64, in one message: the drone's socket library accepts 4 MiB."""


class FileWritten(OkReply):
    file: SavedFile


class RenameProjectFile(RenameFile):
    """Renames a file or a directory. Refused with `alreadyExists`, `workspaceBusy`."""

    project: OrderProject


class DeleteFile(WireModel):
    """Deletes a file or a directory. Refused with `fileChanged`, `workspaceBusy`."""

    project: OrderProject
    path: FilePath
    version: FileVersion | None = None
    """The version that the file must have; null: any."""
    recursive: bool = False
    """Whether the path may be a directory."""


class FilesDeleted(OkReply):
    deleted: DeletedFiles


class TurnAck(WireModel):
    """Tells the drone that every event up to `seq` is stored."""

    turn_id: Id
    seq: int


class TurnResend(WireModel):
    """Asks the drone to send every event after `afterSeq` again, because events are missing."""

    turn_id: Id
    after_seq: int


class TurnRevoked(WireModel):
    """Tells the drone to stop a turn and delete its state: another drone has it, it has ended, or it never was this
    drone's."""

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
    """The epoch to continue with; 0 with `discard`."""
    acked_seq: int = 0
    question: Id | None = None
    """The `question` of the request."""
    work_order: WorkOrder | None = None
    """With `resume` and `retry`: the work order again, because the drone does not store its key."""


# drone -> web


class DroneWorkspaceMode(WireModel):
    mode: WorkspaceMode


class BeginTurn(WireModel):
    """Refused (`staleEpoch`) when the drone does not own the turn in this epoch, for example because the offer arrived
    late."""

    turn_id: Id
    epoch: int


class RequestCrashRecovery(WireModel):
    workspace_id: str
    turn_id: Id
    chat_session_id: Id
    last_seq: int = Field(ge=0)
    question: Id | None = None
    """Identifies this request, so that the drone does not mistake a late response for the response to a newer one."""


class ReportStatus(WireModel):
    status: DroneStatus
    projects: tuple[Id, ...] | None = None
    """The projects that the drone has cloned; null changes nothing."""
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
