"""A clock whose differences are durations."""

from datetime import UTC, datetime, timedelta

from gadget_api.clock import SteadyClock
from gadget_api.model import utc_now

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_a_change_of_the_machines_clock_changes_no_duration() -> None:
    wall, elapsed_s = [NOON], [100.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed_s[0])
    begun = clock.now()
    assert begun == NOON
    for change in (timedelta(hours=-1), timedelta(days=400)):
        wall[0] += change
        elapsed_s[0] += 2.5
    assert clock.now() - begun == timedelta(seconds=5)


def test_the_clock_has_whole_milliseconds() -> None:
    now = SteadyClock().now()
    assert abs(now - utc_now()) < timedelta(seconds=5)
    assert now.microsecond % 1000 == 0
    assert now.tzinfo is UTC
