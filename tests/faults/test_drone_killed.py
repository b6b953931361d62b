"""The drone is killed, at each moment of a turn."""

import pytest

from tests.faults.moments import PLAN, Moment, Story
from tests.faults.oracles import check_all, check_goes_on, check_said_in_time
from tests.faults.stage import Stage

TOLD_S = 3.0
"""2 s are promised, one is the machine's."""


@pytest.mark.parametrize("moment", [m for m in Moment if m is not Moment.BEFORE_ACCEPT])
async def test_a_killed_drone_goes_on_with_its_turn(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    told = len(stage.watcher.statuses)
    await stage.kill_drone()
    stage.drone_link.reset()  # what the network held is lost with it
    await check_said_in_time(stage, turn, TOLD_S, since=told)
    story.go_on(stage)
    await stage.heal()
    document = await stage.until_over(turn)
    assert document["status"] == "finished", document
    stored = await stage.user.events(turn)
    results = {event["callId"]: event for event in stored if event["type"] == "toolCall"}
    if moment in (Moment.DURING_TOOL, Moment.IN_RECOVERY):
        assert results[story.second]["isError"]
        assert "outcome unknown" in results[story.second]["response"]
        assert stage.calls == [story.first, story.second]
    else:
        assert not any(result["isError"] for result in results.values())
    cut = {Moment.FIRST_TOKEN: 1, Moment.MID_STREAM: 1, Moment.BETWEEN: 1, Moment.IN_RECOVERY: 1}
    assert len(stage.book.asked_for(story.prompt)) <= PLAN + cut.get(moment, 0)
    await check_all(stage)


async def test_the_text_that_a_death_cut_off_is_kept_and_marked(stage: Stage) -> None:
    """C: a reader of the stream can tell what was cut off from what was said again."""
    story = Story(Moment.MID_STREAM)
    turn = await story.reach(stage)
    await stage.kill_drone()
    story.go_on(stage)
    await stage.heal()
    await stage.until_over(turn)
    stored = await stage.user.events(turn)
    before = [event for event in stored if event["epoch"] == 1]
    assert "I begin." in "".join(str(event["content"]) for event in before if event["type"] == "response")
    step = next(event["seq"] for event in stored if event["type"] == "step")
    marks = [e["code"] for e in stored if e["type"] == "notice" and e["epoch"] == 2 and e["seq"] < step]
    assert marks, "C: nothing says that the text before was cut off"


async def test_a_prompt_for_a_killed_drone_waits_and_runs_once(stage: Stage) -> None:
    story = Story(Moment.BEFORE_ACCEPT)
    await stage.kill_drone()
    turn = await story.reach(stage)
    await check_said_in_time(stage, turn, TOLD_S, since=0)
    assert (await stage.turn(turn))["status"] == "queued"
    await stage.heal()
    assert (await stage.until_over(turn))["status"] == "finished"
    assert len(stage.book.asked_for(story.prompt)) == PLAN
    await check_goes_on(stage, turn)
    await check_all(stage)


async def test_a_prompt_that_meets_the_drones_death_is_not_lost(stage: Stage) -> None:
    story = Story(Moment.BEFORE_ACCEPT)
    turn = await story.reach(stage)
    await stage.kill_drone()
    await stage.heal()
    assert (await stage.until_over(turn))["status"] == "finished"
    await check_all(stage)


async def test_ten_deaths_in_a_row_in_recovery_repeat_nothing(stage: Stage) -> None:
    story = Story(Moment.DURING_TOOL)
    turn = await story.reach(stage)
    for death in range(1, 11):
        await stage.kill_drone()
        await stage.start_drone()
        epoch = death + 1
        await stage.until_turn(turn, lambda document, epoch=epoch: document["epoch"] >= epoch)  # type: ignore[misc]
    document = await stage.until_over(turn)
    assert document["status"] == "finished", document
    assert stage.calls == [story.first, story.second]
    await check_all(stage)
