"""When a stream is stored, and when the recorder stops to accept more before that."""

import asyncio
import time

from gadget_code.recording.stream import Backlog, FlushTimer


async def test_all_that_wait_for_a_flush_wake_at_the_same_flush() -> None:
    timer = FlushTimer(0.2)
    await timer.next()
    woken: list[str] = []

    async def wait(name: str) -> None:
        await timer.next()
        woken.append(name)

    waiting = [asyncio.create_task(wait(name)) for name in "abc"]
    first, *_ = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert woken == ["a", "b", "c"]
    assert len(first) == 3


async def test_an_urgent_wait_ends_before_the_flush_and_the_others_keep_waiting() -> None:
    timer = FlushTimer(0.2)
    hurried, patient = timer.next(), timer.next()
    hurried.set_result(None)
    await hurried
    assert not patient.done()
    await asyncio.wait_for(patient, 5)


async def test_a_cancelled_wait_does_not_affect_the_others() -> None:
    timer = FlushTimer(0.1)
    cancelled, patient = timer.next(), timer.next()
    cancelled.cancel()
    await asyncio.wait_for(patient, 5)
    await asyncio.wait_for(timer.next(), 5)


def test_a_backlog_is_full_only_while_the_database_answers() -> None:
    backlog = Backlog(events=100_000)
    assert not backlog.is_full, "nothing was ever stored"
    backlog.stored_at = time.monotonic()
    assert backlog.is_full
    backlog.stored_at -= 60
    assert not backlog.is_full, "a drone that is not read loses its connection"
    backlog = Backlog(events=10, stored_at=time.monotonic())
    assert not backlog.is_full
