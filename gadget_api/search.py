"""Search in the text of sessions."""

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel


class SearchHit(WireModel):
    """Where a user's words were found, newest first."""

    session: Id
    session_name: str
    project: Id
    turn: Id | None = None
    """Null: in the session's name."""
    at: UtcTime
    snippet: str
    """One line around the first of the words."""


class SearchPage(WireModel):
    items: tuple[SearchHit, ...]
    next_cursor: str | None = None
