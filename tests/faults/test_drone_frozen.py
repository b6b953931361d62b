"""The drone stands still for a while and goes on as if nothing had been (a laptop's lid, a stopped container)."""

import asyncio

import pytest

from tests.faults.moments import PLAN, Moment, Story, check_undisturbed, through
from tests.faults.oracles import check_all, check_goes_on, check_said_in_time
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage

_FOUND_DEAD_S = 20.0
"""15 s are promised, the rest is the machine's."""


@moments(quick=(Moment.MID_STREAM, Moment.AT_END))
async def test_a_drone_that_freezes_for_a_moment_goes_on(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.freeze(stage.drone)

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(2))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@moments(quick=(Moment.MID_STREAM,), of=WHILE_IT_RUNS)
async def test_a_frozen_drone_is_noticed_and_goes_on_where_it_was(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        since = len(stage.watcher.statuses)
        stage.freeze(stage.drone)
        await check_said_in_time(stage, next(iter(stage.prompts)), _FOUND_DEAD_S, since)

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@full
@pytest.mark.timeout(300)
@moments()
async def test_a_drone_that_was_frozen_for_a_minute_goes_on(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.freeze(stage.drone)
        stage.lost_answers += 1

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(60))
    document = await stage.turn(turn)
    assert (document["status"], document["response"]) == ("finished", "It is done."), document
    # A model call that was under way has been silent for too long then, and is made again.
    assert len(stage.book.asked_for(story.prompt)) <= PLAN + 1 + (moment is Moment.IN_RECOVERY)
    await check_all(stage)


async def test_what_a_frozen_drone_says_after_its_turn_was_cancelled_is_refused(stage: Stage) -> None:
    story = Story(Moment.DURING_TOOL)
    turn = await story.reach(stage)
    stage.freeze(stage.drone)
    await stage.rest("POST", f"/turns/{turn}/cancel", {})
    assert (await stage.until_over(turn))["status"] == "cancelled"
    story.go_on(stage)
    stage.thaw(stage.drone)
    await stage.drone.until_available()
    await check_goes_on(stage, turn)
    assert len(stage.book.asked_for(story.prompt)) == 1
    await check_all(stage)
