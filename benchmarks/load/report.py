"""What a run of the load generator found."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.figures import percentile, short

_BEHIND_S = 0.5
"""Events that were sent and not seen at the end, or a sender that was held up, for this long: the service is behind."""
_SATURATED = 0.9
"""Of a processor: a generator that uses more is what was measured."""


@dataclass(frozen=True)
class Report:
    turns: int
    watchers: int
    rate: float
    """Asked for, of each turn in a second."""
    seconds: float
    sent: int
    seen: int
    """By all watchers, up to the moment when the last was sent."""
    expected: int
    """What they were to see of what was sent."""
    median_ms: float
    """From a drone to a watcher."""
    p95_ms: float
    p99_ms: float
    first_half_ms: float
    """Median of the first half of the time, and of the second: growing means behind."""
    second_half_ms: float
    late_s: float
    """By how much the sender was late at worst: the service took nothing, or the generator was too slow."""
    unacked: int
    """Sent and not acknowledged as stored when the last was sent."""
    failures: int
    """Turns that were taken away or not stored in time."""
    web_cpu_s: float
    database_cpu_s: float
    generator_cpu: float
    """The busiest worker's share of a processor."""
    web_rss_mb: float
    lag_ms: float | None
    """The service's event loop at worst (upper edge of the bucket); None where nothing was sampled."""

    @property
    def backlog(self) -> int:
        return max(0, self.expected - self.seen)

    @property
    def per_s(self) -> float:
        return self.expected / self.seconds

    @property
    def is_behind(self) -> bool:
        return (
            self.failures > 0
            or self.late_s > _BEHIND_S
            or self.backlog > self.per_s * _BEHIND_S
            or (self.second_half_ms > 250 and self.second_half_ms > 2 * self.first_half_ms)
        )

    @property
    def is_saturated(self) -> bool:
        """Whether the generator, and not the service, may be what was slow."""
        return self.generator_cpu > _SATURATED

    @property
    def web_cpu_per_1000_s(self) -> float:
        """Seconds of the service's processor time for 1,000 events taken."""
        return self.web_cpu_s / self.sent * 1000 if self.sent else 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "backlog": self.backlog,
            "isBehind": self.is_behind,
            "isSaturated": self.is_saturated,
            "webCpuPer1000S": self.web_cpu_per_1000_s,
        }

    def text(self) -> str:
        verdict = "FALLS BEHIND" if self.is_behind else "keeps up"
        if self.is_saturated:
            verdict += f" (a worker used {self.generator_cpu:.0%} of a processor: it may be what was slow)"
        lag = f"{self.lag_ms:g} ms" if self.lag_ms is not None else "not sampled"
        return "\n".join(
            [
                f"{self.turns} turns at {self.rate:g}/s, {self.watchers} watchers, {self.seconds:.1f} s: {verdict}",
                f"  events           {self.sent:,} sent; {self.seen:,} of {self.expected:,} seen at the last one",
                f"  drone -> watcher median {short(self.median_ms)} ms, p95 {short(self.p95_ms)}, "
                f"p99 {short(self.p99_ms)}; halves {short(self.first_half_ms)}, {short(self.second_half_ms)}",
                f"  backlog          {self.unacked:,} not stored, sender late by {self.late_s:.2f} s at worst, "
                f"{self.failures} failures",
                f"  CPU              web {self.web_cpu_per_1000_s:.3f} s for 1,000 events "
                f"({self.web_cpu_s / self.seconds:.0%} of a processor), "
                f"mongod {self.database_cpu_s / self.seconds:.0%}, busiest worker {self.generator_cpu:.0%}",
                f"  memory           web {self.web_rss_mb:.0f} MB",
                f"  event loop lag   at most {lag}",
            ]
        )


def latencies(seen: Sequence[tuple[int, int]], seconds: float) -> dict[str, float]:
    """The percentiles of [microseconds since the start, microseconds it took]."""
    took = [late / 1000 for _, late in seen]
    half = seconds * 1e6 / 2
    first = [late / 1000 for at, late in seen if at < half] or took
    second = [late / 1000 for at, late in seen if at >= half] or took
    return {
        "median_ms": percentile(took, 50),
        "p95_ms": percentile(took, 95),
        "p99_ms": percentile(took, 99),
        "first_half_ms": percentile(first, 50),
        "second_half_ms": percentile(second, 50),
    }
