"""Terminals: shells of the user's in a session's project, owned by its drone, so that they outlive a page.

What a terminal says is a stream of bytes, counted from its start. The drone keeps the end of it; whoever attaches gets
that, from a byte on, and then what comes. Nothing of it is stored at the service. The drone sends output while somebody
listens: an attach says so for `HEARD_S`, and the web processes whose sockets listen say it again in time.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel
from gadget_api.work_order import OrderProject

KEPT_BYTES = 256 * 1024
"""Of what a terminal said: what can be seen again after a reload, or from another browser."""
MAX_OUTPUT_BYTES = 64 * 1024
"""Of one `terminalOutput`."""
MAX_TERMINALS = 16
"""Open at a time on one drone."""
MAX_INPUT_CHARS = 64 * 1024
"""Of one `writeTerminal`, in base64: 48 KiB of bytes."""
HEARD_S = 30.0
"""How long a drone believes that somebody listens to a terminal; it is told three times in that while."""
Columns = Annotated[int, Field(ge=2, le=1000)]
Rows = Annotated[int, Field(ge=1, le=1000)]
TerminalTitle = Annotated[str, StringConstraints(max_length=100)]
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Input = Annotated[str, StringConstraints(pattern=_BASE64, min_length=4, max_length=MAX_INPUT_CHARS)]
Output = Annotated[str, StringConstraints(pattern=_BASE64, max_length=(KEPT_BYTES + 2) // 3 * 4)]


class Terminal(WireModel):
    id: Id = Field(alias="_id")
    session: Id
    created_at: UtcTime
    title: TerminalTitle
    """The shell's name, and a number where there are several."""
    columns: Columns
    rows: Rows
    exit_code: int | None = None
    """Null while its shell runs; -N for one that the signal N ended."""
    length: Count = 0
    """Bytes that it has said; while somebody listens, those that were sent: who has fewer has missed some."""


# IDE -> web, and on to the drone


class ListTerminals(WireModel):
    chat_session_id: Id


class TerminalList(WireModel):
    ok: Literal[True] = True
    drone_id: Id
    """The drone that has them, or would."""
    terminals: tuple[Terminal, ...]
    """The oldest first."""


class OpenTerminal(WireModel):
    chat_session_id: Id
    columns: Columns
    rows: Rows


class TerminalOpened(WireModel):
    ok: Literal[True] = True
    terminal: Terminal


class AttachTerminal(WireModel):
    """Listen to a terminal: the answer is what it said from byte `after` on, as far as that is kept."""

    chat_session_id: Id
    terminal_id: Id
    after: Count = 0


class TerminalAttached(WireModel):
    ok: Literal[True] = True
    terminal: Terminal
    offset: Count
    """Of the first byte in `data`; past `after` when what is between is not kept any more."""
    data: Output


class DetachTerminal(WireModel):
    chat_session_id: Id
    terminal_id: Id


class WriteTerminal(WireModel):
    """What was typed. Refused with `rateLimited` while the program does not read; nothing of it was taken then."""

    chat_session_id: Id
    terminal_id: Id
    data: Input


class ResizeTerminal(WireModel):
    chat_session_id: Id
    terminal_id: Id
    columns: Columns
    rows: Rows


class CloseTerminal(WireModel):
    """Ends the shell and all that it has started."""

    chat_session_id: Id
    terminal_id: Id


# web -> drone


class StartTerminal(OpenTerminal):
    """Opened in the project's directory, or in the workspace's where the project is not there yet."""

    project: OrderProject


class TerminalsHere(WireModel):
    ok: Literal[True] = True
    terminals: tuple[Terminal, ...]


class TerminalsHeard(WireModel):
    """Somebody listens to these, from now on for `HEARD_S`; those that the drone does not have count for nothing."""

    terminal_ids: Annotated[tuple[Id, ...], Field(max_length=1000)]


class CloseTerminals(WireModel):
    """The session was deleted or archived: its terminals end."""

    chat_session_id: Id


# drone -> web -> IDE


class TerminalOutput(WireModel):
    terminal_id: Id
    offset: Count
    """Of the first byte in `data`."""
    data: Output


class TerminalChanged(WireModel):
    """Opened, resized or ended. A drone is refused with `notFound` when the session is gone, and closes it then."""

    terminal: Terminal


class TerminalClosed(WireModel):
    chat_session_id: Id
    terminal_id: Id
