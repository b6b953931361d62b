"""Cancel, at each moment of a turn: one end, in time, and nothing runs on."""

import asyncio

import pytest

from tests.faults.moments import Moment, Story
from tests.faults.oracles import check_all
from tests.faults.selection import WHILE_IT_RUNS, full, moments
from tests.faults.stage import Stage

_VISIBLE_S = 2.0
"""1 s is promised, one is the machine's."""
_EFFECTIVE_S = 7.0
"""5 s are promised."""


async def _cancel(stage: Stage, turn: str) -> None:
    await stage.rest("POST", f"/turns/{turn}/cancel", {})


@moments(of=WHILE_IT_RUNS)
async def test_a_cancel_ends_the_turn_once_and_what_it_ran(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    since = len(stage.watcher.statuses)
    cancelling = asyncio.create_task(_try_cancel(stage, turn))
    if moment is not Moment.AT_END:
        await stage.watcher.until(
            lambda: any(t["cancelRequested"] or t["status"] == "cancelled" for _, t in stage.watcher.statuses[since:]),
            _VISIBLE_S,
        )
    else:
        await stage.heal()
    was_taken = await cancelling
    document = await stage.until_over(turn, _EFFECTIVE_S + 10 * (moment is Moment.IN_RECOVERY))
    if moment is not Moment.AT_END:  # there whichever was first
        assert was_taken
        assert document["status"] == "cancelled", document
    await stage.until_no_orphans()
    if moment in (Moment.FIRST_TOKEN, Moment.MID_STREAM):
        await stage.model.wait_disconnected()
    story.go_on(stage)
    await stage.heal()
    await check_all(stage)


async def _try_cancel(stage: Stage, turn: str) -> bool:
    answer = await stage.user.http.post(f"/turns/{turn}/cancel", json={})
    assert answer.status_code in (200, 202, 204, 409), answer.text
    return answer.is_success


async def test_a_turn_that_is_cancelled_before_anybody_takes_it_never_runs(stage: Stage) -> None:
    story = Story(Moment.BEFORE_ACCEPT)
    await stage.kill_drone()
    turn = await story.reach(stage)
    await _cancel(stage, turn)
    await stage.heal()
    assert (await stage.until_over(turn))["status"] == "cancelled"
    await stage.drone.until_available()
    assert stage.book.asked_for(story.prompt) == []
    await check_all(stage)


@moments(quick=(Moment.DURING_TOOL, Moment.MID_STREAM), of=WHILE_IT_RUNS)
async def test_a_cancel_holds_though_the_drone_dies_at_that_moment(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    cancelling = asyncio.create_task(_try_cancel(stage, turn))
    await stage.watcher.until(
        lambda: any(t["_id"] == turn and t["cancelRequested"] for _, t in stage.watcher.statuses) or cancelling.done()
    )
    await stage.kill_drone()
    stage.drone_link.reset()
    await stage.heal()
    await cancelling
    document = await stage.until_over(turn)
    assert document["status"] == "cancelled" or moment is Moment.AT_END, document
    story.go_on(stage)
    await check_all(stage)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moment", [Moment.MID_STREAM, pytest.param(Moment.DURING_TOOL, marks=full)])
async def test_a_cancel_over_a_dead_link_ends_the_turn_at_the_service(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    await stage.drone_link.cut()
    await _cancel(stage, turn)
    assert (await stage.until_over(turn, 20))["status"] == "cancelled"
    await stage.heal()
    await stage.drone.until_available()
    await stage.until_no_orphans()
    story.go_on(stage)
    await check_all(stage)
