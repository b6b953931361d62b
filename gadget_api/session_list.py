"""The entries of the session list: each session with the state of its latest turn."""

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurnStatus, Waiting


class LatestTurn(WireModel):
    """The turn that shows a session's state: the oldest that runs or is queued, or the newest when all have ended."""

    id: Id = Field(alias="_id")
    created_at: UtcTime
    status: ChatTurnStatus
    waiting: Waiting | None = None
    inquiry: Id | None = None
    """The open inquiry that the turn waits for."""
    unusual_at: UtcTime | None = None
    """The time at which its usage was found to be far above that of other turns; the user should look at it."""
    ended_at: UtcTime | None = None


class ListedSession(ChatSession):
    """A session in the response of `GET /sessions`."""

    latest_turn: LatestTurn | None = None
    """Null: the session has no turn."""
