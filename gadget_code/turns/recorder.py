"""The recorder: takes the events of running turns in order, relays each at once, stores them in small groups,
acknowledges what is stored, and keeps the turn documents true.

A stream's memory is bounded by the drone, which sends no more than a window of unacknowledged events: when MongoDB is
slow or away, acknowledgements stop and so does the drone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import ValidationError

from gadget_api.commands import TurnAck, TurnResend, TurnRevoked, TurnStatus
from gadget_api.errors import Conflict, ErrorCode, ErrorInfo, InvalidInput, Unavailable
from gadget_api.events import EVENT_TYPES, TurnEvent, WorkOrderComplete
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_code.background import Background
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store
from gadget_code.store.events import StoredEvent
from gadget_code.turns.ending import last_event
from gadget_code.turns.projection import PROJECTED, after_event

log = logging.getLogger(__name__)

_GROUP_EVENTS = 500
_GROUP_BYTES = 4 * 1024 * 1024  # far under the 48 MB a MongoDB message may have
_UNSTORED_BYTES = 16 * 1024 * 1024
"""A drone of ours sends 2 MB ahead of what is acknowledged; one that sends this much has to wait."""
_RETRY_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_STOP_S = 5.0


@dataclass(frozen=True)
class Live:
    """How far a running turn was relayed by this process."""

    turn_id: str
    stored_seq: int
    unstored: Sequence[StoredEvent]
    """What was relayed after `stored_seq`."""


@dataclass
class _Stream:
    """A running turn whose drone is connected to this process."""

    turn: ChatTurn
    price: ModelPrice | None
    last_seq: int
    """Of the newest event that was taken and relayed."""
    stored_seq: int
    unstored: deque[tuple[StoredEvent, TurnEvent]] = field(default_factory=deque)
    writer: asyncio.Task[None] | None = None
    asked_resend_after: int = -1
    unstored_bytes: int = 0
    closed: bool = False


class Recorder:
    def __init__(
        self, store: Store, rooms: Rooms, background: Background, on_turn_over: Callable[[ChatTurn], None]
    ) -> None:
        self._store = store
        self._rooms = rooms
        self._background = background
        self._on_turn_over = on_turn_over
        self._streams: dict[str, _Stream] = {}
        self._changing = asyncio.Lock()
        """A turn is not opened while one is ended: its epoch is read before, or after."""
        self.events_total = 0
        self.streams_ended = 0
        """Counts the streams this process let go of: while it stays, no event was relayed that `live` does not know."""

    async def record(self, drone: str, name: str, payload: dict[str, Any]) -> None:
        """Takes one event as the drone's socket brought it. Raises InvalidInput when it is not one."""
        try:
            event = EVENT_TYPES[name].model_validate(payload)
        except ValidationError as exc:
            raise InvalidInput(f"This is no {name} event: {exc.errors()[0]['msg']}.") from exc
        stream = self._streams.get(event.turn_id)
        if stream is None or stream.turn.epoch < event.epoch:
            async with self._changing:
                stream = await self._open(drone, event)
            if stream is None:
                return
        if stream.unstored_bytes > _UNSTORED_BYTES and stream.writer is not None:
            # Nothing more is read from this drone meanwhile.
            await asyncio.wait([stream.writer])
            if self._streams.get(event.turn_id) is not stream:
                return
        if stream.turn.drone != drone:
            await self._revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This turn is not this drone's.")
        elif event.epoch != stream.turn.epoch:
            await self._revoke(drone, event.turn_id, ErrorCode.STALE_EPOCH, "This turn went on without this drone.")
        elif event.seq <= stream.last_seq:
            await self._rooms.tell_drone(drone, "turnAck", TurnAck(turn_id=event.turn_id, seq=stream.stored_seq))
        elif event.seq > stream.last_seq + 1:
            if stream.asked_resend_after != stream.last_seq:
                stream.asked_resend_after = stream.last_seq
                missing = TurnResend(turn_id=event.turn_id, after_seq=stream.last_seq)
                await self._rooms.tell_drone(drone, "turnResend", missing)
        else:
            self._take(stream, event, payload)
            await self._rooms.relay(event.chat_session_id, name, payload)

    def live(self, session: str) -> Live | None:
        """The session's running turn, when its events come through this process."""
        stream = next((s for s in self._streams.values() if s.turn.session == session), None)
        if stream is None:
            return None
        return Live(stream.turn.id, stream.stored_seq, [stored for stored, _ in stream.unstored])

    async def forget(self, turn: str) -> None:
        """Stores what is still unstored and lets go of the turn: its epoch has changed, or its drone is gone."""
        stream = self._streams.get(turn)
        if stream is not None:
            await self._settle(stream)
            self._let_go(stream)

    async def forget_drone(self, drone: str) -> None:
        for stream in [s for s in self._streams.values() if s.turn.drone == drone]:
            await self.forget(stream.turn.id)

    async def end(
        self, turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None
    ) -> ChatTurn | None:
        """Ends `turn` as it was read, when no drone can end it: it waits, its drone is away, or it cannot start.
        None when it changed meanwhile (then nothing is done)."""
        async with self._changing:
            return await self._end(turn, status, message, error)

    async def _end(
        self, turn: ChatTurn, status: ChatTurnStatus, message: str, error: ErrorInfo | None
    ) -> ChatTurn | None:
        # First its epoch: from here on no drone's event is taken, so the last event is ours to number.
        claimed = await self._store.turns.update(
            {"_id": turn.id, "epoch": turn.epoch, "status": turn.status}, {}, inc={"epoch": 1}
        )
        if claimed is None:
            return None
        await self.forget(turn.id)
        event = last_event(claimed, await self._store.events.last_seq(turn.id) + 1, status, message, error)
        payload = event.to_wire()
        stored = StoredEvent(event.seq, event.type, orjson.dumps(payload).decode())
        try:
            ended = await self._store.end_turn(after_event(claimed, event, None), claimed.status, stored)
        except Conflict:  # another web process stored an event of the turn meanwhile
            return None
        if ended is not None:
            self.streams_ended += 1
            await self._rooms.relay(ended.session, event.type, payload)
            await self._rooms.tell_user(ended.user, "turnStatus", TurnStatus(turn=ended))
        return ended

    async def stop(self) -> None:
        """Stores what is unstored, for as long as a stop may take."""
        await asyncio.gather(*(self._settle(stream) for stream in self._streams.values()))

    async def _settle(self, stream: _Stream) -> None:
        if (writer := stream.writer) is not None:
            # Whatever is not stored in time the drone still has, and sends again. The writer must not outlive this:
            # what it stored late would take the place of the next epoch's events.
            await asyncio.wait([writer], timeout=_STOP_S)
            writer.cancel()

    def _let_go(self, stream: _Stream) -> None:
        if self._streams.get(stream.turn.id) is stream:
            del self._streams[stream.turn.id]
            self.streams_ended += 1

    def _take(self, stream: _Stream, event: TurnEvent, payload: dict[str, Any]) -> None:
        self.events_total += 1
        stream.last_seq = event.seq
        stored = StoredEvent(event.seq, event.type, orjson.dumps(payload).decode())
        stream.unstored.append((stored, event))
        stream.unstored_bytes += len(stored.body)
        if stream.writer is None:
            stream.writer = self._background.start(self._write(stream), f"writer of turn {event.turn_id}")

    async def _open(self, drone: str, event: TurnEvent) -> _Stream | None:
        """The stream of a turn this drone works on, brought up to what is stored; None when it is not (then said)."""
        await self.forget(event.turn_id)
        turn = await self._store.turns.find({"_id": event.turn_id, "drone": drone})
        if turn is None or turn.session != event.chat_session_id:
            await self._revoke(drone, event.turn_id, ErrorCode.NOT_FOUND, "This turn is not this drone's.")
            return None
        if turn.status is not ChatTurnStatus.PROCESSING:
            if turn.status.is_over and event.epoch == turn.epoch and event.seq <= turn.last_seq:
                # Its acknowledgement was lost on the way; say it again so that the drone can let go.
                await self._rooms.tell_drone(drone, "turnAck", TurnAck(turn_id=turn.id, seq=turn.last_seq))
            else:
                await self._revoke(drone, turn.id, ErrorCode.TURN_OVER, "This turn is over.")
            return None
        price = await self._price_of(turn)
        projected = turn
        async for stored in self._store.events.replay(turn.id, turn.last_seq):
            # A process that died between storing events and updating the turn leaves this to us.
            projected = after_event(projected, EVENT_TYPES[stored.type].model_validate_json(stored.body), price)
        seq = await self._store.events.last_seq(turn.id)
        stream = _Stream(turn=turn, price=price, last_seq=seq, stored_seq=seq)
        self._streams[turn.id] = stream
        if projected is not turn:
            await self._keep(stream, projected)
        return None if stream.closed else stream

    async def _price_of(self, turn: ChatTurn) -> ModelPrice | None:
        provider = await self._store.providers.find({"_id": turn.provider})
        models = provider.models if provider is not None else ()
        return next((model.price for model in models if model.id == turn.llm), None)

    async def _write(self, stream: _Stream) -> None:
        """Stores what is unstored until nothing is."""
        try:
            await self._store_all(stream)
        except BaseException:
            self._let_go(stream)  # the next event opens it anew, from what is stored
            raise
        finally:
            stream.writer = None

    async def _store_all(self, stream: _Stream) -> None:
        failures = 0
        while stream.unstored:
            group = _group(stream.unstored)
            projected = stream.turn
            for _, event in group:
                if isinstance(event, PROJECTED):
                    projected = after_event(projected, event, stream.price)
            try:
                await self._store.events.append(stream.turn.id, [stored for stored, _ in group])
                if projected is not stream.turn:
                    await self._keep(stream, projected)
            except Unavailable as exc:
                delay_s = _RETRY_S[min(failures, len(_RETRY_S) - 1)]
                failures += 1
                log.warning("turn %s waits for the database: %s", stream.turn.id, exc.message)
                await asyncio.sleep(delay_s)
                continue
            failures = 0
            for stored, _ in group:
                stream.unstored.popleft()
                stream.unstored_bytes -= len(stored.body)
            stream.stored_seq = group[-1][0].seq
            is_over = stream.turn.status.is_over
            if is_over or stream.closed:
                stream.unstored.clear()
                self._let_go(stream)
            if stream.turn.drone is not None and not stream.closed:
                await self._rooms.tell_drone(
                    stream.turn.drone, "turnAck", TurnAck(turn_id=stream.turn.id, seq=stream.stored_seq)
                )
            if is_over:
                self._on_turn_over(stream.turn)

    async def _keep(self, stream: _Stream, projected: ChatTurn) -> None:
        """Writes what the events add up to, unless the turn went on under another epoch."""
        fields = {"thinking", "response", "stats", "last_seq"}
        if projected.status.is_over:  # until then its reason is not the stream's to say
            fields |= {"status", "status_reason", "error"}
        changes = projected.model_dump(include=fields)
        query = {"_id": projected.id, "epoch": stream.turn.epoch, "status": ChatTurnStatus.PROCESSING}
        kept = await self._store.turns.update(query, changes)
        if kept is None:
            stream.closed = True
            self._let_go(stream)
            if stream.turn.drone is not None:
                await self._revoke(
                    stream.turn.drone, projected.id, ErrorCode.STALE_EPOCH, "This turn went on without this drone."
                )
            return
        stream.turn = kept
        if kept.status.is_over:
            await self._rooms.tell_user(kept.user, "turnStatus", TurnStatus(turn=kept))

    async def _revoke(self, drone: str, turn: str, code: ErrorCode, message: str) -> None:
        await self._rooms.tell_drone(drone, "turnRevoked", TurnRevoked(turn_id=turn, code=code, message=message))


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
