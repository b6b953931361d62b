"""The network between drone and web service goes bad, at each moment of a turn."""

import asyncio

import pytest

from tests.faults.moments import Moment, check_undisturbed, through
from tests.faults.oracles import check_all, check_said_in_time
from tests.faults.proxy import BLACK_HOLE, Way, Weather
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage

_FOUND_DEAD_S = 20.0
"""15 s are promised, the rest is the machine's."""
_TOLD_S = 3.0
_FLAPS_S = 4.0


@moments()
async def test_a_link_that_is_reset_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.drone_link.reset()

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM, Moment.BETWEEN))
async def test_a_link_that_is_cut_for_a_while_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        since = len(stage.watcher.statuses)
        await stage.drone_link.cut()
        if moment is not Moment.BEFORE_ACCEPT:
            await check_said_in_time(stage, next(iter(stage.prompts)), _TOLD_S, since)

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@moments(quick=(Moment.DURING_TOOL, Moment.MID_STREAM), of=WHILE_IT_RUNS)
async def test_a_flapping_link_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.drone_link.flap(seed=list(Moment).index(moment))

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(_FLAPS_S))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@moments(quick=(Moment.DURING_TOOL,), of=WHILE_IT_RUNS)
async def test_a_link_that_swallows_everything_is_noticed_and_disturbs_no_turn(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        since = len(stage.watcher.statuses)
        stage.drone_link.weather = BLACK_HOLE
        await check_said_in_time(stage, next(iter(stage.prompts)), _FOUND_DEAD_S, since)

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", [Way.UP, Way.DOWN], ids=["towards the server", "towards the drone"])
async def test_a_half_open_link_is_noticed_and_disturbs_no_turn(stage: Stage, way: Way) -> None:
    async def strike() -> None:
        since = len(stage.watcher.statuses)
        stage.drone_link.weather = Weather(swallowed=way)
        await check_said_in_time(stage, next(iter(stage.prompts)), _FOUND_DEAD_S, since)

    story, turn = await through(stage, Moment.MID_STREAM, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM,), of=WHILE_IT_RUNS)
async def test_what_a_network_holds_for_a_while_comes_late_and_in_order(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        stage.drone_link.weather = Weather(held=Way.BOTH)

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(2))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@moments(quick=(Moment.BEFORE_ACCEPT,))
async def test_a_link_of_10_kb_a_second_is_slow_and_nothing_else(stage: Stage, moment: Moment) -> None:
    stage.drone_link.weather = Weather(bytes_per_s=10_000)

    async def strike() -> None:
        stage.drone_link.weather = Weather(bytes_per_s=10_000, delay_s=0.1)

    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(3))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.parametrize("after", [1000, 2500, *(pytest.param(n, marks=full) for n in (1, 300, 5000, 9000))])
async def test_a_link_that_breaks_after_so_many_bytes_disturbs_no_turn(stage: Stage, after: int) -> None:
    async def strike() -> None:
        stage.drone_link.cut_after(after)

    async def meanwhile() -> None:
        await stage.until_over(next(iter(stage.prompts)))

    story, turn = await through(stage, Moment.FIRST_TOKEN, strike, meanwhile)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)
