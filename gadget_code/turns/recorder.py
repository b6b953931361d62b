"""The recorder: takes the events of running turns in order, relays each at once, stores them in small groups,
acknowledges what is stored, and keeps the turn documents true. The last event of a turn is relayed when it is stored:
nobody sees an end that another may still forestall.

A stream's memory is bounded by the drone, which sends no more than a window of unacknowledged events: when MongoDB is
slow or away, acknowledgements stop and so does the drone.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import orjson
from pydantic import ValidationError

from gadget_api.commands import TurnAck, TurnResend, TurnRevoked
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, InvalidInput, Unavailable
from gadget_api.events import (
    EVENT_TYPES,
    InquiryAnswered,
    InquiryAsked,
    Steered,
    Step,
    TurnEvent,
    WorkOrderComplete,
)
from gadget_api.inquiries import InquiryStatus
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.background import Background
from gadget_code.metrics import Metrics
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store
from gadget_code.store.events import StoredEvent
from gadget_code.turns.beat import Beat
from gadget_code.turns.consequences import Consequences
from gadget_code.turns.ending import last_event
from gadget_code.turns.prices import prices_of
from gadget_code.turns.projection import after_event, after_events

log = logging.getLogger(__name__)

_GROUP_EVENTS = 500
_GROUP_BYTES = 4 * 1024 * 1024  # far under the 48 MB a MongoDB message may have
_BEAT_S = 0.1
"""What comes between two is stored together. Nobody waits for it but a drone that has sent `_PACED_BYTES`, and whoever
waits for an end, a question or a message to be before the model: those do not wait for the beat."""
_PACED_BYTES = 256 * 1024
_URGENT = (InquiryAsked, InquiryAnswered, Steered, WorkOrderComplete)
_UNSTORED_BYTES = 16 * 1024 * 1024
"""A drone of ours sends 2 MB ahead of what is acknowledged; one that sends this much has to wait."""
_UNSTORED_EVENTS = 4_000
"""Of all turns: past that none is read ahead of what is stored of it, so that storing keeps up with taking."""
_STORES_S = 1.0
"""A database that has stored something in this time does store."""
_RETRY_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_STOP_S = 5.0
_KNOWN_TURNS = 1000
_ASKED_S = 2.0
"""What is missing comes at once, or not to this process any more."""


@dataclass(frozen=True)
class Live:
    """How far a running turn was relayed by this process."""

    turn_id: str
    stored_seq: int
    unstored: Sequence[StoredEvent]
    """What was relayed after `stored_seq`."""


@dataclass
class Backlog:
    """What all streams of this process have taken and not stored."""

    events: int = 0
    stored_at: float = -_STORES_S
    """Monotonic seconds of the last success."""

    @property
    def is_full(self) -> bool:
        """Whether storing is behind taking. A database that stores nothing is another matter: its time is not to cost
        the drones their connections, which have to be read."""
        return self.events > _UNSTORED_EVENTS and time.monotonic() - self.stored_at < _STORES_S


@dataclass
class _Stream:
    """A running turn whose events come over one connection to this process. Another connection is another stream: what
    was stored through other processes in between is read anew."""

    socket: str
    turn: ChatTurn
    """As it is after its newest stored event; what else changes in it (its reason, its steers) is not looked at."""
    prices: Mapping[str, ModelPrice | None]
    """By the provider's name of the model: the turn's own first, then those it may fall back to."""
    last_seq: int
    """Of the newest event that was taken and relayed."""
    backlog: Backlog
    unstored: deque[tuple[StoredEvent, TurnEvent]] = field(default_factory=deque)
    writer: asyncio.Task[None] | None = None
    is_urgent: bool = False
    """Whether something is to be stored at once."""
    beat: asyncio.Future[None] | None = None
    """What its writer waits for."""
    asked_resend_after: int = -1
    asked_at: float = 0.0
    """Monotonic seconds."""
    unstored_bytes: int = 0
    closed: bool = False
    """Whether somebody else has the turn: nothing more is taken."""

    def take(self, stored: StoredEvent, event: TurnEvent) -> None:
        self.last_seq = event.seq
        self.unstored.append((stored, event))
        self.unstored_bytes += len(stored.body)
        self.backlog.events += 1

    def forget(self, count: int | None = None) -> None:
        """The oldest `count` events (None: all) are stored, or somebody else's."""
        for _ in range(len(self.unstored) if count is None else count):
            stored, _event = self.unstored.popleft()
            self.unstored_bytes -= len(stored.body)
            self.backlog.events -= 1

    def hurry(self) -> None:
        """What is unstored is to be stored at once."""
        self.is_urgent = True
        if self.beat is not None and not self.beat.done():
            self.beat.set_result(None)


