"""How late an event loop is, and what is said of it."""

import asyncio
import logging
import threading

import pytest

from gadget_api.lag import BLOCKED_S, LagMonitor


def stand_still(seconds: float) -> None:
    """Blocks whoever calls, as a large file would."""
    threading.Event().wait(seconds)


async def ticks(lag: LagMonitor, more: int) -> None:
    wanted = sum(lag.counts) + more
    async with asyncio.timeout(20):
        while sum(lag.counts) < wanted:  # noqa: ASYNC110  (it has no event for it)
            await asyncio.sleep(0.01)


async def test_the_code_that_blocks_the_loop_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    lag = LagMonitor()
    task = asyncio.create_task(lag.measure())
    await ticks(lag, 1)
    before = lag.summary.over_250_ms
    with caplog.at_level(logging.WARNING, "gadget_api.lag"):
        for _ in range(2):
            stand_still(BLOCKED_S * 2.5)
            await ticks(lag, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lag.summary.over_250_ms >= before + 2
    assert lag.summary.max_ms >= lag.summary.blocked_ms >= 2 * BLOCKED_S * 1000
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1, said
    assert "test_lag.py" in said[0]
    assert "stand_still" in said[0]


async def test_the_watcher_thread_ends_with_the_measurement() -> None:
    before = threading.enumerate()
    task = asyncio.create_task(LagMonitor().measure())
    await asyncio.sleep(0)
    [watcher] = [thread for thread in threading.enumerate() if thread not in before]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(watcher.join, 20)
    assert not watcher.is_alive()


def test_ticks_are_counted_by_their_lag() -> None:
    lag = LagMonitor()
    for lag_s in (0.0, 0.02, 0.06, 0.3, 7.0):
        lag.record(lag_s)
    assert lag.counts == [1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1]
    assert lag.sum_s == pytest.approx(7.38)
    assert lag.summary.to_wire() == {"maxMs": 7000, "blockedMs": 7000, "over50Ms": 3, "over250Ms": 2}


def test_lag_caused_by_other_processes_is_separate() -> None:
    lag = LagMonitor()
    lag.record(0.4, 0.1)
    assert (lag.max_s, lag.blocked_s) == (0.4, 0.1)
