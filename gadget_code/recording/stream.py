"""The events of a running turn that this process has accepted and not stored. The recorder fills and empties it."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gadget_api.events import InquiryAnswered, InquiryAsked, Steered, Step, TurnEvent, WorkOrderComplete
from gadget_api.providers import ModelPrice
from gadget_api.turns import ChatTurn
from gadget_code.store.events import StoredEvent

STORES_S = 1.0
"""Seconds after a successful write during which the database counts as available."""
_GROUP_EVENTS = 500
_GROUP_BYTES = 4 * 1024 * 1024  # far below the 48 MB limit of a MongoDB message
_URGENT = (InquiryAsked, InquiryAnswered, Steered, WorkOrderComplete)
"""A user waits for the end, an inquiry, or a message that has reached the model."""
_URGENT_BYTES = 256 * 1024
"""A drone that has sent this much waits for an acknowledgement, or soon will."""
_UNSTORED_BYTES = 16 * 1024 * 1024
"""Our drone sends 2 MB ahead of acknowledgements; a drone that sends this much has to wait."""
_UNSTORED_EVENTS = 4_000
"""Of all turns together: above this no events are read ahead of stored ones, so that storing keeps up."""


class FlushTimer:
    """A periodic flush that all turns share: the events that arrive in one period are one write of the database."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: list[asyncio.Future[None]] = []

    def next(self) -> asyncio.Future[None]:
        """Done at the next flush. A caller that cannot wait sets the result itself."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_at((loop.time() // self._every_s + 1) * self._every_s, self._flush)
        flush: asyncio.Future[None] = loop.create_future()
        self._waiting.append(flush)
        return flush

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for flush in waiting:
            if not flush.done():
                flush.set_result(None)


@dataclass
class Backlog:
    """The events of all streams of this process that are accepted and not stored."""

    events: int = 0
    stored_at: float = -STORES_S
    """Monotonic seconds of the last successful write."""

    @property
    def is_full(self) -> bool:
        """Whether storing falls behind. False while the database is unreachable: the drones' connections have to be
        read even then, or they are lost."""
        return self.events > _UNSTORED_EVENTS and time.monotonic() - self.stored_at < STORES_S


@dataclass
class TurnStream:
    """A running turn whose events come over one connection to this process. Each connection has its own stream, because
    other processes may have stored events in between."""

    socket: str
    turn: ChatTurn
    """The turn after its newest stored event. Other changes to it (its reason, its steers) are not updated here."""
    prices: Mapping[str, ModelPrice | None]
    """Model name -> price: the turn's model first, then its fallbacks."""
    last_seq: int
    """Of the newest event that was accepted and relayed."""
    backlog: Backlog
    unstored: deque[tuple[StoredEvent, TurnEvent]] = field(default_factory=deque)
    writer: asyncio.Task[None] | None = None
    is_urgent: bool = False
    """Whether to store at once."""
    flush: asyncio.Future[None] | None = None
    """The flush that its writer waits for."""
    asked_resend_after: int = -1
    asked_at: float = 0.0
    """Monotonic seconds."""
    refused_seq: int = 0
    """The seq of the missing event that was invalid; it is requested once more."""
    closed: bool = False
    """Whether the turn has another owner: no more events are accepted."""
    _unstored_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether its drone ignores the limit of unacknowledged events."""
        return self._unstored_bytes > _UNSTORED_BYTES

    def take(self, event: TurnEvent, payload: dict[str, Any]) -> None:
        """Appends the next event. `payload` is the event as it was received."""
        stored = stored_as(event, payload)
        self.last_seq = event.seq
        self.unstored.append((stored, event))
        self._unstored_bytes += len(stored.body)
        self.backlog.events += 1
        if self._unstored_bytes > _URGENT_BYTES or isinstance(event, _URGENT):
            self.hurry()

    def next_group(self) -> list[tuple[StoredEvent, TurnEvent]]:
        """Returns the next events to store together. A turn's last event ends a group."""
        group: list[tuple[StoredEvent, TurnEvent]] = []
        size = 0
        for entry in self.unstored:
            size += len(entry[0].body)
            if group and (len(group) == _GROUP_EVENTS or size > _GROUP_BYTES):
                break
            group.append(entry)
            if isinstance(entry[1], WorkOrderComplete):
                break
        return group

    def forget(self, count: int | None = None) -> None:
        """Removes the oldest `count` events (None: all)."""
        for _ in range(len(self.unstored) if count is None else count):
            stored, _event = self.unstored.popleft()
            self._unstored_bytes -= len(stored.body)
            self.backlog.events -= 1

    def hurry(self) -> None:
        """Makes the writer store at once."""
        self.is_urgent = True
        if self.flush is not None and not self.flush.done():
            self.flush.set_result(None)

    def price_of(self, event: TurnEvent) -> ModelPrice | None:
        """Returns the price of the event's model."""
        if isinstance(event, Step) and event.model in self.prices:
            return self.prices[event.model]
        return self.prices.get(self.turn.llm)


def stored_as(event: TurnEvent, payload: dict[str, Any]) -> StoredEvent:
    """Returns the event for the store. `payload` is the event as it was received."""
    return StoredEvent(event.seq, event.epoch, event.type, orjson.dumps(payload).decode(), event.agent_id)
