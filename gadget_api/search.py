"""Full-text search in sessions."""

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel


class SearchHit(WireModel):
    """One match of a search."""

    session: Id
    session_name: str
    project: Id
    turn: Id | None = None
    """Null: the match is in the session's name."""
    at: UtcTime
    snippet: str
    """One line of text around the first matching word."""


class SearchPage(WireModel):
    """A page of matches, newest first."""

    items: tuple[SearchHit, ...]
    next_cursor: str | None = None
