"""The event stream of a running turn, at its source: merges deltas, numbers events, journals them, sends them, and
sends again what was not acknowledged.

The first delta goes out at once; while an event is on its way, later deltas of the same agent, type and call pile up
and leave as one. An idle stream stays immediate, a busy one becomes few, larger events.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from gadget_api.clock import SteadyClock
from gadget_api.events import MAX_EVENT_BYTES, TurnEvent
from gadget_api.model import iso
from gadget_api.providers import ModelPrice
from gadget_api.turns import TurnStats
from gadget_drone.journal import Entry, Journal

log = logging.getLogger(__name__)

Send = Callable[[str, bytes], Awaitable[None]]
"""Sends one event, as JSON, and returns when it is written to the network. Raises ConnectionError."""

_MAX_DELTA_CHARS = 32_000
"""Of one merged delta; at six bytes for the worst character it is far from the limit of a frame."""
_WINDOW_BYTES = 2 * 1024 * 1024
"""Events on their way without an acknowledgement: past this the store is slow, and we wait for it."""

MAX_UNACKED_BYTES = 64 * 1024 * 1024
"""What the journal keeps for a server that is away. Deltas end here, and so does the next step: hours of work by then,
for a step and its tools seldom have more than 100 kB."""

_OVERDUE_S = 10.0
"""What was sent this long ago and is not acknowledged, while nothing else happens, is sent again."""

EventT = TypeVar("EventT", bound=TurnEvent)


@dataclass
class _Delta:
    """Pieces of one text that wait to be sent as one event."""

    head: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    chars: int = 0


class EventStream:
    def __init__(
        self,
        *,
        turn_id: str,
        chat_session_id: str,
        epoch: int,
        journal: Journal,
        send: Send,
        stats: TurnStats,
        max_unacked_bytes: int = MAX_UNACKED_BYTES,
        overdue_s: float = _OVERDUE_S,
        clock: SteadyClock | None = None,
    ) -> None:
        self.clock = clock or SteadyClock()
        """Of all that happens in the turn: durations are read off the moments of its events."""
        self._overdue_s = overdue_s
        self._max_unacked_bytes = max_unacked_bytes
        self._drops_deltas = False
        self._waiting = 0
        self._head: dict[str, Any] = {"turnId": turn_id, "chatSessionId": chat_session_id, "epoch": epoch}
        self._send = send
        self._journal = journal
        self.stats = stats
        """What all agents of the turn have used so far, over all its epochs."""
        self._deltas: dict[tuple[Any, ...], _Delta] = {}
        """By agent, type and call; the oldest first."""
        self._sent_seq = journal.acked_seq
        self._wake = asyncio.Event()
        self._wake.set()  # a journal that a crash left has events to send
        self._acked = asyncio.Event()

    def delta(self, type: str, content: str, *, agent_id: str | None = None, **fields: Any) -> None:
        """Adds a piece of thinking, response or tool output."""
        if not content:
            return
        key = (agent_id, type, *fields.values())
        while True:
            delta = self._deltas.get(key)
            if delta is None:
                of_agent = {} if agent_id is None else {"agentId": agent_id}
                delta = self._deltas[key] = _Delta({"type": type, **of_agent, **fields})
            piece, content = _split(content, _MAX_DELTA_CHARS - delta.chars)
            delta.pieces.append(piece)
            delta.chars += len(piece)
            if not content:
                break
            self._flush(key)
        self._wake.set()

    def emit(
        self, event: type[EventT], *, agent_id: str | None = None, price: ModelPrice | None = None, **fields: Any
    ) -> EventT:
        """Numbers and journals one event, after what the same agent has said. `price`: of the model that answered.

        Raises OSError when the disk does not take it.
        """
        for key in [key for key in self._deltas if key[0] == agent_id]:
            self._flush(key)
        made = event(
            turn_id=self._head["turnId"],
            chat_session_id=self._head["chatSessionId"],
            epoch=self._head["epoch"],
            seq=self._journal.last_seq + 1,
            at=self.clock.now(),
            agent_id=agent_id,
            **fields,
        )
        self._journal.append(made.seq, made.type, _encoded(made.to_wire()), agent_id)
        self.stats = made.counted(self.stats, price)
        self._wake.set()
        return made

    async def synced(self) -> None:
        """Waits until the disk has all events: before anything that cannot be undone."""
        await self._journal.sync()

    def ack(self, seq: int) -> None:
        """The server has stored everything up to `seq`."""
        if seq > self._journal.acked_seq:
            self._journal.ack(min(seq, self._journal.last_seq))
            self._acked.set()
            self._wake.set()

    def resend(self, after_seq: int | None = None) -> None:
        """Sends again what follows `after_seq` (None: all that is not acknowledged)."""
        self._sent_seq = self._journal.acked_seq if after_seq is None else min(self._sent_seq, after_seq)
        self._wake.set()

    @property
    def is_acknowledged(self) -> bool:
        return self._journal.acked_seq >= self._journal.last_seq

    @property
    def is_waiting(self) -> bool:
        """Whether an agent waits for `room`."""
        return self._waiting > 0

    async def room(self) -> None:
        """Before a model call or a tool: waits while the journal holds too much that the server has not taken, until
        half of it is gone."""
        if self._journal.unacked_bytes <= self._max_unacked_bytes:
            return
        log.warning("the turn waits: the server has to take %d bytes first", self._journal.unacked_bytes)
        self._waiting += 1
        try:
            while self._journal.unacked_bytes > self._max_unacked_bytes // 2:
                self._acked.clear()
                await self._acked.wait()
        finally:
            self._waiting -= 1
        log.warning("the turn goes on")

    async def acknowledged(self) -> None:
        """Waits until everything that was emitted is stored at the server, however long that takes."""
        while not self.is_acknowledged:
            self._acked.clear()
            await self._acked.wait()

    async def pump(self) -> None:
        """Sends events as they come, for as long as the turn lives."""
        while True:
            is_awaited = self._sent_seq > self._journal.acked_seq
            try:
                async with asyncio.timeout(self._overdue_s if is_awaited else None):
                    await self._wake.wait()
            except TimeoutError:
                # The server may have lost what it took: its database was away, or it went on in another process.
                self.resend()
            self._wake.clear()
            while (entry := self._next()) is not None:
                # Before it is on its way: who asks for an earlier one meanwhile gets it.
                self._sent_seq = entry.seq
                try:
                    await self._send(entry.type, self._journal.read(entry))
                except ConnectionError:
                    break  # the next connection calls `resend`

    def _next(self) -> Entry | None:
        """The event to send now; None when there is none, or the window is full."""
        entry = self._journal.after(self._sent_seq)
        if entry is None and self._deltas:
            self._flush(next(iter(self._deltas)))
            entry = self._journal.after(self._sent_seq)
        if entry is not None and self._in_flight_bytes(entry.offset) > _WINDOW_BYTES:
            return None
        return entry

    def _in_flight_bytes(self, offset: int) -> int:
        oldest = self._journal.after(self._journal.acked_seq)
        return offset - oldest.offset if oldest is not None else 0

    @property
    def _is_full(self) -> bool:
        """Whether a delta is not kept: what comes whole in a later event need not wait for the server in pieces."""
        is_full = self._journal.unacked_bytes > self._max_unacked_bytes
        if is_full and not self._drops_deltas:
            log.warning("the server takes nothing: what a model or a tool says is shown at its end, not as it comes")
        self._drops_deltas = is_full
        return is_full

    def _flush(self, key: tuple[Any, ...]) -> None:
        """Numbers and journals the pieces that wait under `key`, as one event."""
        delta = self._deltas.pop(key)
        if self._is_full:
            return
        seq = self._journal.last_seq + 1
        text = "".join(delta.pieces)
        event = {**delta.head, **self._head, "seq": seq, "at": iso(self.clock.now()), "content": text}
        try:
            self._journal.append(seq, event["type"], _encoded(event))
        except OSError as exc:
            # The step's own event holds the text whole; it is what ends the turn when the disk stays full.
            log.warning("a delta is not shown: the journal does not take it (%s)", exc.strerror)


def _split(text: str, at: int) -> tuple[str, str]:
    return text[:at], text[at:]


def _encoded(event: dict[str, Any]) -> bytes:
    try:
        body = orjson.dumps(event)
    except orjson.JSONEncodeError:
        # A model may write half of a surrogate pair, which is no text: it becomes "?".
        body = orjson.dumps(_as_text(event))
    if len(body) > MAX_EVENT_BYTES:
        raise ValueError(f"a {event['type']} event of {len(body)} bytes is too large")
    return body


def _as_text(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_as_text(key): _as_text(item) for key, item in value.items()}
        case list():
            return [_as_text(item) for item in value]
        case _:
            return value
