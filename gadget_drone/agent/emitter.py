"""The events of one agent: they carry its id, and count what it has used."""

from typing import Any, Protocol, TypeVar

from gadget_api.events import TurnEvent
from gadget_api.providers import ModelPrice
from gadget_api.turns import TurnStats

EventT = TypeVar("EventT", bound=TurnEvent)


class Sink(Protocol):
    """Takes the events of all agents of a turn, in order: the turn's stream, or a list in a test."""

    def emit(
        self, event: type[EventT], *, agent_id: str | None = None, price: ModelPrice | None = None, **fields: Any
    ) -> EventT:
        """Raises OSError when the disk does not take it."""
        ...

    def delta(self, type: str, content: str, *, agent_id: str | None = None, **fields: Any) -> None: ...

    async def room(self) -> None:
        """Waits while too many events are not stored."""

    async def synced(self) -> None:
        """Waits until the disk has all events."""


class Emitter:
    """`agent_id` None: the turn's own agent. `stats`: what the agent used before a crash. `price`: of its model."""

    def __init__(
        self,
        sink: Sink,
        *,
        agent_id: str | None = None,
        stats: TurnStats = TurnStats(),  # noqa: B008 (frozen)
        price: ModelPrice | None = None,
    ) -> None:
        self._sink = sink
        self.agent_id = agent_id
        self.stats = stats
        self.price = price
        self.room = sink.room
        self.synced = sink.synced

    def __call__(self, event: type[EventT], **fields: Any) -> EventT:
        """Emits one event of the agent. Raises OSError when the disk does not take it."""
        made = self._sink.emit(event, agent_id=self.agent_id, price=self.price, **fields)
        self.stats = made.counted(self.stats, self.price)
        return made

    def delta(self, type: str, content: str, **fields: Any) -> None:
        """Adds a piece of thinking, response or tool output."""
        self._sink.delta(type, content, agent_id=self.agent_id, **fields)