class Recorder:
    def __init__(
        self,
        store: Store,
        rooms: Rooms,
        consequences: Consequences,
        metrics: Metrics,
        background: Background,
        on_turn_over: Callable[[ChatTurn], None],
    ) -> None:
        self._store = store
        self._rooms = rooms
        self._consequences = consequences
        self._metrics = metrics
        self._background = background
        self._on_turn_over = on_turn_over
        self._beat = Beat(_BEAT_S)
        self._backlog = Backlog()
        self._streams: dict[str, _Stream] = {}
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By turn: it is not opened while it is ended; its epoch is read before, or after."""
        self._relayed: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """By turn, of the newest turns: epoch and seq of the last event that this process has relayed. A drone sends
        again what was not stored; watchers are not shown it again."""
        self.events_total = 0
        self.streams_ended = 0
        """Counts the streams this process let go of: while it stays, no event was relayed that `live` does not know."""

    async def record(self, drone: str, socket: str, name: str, payload: dict[str, Any]) -> None:
        """Takes one event as the drone's socket brought it. Raises InvalidInput when it is not one."""
        try:
            event = EVENT_TYPES[name].model_validate(payload)
        except ValidationError as exc:
            message = f"This is no {name} event: {exc.errors()[0]['msg']}."
            await self._refuse(drone, payload, message)
            raise InvalidInput(message) from exc
        stream = self._streams.get(event.turn_id)
        if stream is not None and stream.turn.drone != drone:
            await self.revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This turn is not this drone's.")
            return
        if stream is None or stream.turn.epoch < event.epoch or stream.socket != socket or self._is_stuck(stream):
            async with self._lock(event.turn_id):
                stream = await self._open(drone, socket, event)
            if stream is None:
                return
        await self._room_for_more(stream)
        if self._streams.get(event.turn_id) is not stream:
            return
        if event.epoch != stream.turn.epoch or stream.closed:
            await self.revoke(drone, event.turn_id, ErrorCode.STALE_EPOCH, "This turn went on without this drone.")
        elif event.seq <= stream.last_seq:
            await self._rooms.tell_drone(drone, "turnAck", TurnAck(turn_id=event.turn_id, seq=stream.turn.last_seq))
        elif event.seq > stream.last_seq + 1:
            if stream.asked_resend_after != stream.last_seq:
                await self._ask_again(stream)
        elif isinstance(event, InquiryAsked) and not _is_own(event, stream.turn):
            message = "This inquiry is not that of its turn, or not open."
            await self._refuse(drone, payload, message)
            raise InvalidInput(message)
        else:
            self._take(stream, event, payload)
            if not isinstance(event, WorkOrderComplete):
                await self._relay(stream.turn, event.seq, name, payload)

    async def _room_for_more(self, stream: _Stream) -> None:
        """Nothing more is read from this drone meanwhile; what it has to say merges there."""
        if stream.writer is None:
            return
        if stream.unstored_bytes > _UNSTORED_BYTES:
            await asyncio.wait([stream.writer])
        elif self._backlog.is_full:
            stream.hurry()
            await asyncio.wait([stream.writer], timeout=_STORES_S)

    def live(self, session: str) -> Live | None:
        """The session's running turn, when its events come through this process."""
        stream = next((s for s in self._streams.values() if s.turn.session == session), None)
        if stream is None:
            return None
        relayed = [stored for stored, event in stream.unstored if not isinstance(event, WorkOrderComplete)]
        return Live(stream.turn.id, stream.turn.last_seq, relayed)

    async def forget(self, turn: str) -> None:
        """Stores what is still unstored and lets go of the turn: its epoch has changed, or its drone is gone."""
        stream = self._streams.get(turn)
        if stream is not None:
            await self._settle(stream)
            self._let_go(stream)

    async def forget_socket(self, socket: str) -> None:
        """`forget` for what came over a connection that is closed."""
        for stream in [s for s in self._streams.values() if s.socket == socket]:
            await self.forget(stream.turn.id)

    def has(self, turn: str) -> bool:
        """Whether the turn's events come through this process; then its last one will be relayed by it."""
        return turn in self._streams

    async def cancel(self, turn: ChatTurn) -> ChatTurn | None:
        """`end`, as the user wished."""
        return await self.end(turn, ChatTurnStatus.CANCELLED, "Cancelled by the user.")

    async def end(
        self, turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None
    ) -> ChatTurn | None:
        """Ends `turn` as it was read, when no drone can end it: it waits, its drone is away, or it cannot start. A
        drone that works on it is told. None when somebody else has taken it over or ended it meanwhile."""
        async with self._lock(turn.id):
            if (stream := self._streams.get(turn.id)) is not None:
                stream.closed = True  # from here on no event of it is taken, so the last one is ours to number
            await self.forget(turn.id)
            # Here too, for a drone whose events come through another web process.
            fenced = await self._store.turns.fence(turn)
            if fenced is None:
                return None
            event = last_event(fenced, status, message, error)
            payload = event.to_wire()
            over = after_event(fenced, event, None)
            if not await self._record_end(fenced, _stored(event, payload), over):
                return None
        self._metrics.take([event])
        if turn.drone is not None:
            await self.revoke(turn.drone, turn.id, ErrorCode.TURN_OVER, "This turn is over.")
        return await self._say_ended(over, payload)

    async def _record_end(self, fenced: ChatTurn, event: StoredEvent, over: ChatTurn) -> bool:
        try:
            return await self._store.record(fenced, [event], over, [])
        except Unavailable:
            # It may be stored, its answer lost.
            now = await self._store.turns.find({"_id": over.id, "epoch": over.epoch})
            if now is None or not now.status.is_over:
                raise
            return True

    async def _say_ended(self, over: ChatTurn, payload: dict[str, Any]) -> ChatTurn:
        self.streams_ended += 1
        await self._follow(over, [])
        await self._relay(over, over.last_seq, payload["type"], payload)
        await self._rooms.tell_turn(over)
        self._on_turn_over(over)
        return over

    async def _follow(self, after: ChatTurn, events: Sequence[TurnEvent]) -> ChatTurn:
        try:
            return await self._consequences.follow(after, events)
        except GadgetError as exc:
            log.warning("what follows for turn %s is seen to later: %s", after.id, exc.message)
            return after

    async def _relay(self, turn: ChatTurn, seq: int, name: str, payload: dict[str, Any]) -> bool:
        """Shows an event of the turn's present epoch to who watches, unless this process did so before."""
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
        """Stores what is unstored, for as long as a stop may take."""
        await asyncio.gather(*(self._settle(stream) for stream in self._streams.values()))

    def _lock(self, turn: str) -> asyncio.Lock:
        return self._changing.setdefault(turn, asyncio.Lock())

    def _is_stuck(self, stream: _Stream) -> bool:
        """Whether what we lack was asked for, and does not come: perhaps another process has it by now."""
        return stream.asked_resend_after == stream.last_seq and time.monotonic() - stream.asked_at > _ASKED_S

    async def _settle(self, stream: _Stream) -> None:
        if (writer := stream.writer) is not None:
            stream.hurry()
            # Whatever is not stored in time the drone still has, and sends again.
            await asyncio.wait([writer], timeout=_STOP_S)
            writer.cancel()

    def _let_go(self, stream: _Stream) -> None:
        stream.forget()
        if self._streams.get(stream.turn.id) is stream:
            del self._streams[stream.turn.id]
            self.streams_ended += 1

    def _take(self, stream: _Stream, event: TurnEvent, payload: dict[str, Any]) -> None:
        self.events_total += 1
        stream.take(_stored(event, payload), event)
        if stream.unstored_bytes > _PACED_BYTES or isinstance(event, _URGENT):
            stream.hurry()
        if stream.writer is None:
            stream.writer = self._background.start(self._write(stream), f"writer of turn {event.turn_id}")

    async def _open(self, drone: str, socket: str, event: TurnEvent) -> _Stream | None:
        """The stream of a turn this drone works on, as far as it is stored; None when it is not (then said)."""
        await self.forget(event.turn_id)
        turn = await self._store.turns.find({"_id": event.turn_id, "drone": drone})
        if turn is None or turn.session != event.chat_session_id:
            await self.revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This turn is not this drone's.")
            return None
        if turn.status is not ChatTurnStatus.PROCESSING:
            if turn.status.is_over and event.epoch == turn.epoch and event.seq <= turn.last_seq:
                # Whoever stored its end may have died before it told anybody.
                for last in await self._store.events.after(turn.id, turn.last_seq - 1, up_to=turn.last_seq, limit=1):
                    if await self._relay(turn, last.seq, last.type, last.parsed()):
                        await self._rooms.tell_turn(turn)
                await self._rooms.tell_drone(drone, "turnAck", TurnAck(turn_id=turn.id, seq=turn.last_seq))
            else:
                await self.revoke(drone, turn.id, ErrorCode.TURN_OVER, "This turn is over.")
            return None
        prices = await prices_of(self._store, turn)
        stream = _Stream(socket=socket, turn=turn, prices=prices, last_seq=turn.last_seq, backlog=self._backlog)
        self._streams[turn.id] = stream
        return stream

    async def _write(self, stream: _Stream) -> None:
        """Stores what is unstored until nothing is, or the turn is not this stream's any more."""
        failures = 0
        try:
            while stream.unstored:
                if not stream.is_urgent:
                    stream.beat = self._beat.next()
                    await stream.beat
                try:
                    await self._store_next(stream)
                    failures = 0
                except Unavailable as exc:
                    delay_s = _RETRY_S[min(failures, len(_RETRY_S) - 1)]
                    failures += 1
                    log.warning("turn %s waits for the database: %s", stream.turn.id, exc.message)
                    await asyncio.sleep(delay_s)
        except BaseException:
            self._let_go(stream)  # the next event opens it anew, from what is stored
            raise
        finally:
            stream.writer = None

    async def _store_next(self, stream: _Stream) -> None:
        """Stores one group and acknowledges it. Raises Unavailable; it may be stored then."""
        group = _group(stream.unstored)
        stream.is_urgent = False
        turn = stream.turn
        events = [event for _, event in group]
        after = after_events(turn, events, lambda event: _price(stream, event))
        steered = [event.steer_id for event in events if isinstance(event, Steered)]
        if not await self._store.record(turn, [stored for stored, _ in group], after, steered, events):
            now = await self._store.turns.find({"_id": turn.id, "epoch": turn.epoch})
            if now is None or now.last_seq != after.last_seq:
                # Somebody else has the turn, or another process of ours its drone.
                return await self._give_up(stream)
            # It was stored the time before, whose answer was lost.
        stream.forget(len(group))
        self._backlog.stored_at = time.monotonic()
        stream.turn = after
        self._metrics.take(events)
        stream.turn = await self._follow(after, events)
        if after.status.is_over:
            # Let go of before the relay: a replay that comes now has the end from the store.
            self._let_go(stream)
            await self._relay(after, after.last_seq, group[-1][0].type, group[-1][0].parsed())
        assert turn.drone is not None
        # Said last: a drone that does not hear it sends the end again, and whoever takes that relays it again.
        await self._rooms.tell_drone(turn.drone, "turnAck", TurnAck(turn_id=turn.id, seq=after.last_seq))
        if after.status.is_over or steered:
            now = await self._store.turns.find({"_id": turn.id}) or after
            await self._rooms.tell_turn(now)
            if now.status.is_over:
                self._on_turn_over(now)

    async def _give_up(self, stream: _Stream) -> None:
        """The turn is not this stream's any more: the drone is told so, or to send again what was taken for nothing."""
        stream.closed = True
        self._let_go(stream)
        turn = stream.turn
        assert turn.drone is not None
        at_work = {"_id": turn.id, "epoch": turn.epoch, "drone": turn.drone, "status": ChatTurnStatus.PROCESSING}
        now = await self._store.turns.find(at_work)
        if now is None:
            await self.revoke(turn.drone, turn.id, ErrorCode.STALE_EPOCH, "This turn went on without this drone.")
        else:  # its events come through another process by now
            await self._rooms.tell_drone(turn.drone, "turnResend", TurnResend(turn_id=turn.id, after_seq=now.last_seq))

    async def _refuse(self, drone: str, payload: dict[str, Any], message: str) -> None:
        """An event that is none came from the drone. When it is the one that is missing, and came so a second time, the
        turn ends: nothing after it can be taken."""
        stream = self._streams.get(str(payload.get("turnId")))
        if stream is None or stream.turn.drone != drone or payload.get("seq") != stream.last_seq + 1:
            return
        if stream.asked_resend_after != stream.last_seq:
            await self._ask_again(stream)
            return
        error = ErrorInfo(code=ErrorCode.INVALID_REQUEST, message=f"The drone is not understood; update it. {message}")
        await self.end(stream.turn, ChatTurnStatus.ERROR, error.message, error)

    async def _ask_again(self, stream: _Stream) -> None:
        stream.asked_resend_after, stream.asked_at = stream.last_seq, time.monotonic()
        missing = TurnResend(turn_id=stream.turn.id, after_seq=stream.last_seq)
        assert stream.turn.drone is not None
        await self._rooms.tell_drone(stream.turn.drone, "turnResend", missing)

    async def revoke(self, drone: str, turn: str, code: ErrorCode, message: str) -> None:
        """Tells the drone that the turn is not its own (any more)."""
        await self._rooms.tell_drone(drone, "turnRevoked", TurnRevoked(turn_id=turn, code=code, message=message))


