"""The last event of a turn that no drone can end: cancelled while it waits, or impossible to start."""

from gadget_api.errors import ErrorInfo
from gadget_api.events import WorkOrderComplete
from gadget_api.model import utc_now
from gadget_api.turns import ChatTurn, ChatTurnStatus


def last_event(turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None) -> WorkOrderComplete:
    """The event that ends `turn` now."""
    now = utc_now()
    # Another process may have made the turn, so the time of day is all there is; it may have been set back since.
    duration_ms = max(0, int((now - turn.created_at).total_seconds() * 1000))
    return WorkOrderComplete(
        turn_id=turn.id,
        chat_session_id=turn.session,
        epoch=turn.epoch,
        seq=turn.last_seq + 1,
        at=now,
        success=False,
        message=message,
        status=status,
        stats=turn.stats.ended(duration_ms),
        error=error,
    )
