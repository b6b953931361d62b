"""Figures of this process for Prometheus: what was counted, and how late the event loop is."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gadget_api.events import Step, ToolCall, TurnEvent, WorkOrderComplete

_LAG_EVERY_S = 0.5
_LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    def __init__(self) -> None:
        self.turns_ended: Counter[str] = Counter()
        self.steps = 0
        self.tools: Counter[str] = Counter()
        """By how they ended."""
        self.tokens: Counter[str] = Counter()
        self._lag_counts = [0] * (len(_LAG_BUCKETS_S) + 1)
        self._lag_sum_s = 0.0

    def take(self, events: Sequence[TurnEvent]) -> None:
        """Counts events that were stored by this process."""
        for event in events:
            match event:
                case Step():
                    self.steps += 1
                    usage = event.usage
                    self.tokens["input"] += usage.input_tokens
                    self.tokens["cachedInput"] += usage.cached_input_tokens
                    self.tokens["response"] += usage.response_tokens
                    self.tokens["thinking"] += usage.thinking_token_count
                case ToolCall():
                    self.tools["denied" if event.denied else "error" if event.is_error else "done"] += 1
                case WorkOrderComplete():
                    self.turns_ended[event.status] += 1

    async def measure_lag(self) -> None:
        """For as long as the service lives: how much later than asked for the event loop wakes whoever sleeps."""
        while True:
            due = time.monotonic() + _LAG_EVERY_S
            await asyncio.sleep(_LAG_EVERY_S)
            self.lagged(max(0.0, time.monotonic() - due))

    def lagged(self, lag_s: float) -> None:
        bucket = next((n for n, most in enumerate(_LAG_BUCKETS_S) if lag_s <= most), len(_LAG_BUCKETS_S))
        self._lag_counts[bucket] += 1
        self._lag_sum_s += lag_s

    def lines(self) -> Iterable[str]:
        """In Prometheus' text format."""
        yield from counter(
            "gadget_turns_ended_total", "Turns whose end this process stored.", self.turns_ended, "status"
        )
        yield from counter("gadget_steps_total", "Model calls stored by this process.", {"": self.steps})
        yield from counter("gadget_tool_calls_total", "Tool calls stored by this process.", self.tools, "outcome")
        yield from counter("gadget_tokens_total", "Tokens of those model calls.", self.tokens, "kind")
        name = "gadget_event_loop_lag_seconds"
        yield f"# HELP {name} How much later than asked for the event loop wakes whoever sleeps."
        yield f"# TYPE {name} histogram"
        total = 0
        for most, count in zip((*map(str, _LAG_BUCKETS_S), "+Inf"), self._lag_counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{most}"}} {total}'
        yield f"{name}_sum {self._lag_sum_s:.6f}"
        yield f"{name}_count {total}"


def counter(name: str, help: str, values: Mapping[str, int], label: str | None = None) -> Iterable[str]:
    return _family("counter", name, help, values, label)


def gauge(name: str, help: str, values: Mapping[str, int], label: str | None = None) -> Iterable[str]:
    return _family("gauge", name, help, values, label)


def _family(kind: str, name: str, help: str, values: Mapping[str, int], label: str | None) -> Iterable[str]:
    """Without a label there is one value, under any key. Keys are ours, so nothing in them is quoted."""
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
    for key, value in sorted(values.items()):
        yield f'{name}{{{label}="{key}"}} {value}' if label is not None else f"{name} {value}"
