"""A turn's timeline, from its events: a span ends with an event, and begins with another or at the end of the previous
span."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from gadget_api.events import (
    Checkpoint,
    Compacted,
    InquiryAnswered,
    InquiryAsked,
    Notice,
    Steered,
    Step,
    ToolCall,
    ToolStarted,
    TurnEvent,
    WorkOrderComplete,
    turn_event,
)
from gadget_api.inquiries import Inquiry
from gadget_api.providers import ModelPrice
from gadget_api.timeline import Span, Timeline
from gadget_api.turns import ChatTurn
from gadget_code.recording.prices import prices_of
from gadget_code.store.database import MongoStore

_LABEL = 200


async def timeline(store: MongoStore, turn: ChatTurn, *, after: int, limit: int) -> Timeline:
    """Returns the spans that end after the event `after`. Reads the earlier events, too: they may begin these spans."""
    reader = _SpanReader(turn, await prices_of(store, turn))
    items: list[Span] = []
    async for stored in store.events.without_deltas(turn.id, up_to=turn.last_seq):
        for span in reader.read(turn_event.validate_json(stored.body)):
            if span.seq > after:
                items.append(span)
        if len(items) >= limit:
            return Timeline(turn=turn.id, items=tuple(items), next_cursor=str(items[-1].seq))
    return Timeline(turn=turn.id, items=tuple(items), next_cursor=None)


class _SpanReader:
    """Reads a turn's events except deltas, in order."""

    def __init__(self, turn: ChatTurn, prices: dict[str, ModelPrice | None]) -> None:
        self._prices = prices
        self._price = prices.get(turn.llm)
        self._last: datetime | None = None
        """When the previous span ended."""
        self._tools: dict[str, datetime] = {}
        self._inquiries: dict[str, tuple[Inquiry, datetime]] = {}

    def read(self, event: TurnEvent) -> Iterator[Span]:
        assert not event.is_delta
        begun = self._last or event.at
        match event:
            case ToolStarted():
                self._tools[event.call_id] = event.at
                return
            case InquiryAsked():
                self._inquiries[event.inquiry.id] = (event.inquiry, event.at)
                return
            case Step():
                price = self._prices.get(event.model, self._price)
                cost = price.cost_usd(event.usage) if price is not None else None
                yield _span("step", event, begun, event.model).replace(usage=event.usage, cost=cost)
            case ToolCall():
                at = event.at - timedelta(milliseconds=min(event.duration_ms, 10**12))
                span = _span("tool", event, self._tools.pop(event.call_id, at), event.name)
                yield span.replace(call_id=event.call_id, is_error=event.is_error, duration_ms=event.duration_ms)
            case InquiryAnswered():
                opened = self._inquiries.pop(event.answer.inquiry_id, None)
                if opened is not None:
                    inquiry, at = opened
                    span = _span("inquiry", event, at, inquiry.title)
                    yield span.replace(inquiry=inquiry.id, call_id=inquiry.call_id)
            case Notice():
                yield _span("notice", event, event.at, event.message).replace(is_error=event.level == "error")
                return
            case Steered():
                yield _span("steered", event, event.at, event.content)
            case Compacted():
                yield _span("compacted", event, begun, f"{event.tokens_before:,} → {event.tokens_after:,} tokens")
            case Checkpoint():
                yield _span("checkpoint", event, event.at, f"{event.checkpoint.file_count:,} files")
                return
            case WorkOrderComplete():
                yield _span("end", event, event.at, event.message).replace(is_error=not event.success)
        self._last = event.at


def _span(kind: str, event: TurnEvent, begun: datetime, label: str) -> Span:
    begun = min(begun, event.at)  # a drone's clock may be set back
    return Span.model_validate(
        {
            "kind": kind,
            "seq": event.seq,
            "began_at": begun,
            "ended_at": event.at,
            "duration_ms": int((event.at - begun).total_seconds() * 1000),
            "label": " ".join(label.split())[:_LABEL],
        }
    )
