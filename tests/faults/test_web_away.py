"""The web service is killed, restarted or frozen, at each moment of a turn. The drone goes on and buffers."""

import asyncio
import signal

import pytest

from tests.faults.moments import Moment, check_undisturbed, nothing, through
from tests.faults.oracles import check_all
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage
from tests.harness import until

_BUSY = (Moment.FIRST_TOKEN, Moment.MID_STREAM, Moment.DURING_TOOL, Moment.BETWEEN, Moment.AT_END)
"""When the drone needs nobody for the rest of the turn."""


async def _drone_gets_to_the_end(stage: Stage) -> None:
    async def ended() -> bool | None:
        return True if any('"workOrderComplete"' in stage.journal(turn) for turn in stage.prompts) else None

    await until(ended)


@moments()
async def test_a_killed_web_service_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.web.kill()

    async def meanwhile() -> None:
        await (_drone_gets_to_the_end(stage) if moment in _BUSY else nothing())

    story, turn = await through(stage, moment, strike, meanwhile)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.DURING_TOOL, Moment.AT_END))
async def test_a_restart_of_the_web_service_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        await asyncio.to_thread(stage.web.stop)
        assert stage.web.wait() == 0, stage.web_log()

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM, Moment.AT_END))
async def test_a_web_service_that_freezes_for_a_moment_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.freeze(stage.web)

    async def meanwhile() -> None:
        await (_drone_gets_to_the_end(stage) if moment in _BUSY else nothing())

    story, turn = await through(stage, moment, strike, meanwhile)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@full
@pytest.mark.timeout(240)
# The IDE's aiohttp leaves a connection open whose handshake was given up.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@moments(of=WHILE_IT_RUNS)
async def test_a_web_service_that_freezes_for_long_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.freeze(stage.web)

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(30))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


async def test_a_web_service_killed_five_times_in_one_turn_loses_nothing(stage: Stage) -> None:
    async def strike() -> None:
        for _ in range(5):
            stage.web.kill()
            await stage.start_web()
            await stage.watcher.until_connected()

    story, turn = await through(stage, Moment.DURING_TOOL, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


async def test_web_service_and_drone_die_together(stage: Stage) -> None:
    async def strike() -> None:
        stage.web.signal(signal.SIGKILL)
        await stage.kill_drone()
        stage.web.kill()

    story, turn = await through(stage, Moment.MID_STREAM, strike)
    document = await stage.turn(turn)
    assert document["status"] == "finished", document
    assert stage.calls == [f"{story.first}2", f"{story.second}2"]
    await check_all(stage)
