"""What a turn's events add up to: a pure fold, so that the turn document can always be made again from its events."""

from gadget_api.events import Step, ToolCall, TurnEvent, WorkOrderComplete
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn


def after_event(turn: ChatTurn, event: TurnEvent, price: ModelPrice | None) -> ChatTurn:
    """`turn` with its next event taken in. `price` is the model's, or None."""
    # Not validated again: an event was, and deltas are many.
    match event:
        case Step():
            changes = {
                "thinking": event.message.thinking,
                "response": event.message.content,
                "stats": event.counted(turn.stats, price),
            }
        case ToolCall():
            changes = {"stats": event.counted(turn.stats, price)}
        case WorkOrderComplete():
            changes = {
                "status": event.status,
                "waiting": None,
                "status_reason": None,
                "error": event.error,
                "stats": turn.stats.ended(event.stats.duration_ms),
            }
        case _:
            changes = {}
    return turn.model_copy(update={**changes, "last_seq": event.seq})
