"""A clock whose differences are durations."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from gadget_api.model import utc_now


def _uptime_s() -> float:
    """Seconds that no change of the machine's clock touches; a machine's sleep counts, where the system says so."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyClock:
    """The time of day when it was made, and since then what has passed: somebody who sets the machine's clock changes
    no duration."""

    def __init__(self, wall: Callable[[], datetime] = utc_now, elapsed_s: Callable[[], float] = _uptime_s) -> None:
        self._begun = wall()
        self._begun_s = elapsed_s()
        self._elapsed_s = elapsed_s

    def now(self) -> datetime:
        """A `UtcTime` (whole milliseconds)."""
        return self._begun + timedelta(milliseconds=int((self._elapsed_s() - self._begun_s) * 1000))
