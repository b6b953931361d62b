"""What a turn's events add up to: a pure fold, so that the turn document can always be made again from its events."""

from gadget_api.events import Step, ToolCall, TurnEvent, WorkOrderComplete
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn

PROJECTED = (Step, ToolCall, WorkOrderComplete)


def after_event(turn: ChatTurn, event: TurnEvent, price: ModelPrice | None) -> ChatTurn:
    """`turn` with one event more taken in. `price` is the model's, or None."""
    match event:
        case Step():
            return turn.replace(
                thinking=event.message.thinking,
                response=event.message.content,
                stats=event.counted(turn.stats, price),
                last_seq=event.seq,
            )
        case ToolCall():
            return turn.replace(stats=event.counted(turn.stats, price), last_seq=event.seq)
        case WorkOrderComplete():
            return turn.replace(
                status=event.status,
                status_reason=None,
                error=event.error,
                stats=turn.stats.ended(event.stats.duration_ms),
                last_seq=event.seq,
            )
        case _:
            return turn
