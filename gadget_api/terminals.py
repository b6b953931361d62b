"""Terminals: the user's shells in a session's project. The drone owns them, so they survive a reload of the page.

The output of a terminal is a stream of bytes, counted from its start. The drone keeps the end of the stream. A client
that attaches gets the kept bytes from an offset on, and then new output. The service stores no output. The drone sends
output only while a client listens: an attach is valid for `LISTENER_TTL_S`, and web processes with attached sockets
renew it with `terminalsHeard`.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.commands import OkReply
from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel
from gadget_api.work_order import OrderProject

SCROLLBACK_BYTES = 256 * 1024
"""How much of a terminal's output the drone keeps, for a reload or another browser."""
MAX_OUTPUT_BYTES = 64 * 1024
"""The most bytes in one `terminalOutput`."""
MAX_TERMINALS = 16
"""The most open terminals on one drone."""
MAX_INPUT_CHARS = 64 * 1024
"""The longest input of one `writeTerminal` in base64: 48 KiB of bytes."""
LISTENER_TTL_S = 30.0
"""How long a drone sends the output of a terminal after an attach or a renewal. Web processes renew three times in that
time."""
Columns = Annotated[int, Field(ge=2, le=1000)]
Rows = Annotated[int, Field(ge=1, le=1000)]
TerminalTitle = Annotated[str, StringConstraints(max_length=100)]
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Input = Annotated[str, StringConstraints(pattern=_BASE64, min_length=4, max_length=MAX_INPUT_CHARS)]
Output = Annotated[str, StringConstraints(pattern=_BASE64, max_length=(SCROLLBACK_BYTES + 2) // 3 * 4)]


class Terminal(WireModel):
    id: Id = Field(alias="_id")
    session: Id
    created_at: UtcTime
    title: TerminalTitle
    """The shell's name, with a number when there are several."""
    columns: Columns
    rows: Rows
    exit_code: int | None = None
    """Null while the shell runs; -N when signal N ended it."""
    length: Count = 0
    """Bytes of output so far, or, while a client listens, bytes sent so far. A client with fewer has missed output."""


# IDE -> web, and on to the drone


class ListTerminals(WireModel):
    chat_session_id: Id


class TerminalList(OkReply):
    drone_id: Id
    """The drone that has the terminals, or would start one."""
    terminals: tuple[Terminal, ...]
    """Oldest first."""


class OpenTerminal(WireModel):
    chat_session_id: Id
    columns: Columns
    rows: Rows


class TerminalOpened(OkReply):
    terminal: Terminal


class AttachTerminal(WireModel):
    """Attaches to a terminal. The reply has the kept output from byte `after` on."""

    chat_session_id: Id
    terminal_id: Id
    after: Count = 0


class TerminalAttached(OkReply):
    terminal: Terminal
    offset: Count
    """The offset of the first byte in `data`; greater than `after` when the bytes between are no longer kept."""
    data: Output


class DetachTerminal(WireModel):
    chat_session_id: Id
    terminal_id: Id


class WriteTerminal(WireModel):
    """Sends input to a terminal. Refused with `rateLimited`, without effect, while the program does not read."""

    chat_session_id: Id
    terminal_id: Id
    data: Input


class ResizeTerminal(WireModel):
    chat_session_id: Id
    terminal_id: Id
    columns: Columns
    rows: Rows


class CloseTerminal(WireModel):
    """Ends the shell and all processes that it has started."""

    chat_session_id: Id
    terminal_id: Id


# web -> drone


class StartTerminal(OpenTerminal):
    """Starts a shell in the project's directory, or in the workspace when the project is not cloned yet."""

    project: OrderProject


class DroneTerminals(OkReply):
    terminals: tuple[Terminal, ...]


class TerminalsHeard(WireModel):
    """Renews the listeners of these terminals for `LISTENER_TTL_S`. The drone ignores unknown ids."""

    terminal_ids: Annotated[tuple[Id, ...], Field(max_length=1000)]


class CloseTerminals(WireModel):
    """Ends the terminals of a session that was deleted or archived."""

    chat_session_id: Id


# drone -> web -> IDE


class TerminalOutput(WireModel):
    terminal_id: Id
    offset: Count
    """The offset of the first byte in `data`."""
    data: Output


class TerminalChanged(WireModel):
    """A terminal was opened or resized, or has ended. The service refuses it with `notFound` when the session was
    deleted; the drone then closes the terminal."""

    terminal: Terminal


class TerminalClosed(WireModel):
    chat_session_id: Id
    terminal_id: Id
