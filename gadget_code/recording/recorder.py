"""Records the events of running turns: accepts them in order, relays each at once, stores them in small groups,
acknowledges what is stored, and updates the turn document. Relays a turn's last event only when it is stored, because
another process may still end the turn first.

The drone bounds a stream's memory: it sends only a window of unacknowledged events. When MongoDB is slow or
unreachable, acknowledgements stop, and so does the drone.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from gadget_api.commands import TurnAck, TurnResend, TurnRevoked
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, InvalidInput, Unavailable
from gadget_api.events import (
    EVENT_TYPES,
    InquiryAsked,
    Steered,
    TurnEvent,
    WorkOrderComplete,
)
from gadget_api.inquiries import InquiryStatus
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.recording.prices import prices_of
from gadget_code.recording.projection import after_event, after_events, last_event
from gadget_code.recording.side_effects import SideEffects
from gadget_code.recording.stream import STORES_S, Backlog, FlushTimer, TurnStream, stored_as
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.runtime.metrics import Metrics
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.store.events import StoredEvent

log = logging.getLogger(__name__)

_FLUSH_EVERY_S = 0.1
"""Events that arrive between two flushes are stored with one write. An urgent event is stored at once."""
_RETRY_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_STOP_S = 5.0
_KNOWN_TURNS = 1000
ASKED_S = 2.0
"""Seconds until a resend counts as failed: missing events come at once, or go to another process."""

_NEW_OWNER = "This turn has continued without this drone."


@dataclass(frozen=True)
class LiveTurn:
    """A running turn, as far as this process has relayed it."""

    turn_id: str
    stored_seq: int
    unstored: Sequence[StoredEvent]
    """Relayed events after `stored_seq`."""


class Recorder:
    def __init__(
        self,
        store: MongoStore,
        rooms: Rooms,
        side_effects: SideEffects,
        metrics: Metrics,
        background: BackgroundTasks,
        on_turn_over: Callable[[ChatTurn], None],
    ) -> None:
        self._store = store
        self._rooms = rooms
        self._side_effects = side_effects
        self._metrics = metrics
        self._background = background
        self._on_turn_over = on_turn_over
        self._flush_timer = FlushTimer(_FLUSH_EVERY_S)
        self._backlog = Backlog()
        self._streams: dict[str, TurnStream] = {}
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Turn -> lock: opening and ending a stream exclude each other, because both read the epoch."""
        self._relayed: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Turn -> epoch and seq of the last event that this process relayed, for the newest turns. A drone resends
        unstored events; watchers do not get them again."""
        self.events_total = 0
        self.streams_ended = 0
        """Counts closed streams. While it does not change, `live` knows every event that was relayed."""

    async def record(self, drone: str, socket: str, name: str, payload: dict[str, Any]) -> None:
        """Accepts one event from the drone's socket. Raises InvalidInput for an invalid event."""
        try:
            event = EVENT_TYPES[name].model_validate(payload)
        except ValidationError as exc:
            message = f"This is not a valid {name} event: {exc.errors()[0]['msg']}."
            await self._refuse_invalid(drone, payload, message)
            raise InvalidInput(message) from exc
        stream = self._streams.get(event.turn_id)
        if stream is not None and (stream.turn.drone, stream.turn.session) != (drone, event.chat_session_id):
            await self.revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This drone does not own this turn.")
            return
        if stream is None or not self._is_current(stream, socket, event.epoch):
            stream = await self._reopen(drone, socket, event)
            if stream is None:
                return
        await self._apply_backpressure(stream)
        if self._streams.get(event.turn_id) is not stream:
            return
        if event.epoch != stream.turn.epoch or stream.closed:
            await self.revoke(drone, event.turn_id, ErrorCode.STALE_EPOCH, _NEW_OWNER)
        elif event.seq <= stream.last_seq:
            await self._rooms.emit_to_drone(drone, "turnAck", TurnAck(turn_id=event.turn_id, seq=stream.turn.last_seq))
        elif event.seq > stream.last_seq + 1:
            if stream.asked_resend_after != stream.last_seq:
                await self._request_resend(stream)
        elif isinstance(event, InquiryAsked) and not _is_own(event, stream.turn):
            message = "This inquiry does not belong to the turn, or is not open."
            await self._refuse_invalid(drone, payload, message)
            raise InvalidInput(message)
        else:
            self._accept(stream, event, payload)
            if not isinstance(event, WorkOrderComplete):
                await self._relay(stream.turn, event.seq, name, payload)

    async def open_stream(self, drone: str, socket: str, turn: ChatTurn) -> None:
        """Opens the stream of a turn that its drone has begun, so that the first event does not wait for it."""
        async with self._lock(turn.id):
            stream = self._streams.get(turn.id)
            if stream is not None and self._is_current(stream, socket, turn.epoch):
                return
            await self.close_stream(turn.id)
            now = await self._store.turns.find(_still_running(turn, drone))
            if now is not None:
                await self._open(socket, now)

    async def _apply_backpressure(self, stream: TurnStream) -> None:
        """Waits while too much is unstored. The drone's socket is not read meanwhile; the drone merges its deltas."""
        if stream.writer is None:
            return
        if stream.is_full:
            await asyncio.wait([stream.writer])
        elif self._backlog.is_full:
            stream.hurry()
            await asyncio.wait([stream.writer], timeout=STORES_S)

    def live(self, session: str) -> LiveTurn | None:
        """Returns the session's running turn when its events come through this process."""
        # The newest one: the old connection of an earlier turn's drone may still stand here.
        of_session = (s for s in self._streams.values() if s.turn.session == session)
        stream = max(of_session, key=lambda s: s.turn.id, default=None)
        if stream is None:
            return None
        relayed = [stored for stored, event in stream.unstored if not isinstance(event, WorkOrderComplete)]
        return LiveTurn(stream.turn.id, stream.turn.last_seq, relayed)

    async def close_stream(self, turn: str) -> None:
        """Stores what is unstored and closes the turn's stream, because its epoch has changed or its drone is gone."""
        stream = self._streams.get(turn)
        if stream is not None:
            await self._flush(stream)
            self._drop(stream)

    async def close_streams(self, socket: str) -> None:
        """Closes the streams of a closed connection."""
        for stream in [s for s in self._streams.values() if s.socket == socket]:
            await self.close_stream(stream.turn.id)

    def is_streaming(self, turn: str) -> bool:
        """Returns whether the turn's events come through this process; if so, this process relays the last one."""
        return turn in self._streams

    async def cancel(self, turn: ChatTurn) -> ChatTurn | None:
        """Ends the turn as cancelled by the user."""
        return await self.end(turn, ChatTurnStatus.CANCELLED, "Cancelled by the user.")

    async def end(
        self, turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None
    ) -> ChatTurn | None:
        """Ends `turn` when no drone can: it waits, its drone is offline, or it cannot start. Tells a drone that works
        on it. Returns None when the turn has another owner or is over meanwhile."""
        async with self._lock(turn.id):
            if (stream := self._streams.get(turn.id)) is not None:
                stream.closed = True  # no event is accepted from here on, so the next seq is the last event's
            await self.close_stream(turn.id)
            # In the store too: the drone's events may come through another web process.
            fenced = await self._store.turns.fence(turn)
            if fenced is None:
                return None
            event = last_event(fenced, status, message, error)
            payload = event.to_wire()
            over = after_event(fenced, event, None)
            if not await self._record_end(fenced, stored_as(event, payload), over):
                return None
        self._metrics.take([event])
        if turn.drone is not None:
            await self.revoke(turn.drone, turn.id, ErrorCode.TURN_OVER, "This turn is over.")
        return await self._announce_end(over, payload)

    async def _record_end(self, fenced: ChatTurn, event: StoredEvent, over: ChatTurn) -> bool:
        try:
            return await self._store.record(fenced, [event], over, [])
        except Unavailable:
            # It may be stored although the reply was lost.
            now = await self._store.turns.find({"_id": over.id, "epoch": over.epoch})
            if now is None or not now.status.is_over:
                raise
            return True

    async def _announce_end(self, over: ChatTurn, payload: dict[str, Any]) -> ChatTurn:
        self.streams_ended += 1
        await self._apply_side_effects(over, [])
        await self._relay(over, over.last_seq, payload["type"], payload)
        await self._rooms.emit_turn(over)
        self._on_turn_over(over)
        return over

    async def _apply_side_effects(self, after: ChatTurn, events: Sequence[TurnEvent]) -> ChatTurn:
        try:
            return await self._side_effects.apply(after, events)
        except GadgetError as exc:
            log.warning("the side effects of turn %s are applied later: %s", after.id, exc.message)
            return after

    async def _relay(self, turn: ChatTurn, seq: int, name: str, payload: dict[str, Any]) -> bool:
        """Relays an event of the turn's current epoch to watchers. Returns False when this process has relayed it
        before."""
        epoch, last_seq = self._relayed.get(turn.id, (0, 0))
        if epoch == turn.epoch and seq <= last_seq:
            return False
        self._relayed[turn.id] = (turn.epoch, seq)
        self._relayed.move_to_end(turn.id)
        if len(self._relayed) > _KNOWN_TURNS:
            self._relayed.popitem(last=False)
        await self._rooms.relay(turn.session, name, payload)
        return True

    async def stop(self) -> None:
        """Stores what is unstored, within the time that a stop may take."""
        await asyncio.gather(*(self._flush(stream) for stream in self._streams.values()))

    def _lock(self, turn: str) -> asyncio.Lock:
        return self._changing.setdefault(turn, asyncio.Lock())

    def _is_current(self, stream: TurnStream, socket: str, epoch: int) -> bool:
        """Returns whether the stream can take an event of this epoch from this connection, even as a late one."""
        return stream.turn.epoch >= epoch and stream.socket == socket and not self._is_stuck(stream)

    def _is_stuck(self, stream: TurnStream) -> bool:
        """Returns whether a requested resend does not come: another process may have the events."""
        return stream.asked_resend_after == stream.last_seq and time.monotonic() - stream.asked_at > ASKED_S

    async def _flush(self, stream: TurnStream) -> None:
        if (writer := stream.writer) is not None:
            stream.hurry()
            # The drone still has what is not stored in time, and sends it again.
            await asyncio.wait([writer], timeout=_STOP_S)
            writer.cancel()

    def _drop(self, stream: TurnStream) -> None:
        stream.forget()
        if self._streams.get(stream.turn.id) is stream:
            del self._streams[stream.turn.id]
            self.streams_ended += 1

    def _accept(self, stream: TurnStream, event: TurnEvent, payload: dict[str, Any]) -> None:
        self.events_total += 1
        stream.take(event, payload)
        if stream.writer is None:
            stream.writer = self._background.start(self._run_writer(stream), f"writer of turn {event.turn_id}")

    async def _reopen(self, drone: str, socket: str, event: TurnEvent) -> TurnStream | None:
        """Opens the stream of a turn that this drone works on. Returns None when the drone does not; the drone is
        told."""
        async with self._lock(event.turn_id):
            stream = self._streams.get(event.turn_id)
            if stream is not None and self._is_current(stream, socket, event.epoch):
                return stream
            await self.close_stream(event.turn_id)
            turn = await self._store.turns.find({"_id": event.turn_id, "drone": drone})
            if turn is None or turn.session != event.chat_session_id:
                await self.revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This drone does not own this turn.")
            elif turn.status is ChatTurnStatus.PROCESSING:
                opened = await self._open(socket, turn)
                if opened is not None and stream is not None and opened.turn.epoch == stream.turn.epoch:
                    opened.refused_seq = stream.refused_seq
                return opened
            elif turn.status.is_over and event.epoch == turn.epoch and event.seq <= turn.last_seq:
                # The process that stored the end may have died before it relayed it.
                for last in await self._store.events.after(turn.id, turn.last_seq - 1, up_to=turn.last_seq, limit=1):
                    if await self._relay(turn, last.seq, last.type, last.parsed()):
                        await self._rooms.emit_turn(turn)
                await self._rooms.emit_to_drone(drone, "turnAck", TurnAck(turn_id=turn.id, seq=turn.last_seq))
            else:
                await self.revoke(drone, turn.id, ErrorCode.TURN_OVER, "This turn is over.")
            return None

    async def _open(self, socket: str, turn: ChatTurn) -> TurnStream | None:
        """Returns None when the connection is closed meanwhile: nothing would close its stream."""
        prices = await prices_of(self._store, turn)
        if not self._rooms.is_connected(socket):
            return None
        stream = TurnStream(socket=socket, turn=turn, prices=prices, last_seq=turn.last_seq, backlog=self._backlog)
        self._streams[turn.id] = stream
        return stream

    async def _run_writer(self, stream: TurnStream) -> None:
        """Flushes the stream's pending events, until there are none or the stream is abandoned."""
        failures = 0
        try:
            while stream.unstored:
                if not stream.is_urgent:
                    stream.flush = self._flush_timer.next()
                    await stream.flush
                try:
                    await self._store_group(stream)
                    failures = 0
                except Unavailable as exc:
                    delay_s = _RETRY_S[min(failures, len(_RETRY_S) - 1)]
                    failures += 1
                    log.warning("turn %s waits for the database: %s", stream.turn.id, exc.message)
                    await asyncio.sleep(delay_s)
        except BaseException:
            self._drop(stream)  # the next event opens a new stream, from what is stored
            raise
        finally:
            stream.writer = None

    async def _store_group(self, stream: TurnStream) -> None:
        """Stores one group and acknowledges it. Raises Unavailable; the group may be stored even so."""
        group = stream.next_group()
        stream.is_urgent = False
        turn = stream.turn
        events = [event for _, event in group]
        after = after_events(turn, events, stream.price_of)
        steered = [event.steer_id for event in events if isinstance(event, Steered)]
        if not await self._store.record(turn, [stored for stored, _ in group], after, steered, events):
            now = await self._store.turns.find({"_id": turn.id, "epoch": turn.epoch})
            if now is None or now.last_seq != after.last_seq:
                # The turn has another owner, or its drone another connection to another process.
                return await self._abandon(stream)
            # The previous attempt stored it, and its reply was lost.
        stream.forget(len(group))
        self._backlog.stored_at = time.monotonic()
        stream.turn = after
        self._metrics.take(events)
        stream.turn = await self._apply_side_effects(after, events)
        if after.status.is_over:
            # Before the relay: a replay that starts now reads the end from the store.
            self._drop(stream)
            await self._relay(after, after.last_seq, group[-1][0].type, group[-1][0].parsed())
        assert turn.drone is not None
        # Last: a drone that does not get this sends the end again, and the process that receives it relays it again.
        await self._rooms.emit_to_drone(turn.drone, "turnAck", TurnAck(turn_id=turn.id, seq=after.last_seq))
        if after.status.is_over or steered or after.unusual_at != turn.unusual_at:
            now = await self._store.turns.find({"_id": turn.id}) or after
            await self._rooms.emit_turn(now)
            if now.status.is_over:
                self._on_turn_over(now)

    async def _abandon(self, stream: TurnStream) -> None:
        """Gives the turn up to its new owner. Tells the drone that the turn is over for it, or to resend what was not
        stored."""
        stream.closed = True
        self._drop(stream)
        turn = stream.turn
        assert turn.drone is not None
        now = await self._store.turns.find(_still_running(turn, turn.drone))
        if now is None:
            await self.revoke(turn.drone, turn.id, ErrorCode.STALE_EPOCH, _NEW_OWNER)
        else:  # the drone's events come through another process by now
            await self._rooms.emit_to_drone(
                turn.drone, "turnResend", TurnResend(turn_id=turn.id, after_seq=now.last_seq)
            )

    async def _refuse_invalid(self, drone: str, payload: dict[str, Any], message: str) -> None:
        """Handles an invalid event of a drone: requests a resend of the missing seq once, then ends the turn, because
        no later event can be accepted."""
        stream = self._streams.get(str(payload.get("turnId")))
        if stream is None or stream.turn.drone != drone or payload.get("seq") != stream.last_seq + 1:
            return
        if stream.refused_seq != stream.last_seq + 1:
            stream.refused_seq = stream.last_seq + 1
            await self._request_resend(stream)
            return
        message = f"The drone sent an invalid event; update the drone. {message}"
        error = ErrorInfo(code=ErrorCode.INVALID_REQUEST, message=message)
        await self.end(stream.turn, ChatTurnStatus.ERROR, error.message, error)

    async def _request_resend(self, stream: TurnStream) -> None:
        stream.asked_resend_after, stream.asked_at = stream.last_seq, time.monotonic()
        missing = TurnResend(turn_id=stream.turn.id, after_seq=stream.last_seq)
        assert stream.turn.drone is not None
        await self._rooms.emit_to_drone(stream.turn.drone, "turnResend", missing)

    async def revoke(self, drone: str, turn: str, code: ErrorCode, message: str) -> None:
        """Tells the drone that it does not own the turn any more."""
        await self._rooms.emit_to_drone(drone, "turnRevoked", TurnRevoked(turn_id=turn, code=code, message=message))


def _still_running(turn: ChatTurn, drone: str) -> dict[str, Any]:
    return {"_id": turn.id, "epoch": turn.epoch, "drone": drone, "status": ChatTurnStatus.PROCESSING}


def _is_own(event: InquiryAsked, turn: ChatTurn) -> bool:
    """Returns whether the inquiry is of this turn, session and user, and open."""
    inquiry = event.inquiry
    is_open = inquiry.status is InquiryStatus.PENDING and inquiry.answer is None and inquiry.answered_at is None
    return is_open and (inquiry.turn, inquiry.session, inquiry.user) == (turn.id, turn.session, turn.user)