def _is_own(event: InquiryAsked, turn: ChatTurn) -> bool:
    """Whether the drone asks for this turn, its session and its user, and does not answer itself."""
    asked = event.inquiry
    is_open = asked.status is InquiryStatus.PENDING and asked.answer is None and asked.answered_at is None
    return is_open and (asked.turn, asked.session, asked.user) == (turn.id, turn.session, turn.user)


def _price(stream: _Stream, event: TurnEvent) -> ModelPrice | None:
    """Of the model that a step was made by."""
    if isinstance(event, Step) and event.model in stream.prices:
        return stream.prices[event.model]
    return stream.prices.get(stream.turn.llm)


def _stored(event: TurnEvent, payload: dict[str, Any]) -> StoredEvent:
    return StoredEvent(event.seq, event.epoch, event.type, orjson.dumps(payload).decode())


def _group(unstored: deque[tuple[StoredEvent, TurnEvent]]) -> list[tuple[StoredEvent, TurnEvent]]:
    """The next events to store as one; ends with a turn's last event."""
    group: list[tuple[StoredEvent, TurnEvent]] = []
    size = 0
    for entry in unstored:
        size += len(entry[0].body)
        if group and (len(group) == _GROUP_EVENTS or size > _GROUP_BYTES):
            break
        group.append(entry)
        if isinstance(entry[1], WorkOrderComplete):
            break
    return group
