"""The disk of the drone's machine is full, from each moment of a turn on: a clean end that says so, and then work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.disk import Disk, small_disk
from tests.faults.moments import Moment, Story
from tests.faults.mongo import Mongo
from tests.faults.oracles import check_all
from tests.faults.selection import moments
from tests.faults.stage import Stage, staged
from tests.harness import Web

_TRIES_S = 3.0
"""For how long a drone is let try to come up on a full disk."""


_WHEN = (Moment.FIRST_TOKEN, Moment.MID_STREAM, Moment.DURING_TOOL, Moment.BETWEEN, Moment.AT_END)
_MORE_CHARS = 20_000
"""More than the last page of a file has room for."""


@pytest.fixture
async def on_a_small_disk(fault_mongo: Mongo, fault_web: Web, tmp_path: Path) -> AsyncIterator[tuple[Stage, Disk]]:
    async with _on_a_small_disk(fault_mongo, fault_web, tmp_path) as made:
        yield made


@asynccontextmanager
async def _on_a_small_disk(mongo: Mongo, web: Web, directory: Path) -> AsyncIterator[tuple[Stage, Disk]]:
    with small_disk(directory / "workspace") as disk:
        async with staged(directory, mongo, web) as stage:
            yield stage, disk


@moments(quick=(Moment.MID_STREAM, Moment.DURING_TOOL), of=_WHEN)
async def test_a_disk_that_fills_up_ends_the_turn_and_the_next_one_works(
    on_a_small_disk: tuple[Stage, Disk], moment: Moment
) -> None:
    stage, disk = on_a_small_disk
    story = Story(moment, _MORE_CHARS)
    # Once before, so that the checkout is there.
    await stage.next_prompt_works()
    await stage.drone.until_available()
    turn = await story.reach(stage)
    disk.fill()
    story.go_on(stage)
    await stage.heal()
    document = await stage.until_over(turn)
    if moment is Moment.AT_END:  # the end was written before
        assert document["status"] == "finished", document
    else:
        assert document["status"] == "error", document
        assert "full" in document["error"]["message"], document
    disk.free()
    await stage.drone.until_available()
    await check_all(stage, may_log_tracebacks=True)


async def test_a_prompt_for_a_full_disk_waits_with_the_reason_and_runs_when_there_is_room(
    on_a_small_disk: tuple[Stage, Disk],
) -> None:
    stage, disk = on_a_small_disk
    await stage.next_prompt_works()
    await stage.drone.until_available()
    disk.fill()
    story = Story(Moment.BEFORE_ACCEPT)
    turn = await story.reach(stage)
    await stage.until_turn(turn, lambda document: "make room" in f"{document['statusReason']} {document['error']}")
    disk.free()
    await stage.until_over(turn)
    await check_all(stage, may_log_tracebacks=True)


async def test_a_recovery_on_a_full_disk_keeps_the_journal_whole_and_goes_on_later(
    on_a_small_disk: tuple[Stage, Disk],
) -> None:
    stage, disk = on_a_small_disk
    story = Story(Moment.DURING_TOOL)
    turn = await story.reach(stage)
    await stage.kill_drone()
    before = stage.journal(turn)
    disk.fill()
    await stage.start_drone()
    await asyncio.sleep(_TRIES_S)
    assert stage.journal(turn).startswith(before), "the journal is not what it was"
    disk.free()
    await stage.heal()
    document = await stage.until_over(turn)
    assert document["status"] in ("finished", "error"), document
    assert stage.calls == [story.first, story.second]
    await check_all(stage, may_log_tracebacks=True)
