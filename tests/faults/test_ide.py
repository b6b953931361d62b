"""What a browser does while a turn runs: reload, sleep, two tabs, a slow reader, a bad network. It sees everything."""

import asyncio

import pytest

from gadget_ai.testing.script import Reply, Text
from gadget_api.ids import new_id
from tests.faults.moments import Moment, Story, check_undisturbed, through
from tests.faults.oracles import check_all
from tests.faults.proxy import BLACK_HOLE, Way, Weather
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage
from tests.faults.story import always, logged_call
from tests.faults.watcher import Watcher


@moments(of=WHILE_IT_RUNS)
async def test_an_ide_that_loses_its_connection_misses_nothing(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        before = stage.watcher.connections
        stage.ide_link.reset()
        await stage.watcher.until(lambda: stage.watcher.connections > before)

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM, Moment.AT_END), of=WHILE_IT_RUNS)
async def test_an_ide_that_sleeps_through_the_rest_sees_it_when_it_wakes(stage: Stage, moment: Moment) -> None:
    async def meanwhile() -> None:
        if moment is not Moment.AT_END:  # there the end is held back until all is mended
            await stage.until_over(next(iter(stage.prompts)))
        stage.watcher.wake()

    story, turn = await through(stage, moment, stage.watcher.sleep, meanwhile)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM,), of=WHILE_IT_RUNS)
async def test_a_reload_and_a_second_tab_see_the_same(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    async with Watcher(stage.user, stage.web.url, stage.session["_id"]) as tab:
        await tab.until_connected()
        await tab.until(lambda: len(tab.view(turn)) >= len(stage.watcher.view(turn)))
        story.go_on(stage)
        await stage.heal()
        await stage.until_over(turn)
        await tab.until_event(turn, "workOrderComplete")
        stored = await stage.user.events(turn)
        assert tab.view(turn) == stored
        assert not tab.faults
    await check_all(stage)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "weather", [Weather(held=Way.DOWN), pytest.param(BLACK_HOLE, marks=full)], ids=["slow", "gone"]
)
async def test_an_ide_that_reads_nothing_holds_up_nobody(stage: Stage, weather: Weather) -> None:
    """10 MB pass an IDE that does not read; the turn does not wait for it, and it gets all later."""
    text = "All work and no play. " * 20_000

    def talk(attempt: int) -> Reply:
        return Reply(Text(text, 400), logged_call(new_id()))

    turn = await stage.prompt("Talk.", [*[talk] * 10, always(lambda: Reply(Text("Enough.")))])
    await stage.watcher.until_event(turn, "response")
    stage.ide_link.weather = weather
    assert (await stage.until_over(turn))["status"] == "finished"
    await stage.heal()
    await check_all(stage)


async def test_an_ide_on_a_flapping_link_sees_everything_once(stage: Stage) -> None:
    turn = await stage.prompt("Talk slowly.", [lambda _: Reply(Text("One word and another. " * 20, 60, 0.05))])
    stage.ide_link.flap(seed=3)
    assert (await stage.until_over(turn))["status"] == "finished"
    await asyncio.sleep(1)
    await stage.heal()
    await check_all(stage)
