"""How a turn ends when no drone can end it: cancelled while it waits, or impossible to start.

The last event is then ours. The epoch goes up with it, so that a drone which still works on the turn is refused.
"""

import orjson

from gadget_api.commands import TurnStatus
from gadget_api.errors import ErrorInfo
from gadget_api.events import WorkOrderComplete
from gadget_api.model import utc_now
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store
from gadget_code.store.events import StoredEvent
from gadget_code.turns.projection import after_event


async def end_turn(
    store: Store, rooms: Rooms, turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None
) -> ChatTurn | None:
    """Ends `turn` as it was read; None when it changed meanwhile (then nothing is done)."""
    now = utc_now()
    seq = await store.events.last_seq(turn.id) + 1
    event = WorkOrderComplete(
        turn_id=turn.id,
        chat_session_id=turn.session,
        epoch=turn.epoch + 1,
        seq=seq,
        at=now,
        success=False,
        message=message,
        status=status,
        stats=turn.stats.ended(int((now - turn.created_at).total_seconds() * 1000)),
        error=error,
    )
    ended = after_event(turn, event, None)
    changes = ended.model_dump(include={"status", "status_reason", "error", "stats", "last_seq"})
    kept = await store.turns.update(
        {"_id": turn.id, "epoch": turn.epoch, "status": turn.status}, {**changes, "epoch": event.epoch}
    )
    if kept is None:
        return None
    payload = event.to_wire()
    await store.events.append(turn.id, [StoredEvent(seq, event.type, orjson.dumps(payload).decode())])
    await rooms.relay(turn.session, event.type, payload)
    await rooms.tell_user(turn.user, "turnStatus", TurnStatus(turn=kept))
    return kept
