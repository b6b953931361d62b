"""A turn whose drone is lost goes on at another; the first one works on, comes back, and is told that it is late."""

import pytest

from gadget_api.ids import new_id
from tests.faults.moments import Moment, Story, until_journaled
from tests.faults.oracles import check_all
from tests.faults.selection import moments
from tests.faults.stage import Stage, drone_at
from tests.harness import until

_WHEN = (Moment.FIRST_TOKEN, Moment.MID_STREAM, Moment.DURING_TOOL, Moment.BETWEEN, Moment.AT_END)


@pytest.mark.timeout(240)
@moments(quick=(Moment.DURING_TOOL, Moment.AT_END), of=_WHEN)
async def test_a_drone_that_was_given_up_and_comes_back_changes_nothing(stage: Stage, moment: Moment) -> None:
    story = Story(moment)
    turn = await story.reach(stage)
    await stage.drone_link.cut()
    second = await drone_at(stage.directory / new_id(), stage.user, stage.web.url)
    try:
        await until(lambda: _is_lost(stage))
        await stage.rest("POST", f"/turns/{turn}/continue", {})
        story.go_on(stage)
        await until_journaled(stage, turn)
        document = await stage.until_over(turn)
        assert document["status"] == "finished", document
        before = await stage.user.events(turn)
        await stage.heal()
        await stage.drone.until_available()
        assert await stage.user.events(turn) == before, "what the first drone said late is in the turn"
        assert not list((stage.drone.gadget / "journal").iterdir())
        epochs = {event["epoch"] for event in before}
        assert document["epoch"] == max(epochs)
    finally:
        second.stop()
    assert "Traceback" not in second.output, second.output
    # Both asked: the first did not know that it was not wanted any more.
    await check_all(stage, asks_again=True)


async def _is_lost(stage: Stage) -> bool | None:
    found = await stage.drone.registration()
    return True if found is not None and found["status"] == "offline" else None
