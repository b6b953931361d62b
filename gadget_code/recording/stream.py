"""What a process has taken of a running turn, and not stored yet; the recorder fills it and empties it."""

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
"""A database that has stored something in this time does store."""
_GROUP_EVENTS = 500
_GROUP_BYTES = 4 * 1024 * 1024  # far under the 48 MB a MongoDB message may have
_URGENT = (InquiryAsked, InquiryAnswered, Steered, WorkOrderComplete)
"""Somebody waits for an end, a question, a message to be before the model."""
_URGENT_BYTES = 256 * 1024
"""The drone that has sent so much waits for it to be acknowledged, or soon will."""
_UNSTORED_BYTES = 16 * 1024 * 1024
"""A drone of ours sends 2 MB ahead of what is acknowledged; one that sends this much has to wait."""
_UNSTORED_EVENTS = 4_000
"""Of all turns: past that none is read ahead of what is stored of it, so that storing keeps up with taking."""


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
    """What all streams of this process have taken and not stored."""

    events: int = 0
    stored_at: float = -STORES_S
    """Monotonic seconds of the last success."""

    @property
    def is_full(self) -> bool:
        """Whether storing is behind taking. A database that stores nothing is another matter: its time is not to cost
        the drones their connections, which have to be read."""
        return self.events > _UNSTORED_EVENTS and time.monotonic() - self.stored_at < STORES_S


@dataclass
class TurnStream:
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
    flush: asyncio.Future[None] | None = None
    """The flush that its writer waits for."""
    asked_resend_after: int = -1
    asked_at: float = 0.0
    """Monotonic seconds."""
    refused_seq: int = 0
    """Of the event that was missing when it came, and was none; it is asked for once more."""
    closed: bool = False
    """Whether somebody else has the turn: nothing more is taken."""
    _unstored_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether its drone is one that sends without end."""
        return self._unstored_bytes > _UNSTORED_BYTES

    def take(self, event: TurnEvent, payload: dict[str, Any]) -> None:
        """The next event, and as what it came."""
        stored = stored_as(event, payload)
        self.last_seq = event.seq
        self.unstored.append((stored, event))
        self._unstored_bytes += len(stored.body)
        self.backlog.events += 1
        if self._unstored_bytes > _URGENT_BYTES or isinstance(event, _URGENT):
            self.hurry()

    def next_group(self) -> list[tuple[StoredEvent, TurnEvent]]:
        """The next events to store as one; ends with a turn's last event."""
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
        """The oldest `count` events (None: all) are stored, or somebody else's."""
        for _ in range(len(self.unstored) if count is None else count):
            stored, _event = self.unstored.popleft()
            self._unstored_bytes -= len(stored.body)
            self.backlog.events -= 1

    def hurry(self) -> None:
        """What is unstored is to be stored at once."""
        self.is_urgent = True
        if self.flush is not None and not self.flush.done():
            self.flush.set_result(None)

    def price_of(self, event: TurnEvent) -> ModelPrice | None:
        """Of the model that a step was made by."""
        if isinstance(event, Step) and event.model in self.prices:
            return self.prices[event.model]
        return self.prices.get(self.turn.llm)


def stored_as(event: TurnEvent, payload: dict[str, Any]) -> StoredEvent:
    """`payload`: as what the event came."""
    return StoredEvent(event.seq, event.epoch, event.type, orjson.dumps(payload).decode())
