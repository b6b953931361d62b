"""A clock that changes of the machine's time do not affect."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from gadget_api.model import utc_now


def _uptime_s() -> float:
    """Returns monotonic seconds, including the time in which the machine is suspended where the system offers that."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyClock:
    """Starts at the current time of day and adds the elapsed monotonic time. A change of the machine's clock therefore
    changes no duration between two readings."""

    def __init__(self, wall: Callable[[], datetime] = utc_now, elapsed_s: Callable[[], float] = _uptime_s) -> None:
        self._begun = wall()
        self._begun_s = elapsed_s()
        self._elapsed_s = elapsed_s

    def now(self) -> datetime:
        """Returns the time as a `UtcTime` (whole milliseconds)."""
        return self._begun + timedelta(milliseconds=int((self._elapsed_s() - self._begun_s) * 1000))
