"""When what streams is stored, and when no more is taken before it is."""

import asyncio
import time

from gadget_code.turns.beat import Beat
from gadget_code.turns.stream import Backlog


async def test_who_waits_between_two_beats_goes_on_at_once_with_the_others() -> None:
    beat = Beat(0.2)
    await beat.next()
    woken: list[str] = []

    async def wait(name: str) -> None:
        await beat.next()
        woken.append(name)

    waiting = [asyncio.create_task(wait(name)) for name in "abc"]
    first, *_ = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert woken == ["a", "b", "c"]
    assert len(first) == 3


async def test_who_cannot_wait_goes_before_the_beat_and_leaves_it_to_the_others() -> None:
    beat = Beat(0.2)
    hurried, patient = beat.next(), beat.next()
    hurried.set_result(None)
    await hurried
    assert not patient.done()
    await asyncio.wait_for(patient, 5)


async def test_one_that_is_given_up_costs_the_others_nothing() -> None:
    beat = Beat(0.1)
    given_up, patient = beat.next(), beat.next()
    given_up.cancel()
    await asyncio.wait_for(patient, 5)
    await asyncio.wait_for(beat.next(), 5)


def test_a_backlog_is_full_while_the_database_stores_and_not_while_it_is_away() -> None:
    backlog = Backlog(events=100_000)
    assert not backlog.is_full, "nothing was ever stored"
    backlog.stored_at = time.monotonic()
    assert backlog.is_full
    backlog.stored_at -= 60
    assert not backlog.is_full, "a drone that is not read loses its connection"
    backlog = Backlog(events=10, stored_at=time.monotonic())
    assert not backlog.is_full
