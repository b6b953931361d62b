"""Sessions as a list shows them: each with where it stands."""

from pydantic import Field

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurnStatus, Waiting


class LatestTurn(WireModel):
    """Where a session stands: the oldest of its turns that runs or waits in line; when all are over, the newest."""

    id: Id = Field(alias="_id")
    created_at: UtcTime
    status: ChatTurnStatus
    waiting: Waiting | None = None
    inquiry: Id | None = None
    """What it asked its user and waits for."""
    unusual_at: UtcTime | None = None
    """When it was noticed that it uses far more than other turns; its user shall look at it."""
    ended_at: UtcTime | None = None


class ListedSession(ChatSession):
    """A session in the answer of `GET /sessions`."""

    latest_turn: LatestTurn | None = None
    """Null: it has none yet."""
