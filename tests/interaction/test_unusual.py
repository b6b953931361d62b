"""A turn that uses far more than others is noticed: it goes on, every client shows it, its user is asked to look."""

from collections.abc import Iterator
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from tests.gadget_code.peers import a_web
from tests.harness import Ide, Web, until
from tests.interaction.conftest import HELD


@pytest.fixture(scope="module")
def web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with a_web(tmp_path_factory.mktemp("web"), mongodb_url, GADGET_UNUSUAL_TURN='{"steps": 4}') as process:
        yield process


def calls(n: int, *, held: tuple[int, ...] = ()) -> Script:
    """A turn of `n` ever different calls; it waits in those of the numbers `held`."""

    def answer(request: RequestView) -> Reply:
        last = max(i for i, message in enumerate(request.messages) if message["role"] == "user")
        done = sum(message["role"] == "tool" for message in request.messages[last:])
        if done == n:
            return Reply(Text("Done."))
        return Reply(Call("shell", {"command": HELD if done in held else f"echo {done}"}))

    return Script(answer)


async def noticed(stage: Any, turn: str) -> list[dict[str, Any]]:
    events = await stage.user.events(turn)
    return [event for event in events if event["type"] == "notice" and event["code"] == "turnUnusual"]


async def listed(stage: Any) -> dict[str, Any]:
    [session] = (await stage.user.get("/sessions"))["items"]
    latest: dict[str, Any] = session["latestTurn"]
    return latest


async def test_a_runaway_is_noticed_at_each_doubling_and_goes_on(stage_for: Any) -> None:
    stage = await stage_for(calls(20))
    turn = await stage.ide.submit(stage.session["_id"], "Go round.")
    assert (await stage.ide.until_complete(turn["_id"]))["success"] is True
    notices = await noticed(stage, turn["_id"])
    assert [event["level"] for event in notices] == ["warning"] * 3
    for event, count in zip(notices, (4, 8, 16), strict=True):
        assert f"{count} model calls" in event["message"]
    shown = [event for event in stage.ide.events(turn["_id"]) if event.get("code") == "turnUnusual"]
    assert shown == notices
    over = await stage.user.until_over(turn["_id"])
    assert over["unusualAt"] is None
    assert (await listed(stage))["unusualAt"] is None
    # From now on that is usual: the same again is no runaway.
    again = await stage.ide.submit(stage.session["_id"], "Once more.")
    assert (await stage.ide.until_complete(again["_id"]))["stats"]["stepCount"] == 21
    assert await noticed(stage, again["_id"]) == []


async def test_its_user_is_told_wherever_he_is_and_a_look_takes_the_mark_away(stage_for: Any) -> None:
    stage = await stage_for(calls(10, held=(5, 9)))
    async with Ide(stage.user) as elsewhere:  # it watches no session
        turn = await stage.ide.submit(stage.session["_id"], "Go round.")

        async def marked(is_marked: bool) -> bool | None:
            said = [p["turn"] for name, p in elsewhere.received if name == "turnStatus"]
            return True if said and (said[-1]["unusualAt"] is not None) is is_marked else None

        await until(lambda: marked(True))
        assert (await stage.user.get(f"/turns/{turn['_id']}"))["unusualAt"] is not None
        assert (await listed(stage))["unusualAt"] is not None
        answer = await stage.user.http.post(f"/turns/{turn['_id']}/seen")
        assert answer.is_success, answer.text
        await until(lambda: marked(False))
        assert (await listed(stage))["unusualAt"] is None
        await stage.let_go()
        await until(lambda: marked(True))  # it has used twice as much
        assert len(await noticed(stage, turn["_id"])) == 2
        await stage.let_go()
        await stage.ide.until_complete(turn["_id"])
        assert (await stage.user.until_over(turn["_id"]))["unusualAt"] is None


async def test_an_ordinary_turn_has_no_notice(stage_for: Any) -> None:
    stage = await stage_for(calls(2))
    turn = await stage.ide.submit(stage.session["_id"], "Go.")
    await stage.ide.until_complete(turn["_id"])
    assert await noticed(stage, turn["_id"]) == []
