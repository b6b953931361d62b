"""The timeline of a turn: how long each of its parts took."""

from typing import Literal

from gadget_api.ids import Id
from gadget_api.messages import Usage
from gadget_api.model import Count, UtcTime, WireModel


class Span(WireModel):
    """One part of a turn, with its start and end as computed from the turn's events."""

    kind: Literal["step", "tool", "inquiry", "notice", "steered", "compacted", "checkpoint", "end"]
    seq: int
    """The `seq` of the event at its end."""
    began_at: UtcTime
    ended_at: UtcTime
    duration_ms: Count
    """A tool: as measured by the tool. A step: from the end of the part before to the end of the model's answer."""
    label: str
    """The name of the tool or the model, the inquiry's title, or the notice's message."""
    call_id: str | None = None
    inquiry: Id | None = None
    is_error: bool = False
    usage: Usage | None = None
    """Null when the part is not a step."""
    cost: float | None = None
    """US dollars; null when the model has no price."""


class Timeline(WireModel):
    """A page of a turn's spans, ordered by their ends."""

    turn: Id
    items: tuple[Span, ...]
    next_cursor: str | None
    """The `after` of the next page; null when there is no next page yet."""
