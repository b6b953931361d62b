"""The metrics of this process for Prometheus."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from gadget_api.drones import LoopLag
from gadget_api.events import Step, ToolCall, TurnEvent, WorkOrderComplete
from gadget_api.lag import BUCKETS_S, LagMonitor

_WORST_MS = (50, 250, 1000)


class Metrics:
    def __init__(self) -> None:
        self.turns_ended: Counter[str] = Counter()
        self.steps = 0
        self.tools: Counter[str] = Counter()
        """By outcome."""
        self.tokens: Counter[str] = Counter()
        self.lag = LagMonitor()
        self.drone_lags: dict[str, LoopLag] = {}
        """Of each drone that is connected to this process and has reported."""

    def take(self, events: Sequence[TurnEvent]) -> None:
        """Counts events that this process has stored."""
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

    def lines(self) -> Iterable[str]:
        """Yields Prometheus' text format."""
        yield from counter(
            "gadget_turns_ended_total", "Turns whose end this process stored.", self.turns_ended, "status"
        )
        yield from counter("gadget_steps_total", "Model calls stored by this process.", {"": self.steps})
        yield from counter("gadget_tool_calls_total", "Tool calls stored by this process.", self.tools, "outcome")
        yield from counter("gadget_tokens_total", "Tokens of those model calls.", self.tokens, "kind")
        name = "gadget_event_loop_lag_seconds"
        yield f"# HELP {name} How late the event loop wakes sleeping tasks."
        yield f"# TYPE {name} histogram"
        total = 0
        for most, count in zip((*map(str, BUCKETS_S), "+Inf"), self.lag.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{most}"}} {total}'
        yield f"{name}_sum {self.lag.sum_s:.6f}"
        yield f"{name}_count {total}"
        help = "The maximum since this process started."
        yield from gauge("gadget_event_loop_lag_max_seconds", help, {"": f"{self.lag.max_s:.6f}"})
        help = "The maximum that this process caused itself, without waits for the CPU."
        yield from gauge("gadget_event_loop_blocked_max_seconds", help, {"": f"{self.lag.blocked_s:.6f}"})
        help = "Drones connected to this process, by the longest block of their event loop, in milliseconds."
        yield from gauge("gadget_drones_by_loop_lag", help, self._by_worst(), "most")

    def _by_worst(self) -> Counter[str]:
        """Counts drones by lag instead of one series per drone, so that the number of series does not grow."""
        counts = Counter({**dict.fromkeys(map(str, _WORST_MS), 0), "more": 0})
        for lag in self.drone_lags.values():
            counts[next((str(most) for most in _WORST_MS if lag.blocked_ms <= most), "more")] += 1
        return counts


def _family(
    kind: str, name: str, help: str, values: Mapping[str, int | str], label: str | None = None
) -> Iterable[str]:
    """Without a label there is one value, under any key. Keys are constants, so nothing in them is escaped."""
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"
    for key, value in sorted(values.items()):
        yield f'{name}{{{label}="{key}"}} {value}' if label is not None else f"{name} {value}"


counter = partial(_family, "counter")
gauge = partial(_family, "gauge")
