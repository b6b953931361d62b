"""Files of `.gadget/` are damaged while the drone is down: moved aside, made anew, and said; no crash loop."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.moments import Moment, Story
from tests.faults.oracles import check_all
from tests.faults.selection import full
from tests.faults.stage import Stage
from tests.harness import until

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) * 2 // 3],
    "garbage": lambda data: data[: len(data) // 2] + b"\x00\xff{]\n" + data[len(data) // 2 :],
    "zeros": lambda data: b"\x00" * len(data),
}


async def _is_offline(stage: Stage) -> bool | None:
    found = await stage.drone.registration()
    return True if found is not None and found["status"] == "offline" else None


def _aside(stage: Stage) -> list[str]:
    return [path.name for path in stage.drone.gadget.glob("corrupt-*/*")]


@pytest.mark.parametrize("damage", ["garbage", *(pytest.param(d, marks=full) for d in ("empty", "cut", "zeros"))])
@pytest.mark.parametrize("name", ["work-order.json", "journal"])
async def test_a_damaged_file_of_a_turn_is_set_aside_and_the_turn_goes_on(stage: Stage, name: str, damage: str) -> None:
    story = Story(Moment.DURING_TOOL)
    turn = await story.reach(stage)
    await stage.kill_drone()
    path = stage.drone.gadget / (name if name != "journal" else f"journal/{turn}.ndjson")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    await stage.heal()
    document = await stage.until_over(turn)
    assert document["status"] == "finished", document
    assert stage.calls == [story.first, story.second], "a tool whose fate is not known was run again"
    told = [e["code"] for e in await stage.user.events(turn) if e["type"] == "notice" and e["epoch"] > 1]
    assert told, "the user is not told that the turn goes on without what was damaged"
    if damage == "garbage":  # what ends in the middle of a line is what any crash leaves
        assert path.name in _aside(stage), _aside(stage)
    await check_all(stage, asks_again=True)


@pytest.mark.parametrize("damage", ["empty", "cut", *(pytest.param(d, marks=full) for d in ("garbage", "zeros"))])
async def test_a_damaged_workspace_file_is_set_aside_and_the_drone_works_again(stage: Stage, damage: str) -> None:
    """Whether it finds its old identity or gets a new one: the next prompt is worked on."""
    await stage.kill_drone()
    await until(lambda: _is_offline(stage))
    path: Path = stage.drone.gadget / "workspace.json"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    await stage.heal()
    await stage.drone.until_available()
    assert "workspace.json" in _aside(stage)
    await stage.next_prompt_works()
    await check_all(stage)


async def test_a_drone_that_signs_in_by_address_and_has_lost_its_id_goes_on_with_its_turn(stage: Stage) -> None:
    """Its token would tell the server which drone it is; an address does not."""
    story = Story(Moment.DURING_TOOL)
    turn = await story.reach(stage)
    before = await stage.drone.registration()
    await stage.kill_drone()
    (stage.drone.gadget / "workspace.json").write_bytes(b"[" * 100_000)
    del stage.drone.env["GADGET_DRONE_TOKEN"]
    stage.drone.env |= {"GADGET_EMAIL": stage.user.email, "GADGET_PASSWORD": stage.user.password}
    await stage.heal()
    document = await stage.until_over(turn)
    assert document["status"] == "finished", document
    after = await stage.drone.registration()
    assert before is not None
    assert after is not None
    assert after["_id"] == before["_id"]
    assert len((await stage.user.get("/drones"))["items"]) == 1
    await check_all(stage, asks_again=True)
