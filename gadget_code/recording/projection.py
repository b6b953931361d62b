"""Folds a turn's events into the turn document: a pure function, so that the document can be rebuilt from its
events."""

from collections.abc import Callable, Sequence
from typing import Any

from gadget_api.checkpoints import CheckpointTaken
from gadget_api.errors import ErrorInfo
from gadget_api.events import (
    TURN_UNUSUAL,
    Checkpoint,
    InquiryAnswered,
    InquiryAsked,
    Notice,
    Step,
    TurnEvent,
    WorkOrderComplete,
)
from gadget_api.model import utc_now
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn, ChatTurnStatus


def after_events(
    turn: ChatTurn, events: Sequence[TurnEvent], price: Callable[[TurnEvent], ModelPrice | None]
) -> ChatTurn:
    """Returns `turn` after its next events, at least one."""
    for event in events[:-1]:
        if not event.is_delta:  # deltas change nothing but the number
            turn = after_event(turn, event, price(event))
    return after_event(turn, events[-1], price(events[-1]))


def after_event(turn: ChatTurn, event: TurnEvent, price: ModelPrice | None) -> ChatTurn:
    """Returns `turn` after its next event. `price` is the model's, or None."""
    # Without validation: the event was validated, and deltas are many.
    changes: dict[str, Any]
    match event:
        case Step(agent_id=None):
            changes = {
                "thinking": event.message.thinking,
                "response": event.message.content,
            }
        case InquiryAsked():
            changes = {"inquiry": event.inquiry.id}
        case InquiryAnswered() if turn.inquiry == event.answer.inquiry_id:
            changes = {"inquiry": None}
        case Notice(code=code) if code == TURN_UNUSUAL:
            changes = {"unusual_at": event.at}
        case Checkpoint(agent_id=None):
            changes = {"last_checkpoint": event.checkpoint.checkpoint_id}
            if turn.checkpoint is None:
                changes["checkpoint"] = _before(event.checkpoint)
        case WorkOrderComplete():
            changes = {
                "inquiry": None,
                "status": event.status,
                "waiting": None,
                "status_reason": None,
                "unusual_at": None,
                "error": event.error,
                "ended_at": event.at,
                "stats": turn.stats.ended(event.stats.duration_ms),
            }
        case _:
            changes = {}
    stats = event.counted(turn.stats, price)
    return turn.model_copy(update={"stats": stats, **changes, "last_seq": event.seq})


def _before(first: CheckpointTaken) -> str | None:
    """Returns the checkpoint of the files before the turn. None when the first checkpoint has files but no parent."""
    if first.parent is not None:
        return first.parent
    return first.checkpoint_id if first.file_count == 0 else None


def last_event(turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None) -> WorkOrderComplete:
    """Returns the event that ends `turn` now, when no drone can: the turn is cancelled while it waits, or cannot
    start."""
    now = utc_now()
    # The turn may come from another process, so only the time of day is available; the clock may have been set back
    # since.
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
