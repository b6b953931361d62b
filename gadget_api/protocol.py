"""The table of all socket events: sender, receiver, payload and reply.

The processes register their handlers from this table, a test asserts that each event has a handler, and
`docs/reference/protocol.md` is generated from it.
"""

from dataclasses import dataclass
from enum import StrEnum

from gadget_api import commands as c
from gadget_api import terminals as t
from gadget_api.events import EVENT_TYPES
from gadget_api.model import WireModel

PROTOCOL_VERSION = 1
"""Our clients send it in the handshake. Raise it with every change that an older peer cannot read."""

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
    """None: the receiver does not acknowledge the event."""
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
    _ide("selectSession", c.SelectSession, c.SessionSelected, "Watch a session: a replay, then live events."),
    _ide("requestSessionLock", c.RequestSessionLock, c.OkReply, "Reserve a drone for one session."),
    _ide("releaseSessionLock", c.ReleaseSessionLock, c.OkReply, "Release the session's drone."),
    _ide("requestWorkspaceMode", c.RequestWorkspaceMode, c.OkReply, "Take or hand back the workspace."),
    _ide("submitPrompt", c.SubmitPrompt, c.PromptSubmitted, "Submit a prompt; the reply comes after it is stored."),
    _ide("cancelTurn", c.CancelTurn, c.OkReply, "Cancel a turn."),
    _ide("steerTurn", c.SteerTurn, c.OkReply, "Add a message to the model's input at the turn's next step."),
    _ide("answerInquiry", c.AnswerInquiry, c.OkReply, "Answer an inquiry of a turn."),
    _ide("continueTurn", c.ContinueTurn, c.OkReply, "Continue a turn whose drone is lost on another drone."),
    _ide("listTerminals", t.ListTerminals, t.TerminalList, "List the terminals of a session."),
    _ide("openTerminal", t.OpenTerminal, t.TerminalOpened, "Start a shell in the session's project."),
    _ide("attachTerminal", t.AttachTerminal, t.TerminalAttached, "Read a terminal's output so far, and what follows."),
    _ide("detachTerminal", t.DetachTerminal, c.OkReply, "Stop reading a terminal's output."),
    _ide("writeTerminal", t.WriteTerminal, c.OkReply, "Send input to a terminal."),
    _ide("resizeTerminal", t.ResizeTerminal, c.OkReply, "Set the size of a terminal."),
    _ide("closeTerminal", t.CloseTerminal, c.OkReply, "End a terminal's shell and all processes that it has started."),
    _to_drone("requestSessionLock", c.LockSession, c.OkReply, "Reserve the drone for this session."),
    _to_drone("releaseSessionLock", c.UnlockSession, c.OkReply, "Release the drone for any session."),
    _to_drone("requestWorkspaceMode", c.SetWorkspaceMode, c.OkReply, "The user takes or hands back the workspace."),
    _to_drone("processWorkOrder", c.ProcessWorkOrder, c.OkReply, "Run a turn. Refused for example with `droneBusy`."),
    _to_drone("cancelTurn", c.CancelTurn, c.OkReply, "Cancel the turn."),
    _to_drone("steerTurn", c.DeliverSteer, c.OkReply, "Add a message to the model's input at the next step."),
    _to_drone("answerInquiry", c.DeliverAnswer, c.OkReply, "Deliver the answer to the turn's inquiry."),
    _to_drone("setPolicy", c.SetPolicy, c.OkReply, "Replace the turn's permissions, from its next tool call on."),
    _to_drone("readDiff", c.ReadDiff, c.DiffRead, "Read the changes between two checkpoints, or since one."),
    _to_drone("restoreFiles", c.RestoreFiles, c.FilesRestored, "Restore the files to a checkpoint."),
    _to_drone("listFiles", c.ListFiles, c.FilesListed, "List a directory of a project."),
    _to_drone("findFiles", c.FindFiles, c.FilesFound, "Find files of a project by their paths, best match first."),
    _to_drone("readFile", c.ReadFile, c.FileRead, "Read a part of a file."),
    _to_drone("writeFile", c.WriteFile, c.FileWritten, "Replace a file that has not changed, or create one."),
    _to_drone("renameFile", c.RenameProjectFile, c.OkReply, "Rename a file or a directory; overwrites nothing."),
    _to_drone("deleteFile", c.DeleteFile, c.FilesDeleted, "Delete a file, or a directory with its content."),
    _to_drone("listTerminals", t.ListTerminals, t.DroneTerminals, "List the terminals of a session."),
    _to_drone("openTerminal", t.StartTerminal, t.TerminalOpened, "Start a shell in the project."),
    _to_drone("attachTerminal", t.AttachTerminal, t.TerminalAttached, "Read a terminal's output."),
    _to_drone("writeTerminal", t.WriteTerminal, c.OkReply, "Send input to a terminal."),
    _to_drone("resizeTerminal", t.ResizeTerminal, c.OkReply, "Set the size of a terminal."),
    _to_drone("closeTerminal", t.CloseTerminal, c.OkReply, "End a terminal's shell and all processes it has started."),
    _to_drone("closeTerminals", t.CloseTerminals, None, "End the terminals of a deleted or archived session."),
    _to_drone("terminalsHeard", t.TerminalsHeard, None, "Continue to send the output of these terminals."),
    _to_drone("turnAck", c.TurnAck, None, "Every event up to `seq` is stored."),
    _to_drone("turnResend", c.TurnResend, None, "Events are missing; send them again."),
    _to_drone("turnRevoked", c.TurnRevoked, None, "The turn does not belong to this drone; stop it."),
    _to_drone("crashRecoveryResponse", c.CrashRecoveryResponse, None, "The decision on a turn after a crash."),
    *(_drone(name, model, None, _first_line(model)) for name, model in EVENT_TYPES.items()),
    _drone("beginTurn", c.BeginTurn, c.OkReply, "Ask whether the turn is still this drone's; events follow the reply."),
    _drone("requestWorkspaceMode", c.DroneWorkspaceMode, c.OkReply, "`idle` after a turn; the mode after a reconnect."),
    _drone("requestCrashRecovery", c.RequestCrashRecovery, c.OkReply, "Ask for a decision on a turn after a crash."),
    _drone("droneStatus", c.ReportStatus, c.OkReply, "The drone's status."),
    _drone("terminalOutput", t.TerminalOutput, c.OkReply, "Output of a terminal; the next follows after the reply."),
    _drone("terminalChanged", t.TerminalChanged, c.OkReply, "A terminal was opened, resized, or has ended."),
    _drone("terminalClosed", t.TerminalClosed, c.OkReply, "A terminal was closed."),
    *(_to_ide(name, model, _first_line(model)) for name, model in EVENT_TYPES.items()),
    _to_ide("turnStatus", c.TurnStatus, "A turn was created or changed its status."),
    _to_ide("sessionUpdated", c.SessionUpdated, "A session was created or changed."),
    _to_ide("inquiryChanged", c.InquiryChanged, "An inquiry was created, answered, expired or withdrawn."),
    _to_ide("droneStatus", c.DroneStatusChanged, "A drone of the user has changed."),
    _to_ide("workspaceMode", c.WorkspaceModeChanged, "Who may change the files of the session's workspace."),
    _to_ide("sessionLock", c.SessionLockChanged, "The session's lock was taken or released."),
    _to_ide("terminalOutput", t.TerminalOutput, "Output of a terminal, for the clients attached to it."),
    _to_ide("terminalChanged", t.TerminalChanged, "A terminal of the user was opened, resized, or has ended."),
    _to_ide("terminalClosed", t.TerminalClosed, "A terminal of the user was closed."),
)


def events_between(sender: Peer, receiver: Peer) -> dict[str, SocketEvent]:
    """Returns the events that `sender` sends to `receiver`, by name."""
    return {event.name: event for event in SOCKET_EVENTS if (event.sender, event.receiver) == (sender, receiver)}
