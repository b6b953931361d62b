"""MongoDB is killed, or answers nothing, at each moment of a turn: back-pressure, and nothing lost."""

import asyncio

import pytest

from gadget_ai.testing.script import Reply, Text
from tests.faults.moments import Act, Moment, Story, check_undisturbed, nothing, through, until_journaled
from tests.faults.oracles import check_all
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage
from tests.faults.story import always

_BUSY = (Moment.FIRST_TOKEN, Moment.MID_STREAM, Moment.DURING_TOOL, Moment.BETWEEN, Moment.AT_END)
_LONG_S = 60


def _kill(stage: Stage) -> Act:
    async def act() -> None:
        stage.mongo.kill()

    return act


def _freeze(stage: Stage) -> Act:
    async def act() -> None:
        stage.freeze(stage.mongo)

    return act


async def _drone_gets_to_the_end(stage: Stage, moment: Moment) -> None:
    """The drone needs no MongoDB until it wants its acknowledgements."""
    if moment in _BUSY:
        await until_journaled(stage, next(iter(stage.prompts)))


@moments(quick=(Moment.BEFORE_ACCEPT, Moment.MID_STREAM, Moment.AT_END, Moment.IN_RECOVERY))
async def test_a_killed_mongodb_loses_nothing(stage: Stage, moment: Moment) -> None:
    story, turn = await through(stage, moment, _kill(stage), lambda: _drone_gets_to_the_end(stage, moment))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@moments(quick=(Moment.MID_STREAM,))
async def test_a_mongodb_that_freezes_loses_nothing(stage: Stage, moment: Moment) -> None:
    story, turn = await through(stage, moment, _freeze(stage), lambda: _drone_gets_to_the_end(stage, moment))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@full
@pytest.mark.timeout(300)
@moments(of=WHILE_IT_RUNS)
@pytest.mark.parametrize("how", [_kill, _freeze], ids=["killed", "frozen"])
async def test_a_mongodb_that_is_away_for_a_minute_loses_nothing(stage: Stage, moment: Moment, how: object) -> None:
    strike = _kill(stage) if how is _kill else _freeze(stage)
    story, turn = await through(stage, moment, strike, lambda: asyncio.sleep(_LONG_S))
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("away_s", [3, pytest.param(_LONG_S, marks=full)])
async def test_a_prompt_that_is_refused_meanwhile_is_half_of_nothing(stage: Stage, away_s: int) -> None:
    """The same promptId makes one turn, however often it was sent while MongoDB was away."""
    stage.mongo.kill()
    story = Story(Moment.BEFORE_ACCEPT)
    sending = asyncio.create_task(story.reach(stage))
    await asyncio.wait([sending], timeout=away_s)
    assert not sending.done(), "it was accepted, and nothing was there to keep it"
    await stage.heal()
    turn = await sending
    await stage.until_over(turn)
    turns = (await stage.rest("GET", f"/sessions/{stage.session['_id']}/turns"))["items"]
    assert [found["_id"] for found in turns] == [turn]
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
async def test_what_was_accepted_is_there_when_mongodb_dies_at_that_moment(stage: Stage) -> None:
    turns = []
    for number in range(5):
        turns.append(await stage.prompt(f"Word {number}.", [always(lambda: Reply(Text("A word.")))]))
        stage.mongo.kill()
        await stage.start_mongo()
    for turn in turns:
        assert (await stage.until_over(turn))["status"] == "finished"
    await check_all(stage)


async def test_mongodb_and_the_web_service_die_together(stage: Stage) -> None:
    async def strike() -> None:
        stage.mongo.kill()
        stage.web.kill()

    story, turn = await through(stage, Moment.DURING_TOOL, strike, nothing)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


async def test_mongodb_dies_and_then_the_drone(stage: Stage) -> None:
    """What the drone had not handed over it hands over in its next life."""
    story = Story(Moment.BETWEEN)
    turn = await story.reach(stage)
    stage.mongo.kill()
    story.go_on(stage)
    await until_journaled(stage, turn)
    await stage.kill_drone()
    stage.drone_link.reset()
    await stage.heal()
    document = await stage.until_over(turn)
    assert (document["status"], document["response"]) == ("finished", "It is done."), document
    assert stage.calls == [story.first, story.second]
    assert len(stage.book.asked_for(story.prompt)) == 2
    await check_all(stage)
