"""What a turn spent its time on."""

from typing import Literal

from gadget_api.ids import Id
from gadget_api.messages import Usage
from gadget_api.model import Count, UtcTime, WireModel


class Span(WireModel):
    """One thing of a turn, from its beginning to its end as far as the turn's events tell."""

    kind: Literal["step", "tool", "inquiry", "notice", "steered", "compacted", "checkpoint", "end"]
    seq: int
    """Of the event that ended it."""
    began_at: UtcTime
    ended_at: UtcTime
    duration_ms: Count
    """A tool's as it measured it itself; of a step, from what came before it to the end of the model's answer."""
    label: str
    """The tool, the model, the inquiry's title, the notice's message."""
    call_id: str | None = None
    inquiry: Id | None = None
    is_error: bool = False
    usage: Usage | None = None
    """Of a step."""
    cost: float | None = None
    """US dollars; null where nobody said what the model costs."""


class Timeline(WireModel):
    """A page of a turn's spans, in the order in which they ended."""

    turn: Id
    items: tuple[Span, ...]
    next_cursor: str | None
    """The `after` of the next page; null when there is none yet."""
