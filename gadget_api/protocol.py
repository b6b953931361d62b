"""The one table of socket events: who says what to whom, with which payload, and what is answered.

Handlers register from this table, a test asserts that each has one, and `docs/reference/protocol.md` is made from it.
"""

from dataclasses import dataclass
from enum import StrEnum

from gadget_api import commands as c
from gadget_api.events import EVENT_TYPES
from gadget_api.model import WireModel

PROTOCOL_VERSION = 1
"""Said by our clients in the handshake; a change that an older peer cannot read raises it."""

SOCKET_PATH = "/socket.io"
API_PREFIX = "/api/v1"


class Peer(StrEnum):
    IDE = "IDE"
    WEB = "web"
    DRONE = "drone"


@dataclass(frozen=True)
class SocketEvent:
    name: str
    sender: Peer
    receiver: Peer
    payload: type[WireModel]
    reply: type[WireModel] | None
    """None: not acknowledged."""
    summary: str


def _ide(name: str, payload: type[WireModel], reply: type[WireModel], summary: str) -> SocketEvent:
    return SocketEvent(name, Peer.IDE, Peer.WEB, payload, reply, summary)


def _to_drone(name: str, payload: type[WireModel], reply: type[WireModel] | None, summary: str) -> SocketEvent:
    return SocketEvent(name, Peer.WEB, Peer.DRONE, payload, reply, summary)


def _drone(name: str, payload: type[WireModel], reply: type[WireModel] | None, summary: str) -> SocketEvent:
    return SocketEvent(name, Peer.DRONE, Peer.WEB, payload, reply, summary)


def _to_ide(name: str, payload: type[WireModel], summary: str) -> SocketEvent:
    return SocketEvent(name, Peer.WEB, Peer.IDE, payload, None, summary)


def _first_line(model: type[WireModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


SOCKET_EVENTS: tuple[SocketEvent, ...] = (
    _ide("selectSession", c.SelectSession, c.SessionSelected, "Watch a session: the answer, then a replay, then live."),
    _ide("requestSessionLock", c.RequestSessionLock, c.Done, "Keep a drone for one session."),
    _ide("releaseSessionLock", c.ReleaseSessionLock, c.Done, "Give the session's drone back."),
    _ide("requestWorkspaceMode", c.RequestWorkspaceMode, c.Done, "Take the workspace to edit by hand; hand it back."),
    _ide("submitPrompt", c.SubmitPrompt, c.PromptSubmitted, "Store a prompt; answered once it cannot be lost."),
    _ide("cancelTurn", c.CancelTurn, c.Done, "End a turn now."),
    _ide("steerTurn", c.SteerTurn, c.Done, "Put a message before the model at the turn's next step."),
    _ide("answerInquiry", c.AnswerInquiry, c.Done, "Answer what a turn asked."),
    _ide("continueTurn", c.ContinueTurn, c.Done, "Go on with a turn whose drone is lost, on another drone."),
    _to_drone("requestSessionLock", c.LockSession, c.Done, "Work for this session alone."),
    _to_drone("releaseSessionLock", c.UnlockSession, c.Done, "Work for any session again."),
    _to_drone("requestWorkspaceMode", c.SetWorkspaceMode, c.Done, "The user takes or hands back the workspace."),
    _to_drone(
        "processWorkOrder", c.ProcessWorkOrder, c.Done, "Work on a turn; refused with a code such as `droneBusy`."
    ),
    _to_drone("cancelTurn", c.CancelTurn, c.Done, "End the turn now."),
    _to_drone("steerTurn", c.PutSteer, c.Done, "Put a message before the model at the next step."),
    _to_drone("answerInquiry", c.PutAnswer, c.Done, "The answer to what the turn asked."),
    _to_drone("setPolicy", c.SetPolicy, c.Done, "What the running turn may do, from its next tool call on."),
    _to_drone("readDiff", c.ReadDiff, c.DiffRead, "What changed between two checkpoints, or since one."),
    _to_drone("restoreFiles", c.RestoreFiles, c.FilesRestored, "Make the files what they were at a checkpoint."),
    _to_drone("listFiles", c.ListFiles, c.FilesListed, "What is in a directory of a project."),
    _to_drone("findFiles", c.FindFiles, c.FilesFound, "Files of a project whose paths fit a query, the best first."),
    _to_drone("readFile", c.ReadFile, c.FileRead, "A piece of a file."),
    _to_drone("writeFile", c.WriteFile, c.FileWritten, "Replace a file that is still what it was, or make one."),
    _to_drone("renameFile", c.RenameProjectFile, c.Done, "Rename a file or a directory; nothing is overwritten."),
    _to_drone("deleteFile", c.DeleteFile, c.FilesDeleted, "Delete a file, or a directory with what is in it."),
    _to_drone("turnAck", c.TurnAck, None, "Everything up to `seq` is stored."),
    _to_drone("turnResend", c.TurnResend, None, "Events are missing: send them again."),
    _to_drone("turnRevoked", c.TurnRevoked, None, "The turn is not this drone's (any more)."),
    _to_drone("crashRecoveryResponse", c.CrashRecoveryResponse, None, "What to do with the turn a crash left."),
    *(_drone(name, model, None, _first_line(model)) for name, model in EVENT_TYPES.items()),
    _drone("requestWorkspaceMode", c.DroneWorkspaceMode, c.Done, "`agent` before the loop, `idle` after it."),
    _drone("requestCrashRecovery", c.RequestCrashRecovery, c.Done, "A crash left this turn; what shall become of it?"),
    _drone("droneStatus", c.ReportStatus, c.Done, "What the drone is doing."),
    *(_to_ide(name, model, _first_line(model)) for name, model in EVENT_TYPES.items()),
    _to_ide("turnStatus", c.TurnStatus, "A turn was made or changed its status."),
    _to_ide("sessionUpdated", c.SessionUpdated, "A session was made or changed."),
    _to_ide(
        "inquiryChanged", c.InquiryChanged, "A turn asks something, or what it asked was answered, or is asked no more."
    ),
    _to_ide("droneStatus", c.DroneStatusChanged, "A drone of the user's changed."),
    _to_ide("workspaceMode", c.WorkspaceModeChanged, "Who holds the session's workspace."),
    _to_ide("sessionLock", c.SessionLockChanged, "The session's lock was taken or released."),
)


def events_between(sender: Peer, receiver: Peer) -> dict[str, SocketEvent]:
    """The events one peer sends another, by name."""
    return {event.name: event for event in SOCKET_EVENTS if (event.sender, event.receiver) == (sender, receiver)}
