"""Terminals: shells of the user's in a session's project, owned by its drone, so that they outlive a page.

What a terminal says is a stream of bytes, counted from its start. The drone keeps the end of it; whoever attaches gets
that, from a byte on, and then what comes. Nothing of it is stored at the service.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import Count, UtcTime, WireModel

KEPT_BYTES = 256 * 1024
"""Of what a terminal said: what can be seen again after a reload, or from another browser."""
MAX_TERMINALS = 16
"""Open at a time on one drone."""
MAX_INPUT_CHARS = 64 * 1024
"""Of one `writeTerminal`."""
Columns = Annotated[int, Field(ge=2, le=1000)]
Rows = Annotated[int, Field(ge=1, le=1000)]
TerminalTitle = Annotated[str, StringConstraints(max_length=100)]


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
    """Bytes that it has said."""
