"""Back to where a session was before a turn, and forward again."""

import asyncio
from typing import Any

from gadget_api.ids import new_id
from tests.gadget_code.peers import (
    PlayedDrone,
    a_checkpoint,
    a_finished_turn,
    a_session,
    a_turn,
    problem,
)
from tests.harness import Ide, User, until

CHANGE = {"path": "a.py", "oldPath": None, "status": "modified", "added": 1, "removed": 2}


def restores(drone: PlayedDrone, before: str | None = None) -> None:
    drone.answers["restoreFiles"] = {
        "ok": True,
        "files": [CHANGE],
        "fileCount": 1,
        "before": before and before * 40,
    }


def restored(drone: PlayedDrone) -> list[tuple[str, bool]]:
    asks = [payload for name, payload in drone.received if name == "restoreFiles"]
    return [(ask["checkpoint"][0], ask["preview"]) for ask in asks]


async def three_turns(user: User, drone: PlayedDrone) -> tuple[dict[str, Any], list[str]]:
    """A session with three turns that are over; the second and third changed files."""
    session = await a_session(user)
    await a_finished_turn(user, drone, session, "one")
    await a_finished_turn(user, drone, session, "two", a_checkpoint("a"), a_checkpoint("b", "a", 1))
    await a_finished_turn(user, drone, session, "three", a_checkpoint("c", "b", 1))
    turns = (await user.get(f"/sessions/{session['_id']}/turns"))["items"]
    return session, [turn["_id"] for turn in reversed(turns)]


async def reverted(user: User, session: dict[str, Any]) -> list[bool]:
    turns = (await user.get(f"/sessions/{session['_id']}/turns"))["items"]
    return [turn["reverted"] for turn in reversed(turns)]


async def prompts_a_model_reads(user: User, drone: PlayedDrone, session: dict[str, Any]) -> list[str]:
    """What the history has before the turn that runs."""
    headers = {"Authorization": f"Bearer {drone.token}"}

    async def page() -> Any:
        answer = await user.http.get(f"/sessions/{session['_id']}/context", headers=headers)
        return answer.json() if answer.is_success else None

    return [item["messages"][0]["content"] for item in (await until(page))["items"]]


async def test_a_preview_says_what_would_be_and_changes_nothing(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    restores(drone)
    path = f"/sessions/{session['_id']}"
    before = await user.get(path)
    would = await user.post(f"{path}/revert", {"turn": turns[1], "preview": True})
    assert would == {"turns": turns[1:], "files": [CHANGE], "fileCount": 1, "leftAlone": []}
    assert restored(drone) == [("a", True)]
    assert await user.get(path) == before
    assert await reverted(user, session) == [False, False, False]


async def test_conversation_and_files_go_back_and_forward(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    async with Ide(user) as ide:
        done = await user.post(f"{path}/revert", {"turn": turns[1]})
        assert done == {"turns": turns[1:], "files": [CHANGE], "fileCount": 1, "leftAlone": []}
        await ide.until(lambda name, p: name == "sessionUpdated" and p["session"]["revert"] is not None)
        await ide.until(lambda name, p: name == "turnStatus" and p["turn"]["reverted"])
    now = await user.get(path)
    assert now["revert"] == {**now["revert"], "turn": turns[1], "scope": "both", "redo": "d" * 40}
    assert now["historyVersion"] == 1
    assert await reverted(user, session) == [False, True, True]
    restores(drone, "e")
    back = await user.post(f"{path}/redo", {})
    assert back == {"turns": turns[1:], "files": [CHANGE], "fileCount": 1, "leftAlone": []}
    assert restored(drone) == [("a", False), ("d", False)]
    now = await user.get(path)
    assert (now["revert"], now["historyVersion"]) == (None, 2)
    assert await reverted(user, session) == [False, False, False]
    problem(await user.http.post(f"{path}/redo"), 409, "nothingToRedo")


async def test_a_prompt_goes_on_from_there_and_ends_what_can_be_redone(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    await user.post(f"{path}/revert", {"turn": turns[1], "scope": "conversation"})
    assert restored(drone) == []
    fourth = await a_turn(user, session, "four")
    order = await drone.order(fourth["_id"])
    assert (order["session"]["historyVersion"], order["afterTurn"]) == (1, turns[0])
    assert await prompts_a_model_reads(user, drone, session) == ["one", "four"]
    assert (await user.get(path))["revert"] is None
    problem(await user.http.post(f"{path}/redo"), 409, "nothingToRedo")
    problem(await user.http.post(f"{path}/revert", json={"turn": turns[0]}), 409, "turnNotRunning")


async def test_going_back_twice_is_brought_forward_at_once_and_no_more_than_that(
    user: User, drone: PlayedDrone
) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    await user.post(f"{path}/revert", {"turn": turns[2], "scope": "conversation"})
    await a_finished_turn(user, drone, session, "four")  # the third is gone for good
    restores(drone, "d")
    fourth = (await user.get(f"{path}/turns"))["items"][0]["_id"]
    await user.post(f"{path}/revert", {"turn": fourth, "scope": "conversation"})
    await user.post(f"{path}/revert", {"turn": turns[1]})
    assert restored(drone) == [("a", False)]
    assert await reverted(user, session) == [False, True, True, True]
    now = await user.get(path)
    assert now["revert"] == {**now["revert"], "turn": turns[1], "scope": "both", "redo": "d" * 40}
    await user.post(f"{path}/redo", {})
    assert restored(drone)[1:] == [("d", False)]
    assert await reverted(user, session) == [False, False, True, False]


async def test_files_alone_leave_the_conversation(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    done = await user.post(f"{path}/revert", {"turn": turns[2], "scope": "files"})
    assert (done["turns"], done["fileCount"], restored(drone)) == ([], 1, [("b", False)])
    assert await reverted(user, session) == [False, False, False]
    await user.post(f"{path}/redo", {})
    assert restored(drone)[1:] == [("d", False)]


async def test_what_cannot_be_taken_back_says_why(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    bare = await a_session(user)
    turn = await a_finished_turn(user, drone, bare)
    wrong = await user.http.post(f"/sessions/{bare['_id']}/revert", json={"turn": turn["_id"], "scope": "files"})
    problem(wrong, 409, "checkpointsOff")
    problem(await user.http.post(f"{path}/revert", json={"turn": turn["_id"]}), 404, "notFound")
    problem(await user.http.post(f"{path}/revert", json={"turn": new_id()}), 404, "notFound")
    gone = {"code": "checkpointGone", "message": "It is not kept any more.", "retryable": False}
    drone.answers["restoreFiles"] = {"ok": False, "error": gone}
    problem(await user.http.post(f"{path}/revert", json={"turn": turns[1]}), 409, "checkpointGone")
    assert await reverted(user, session) == [False, False, False]
    assert (await user.get(path))["revert"] is None
    await drone.disconnect()
    offline = problem(await user.http.post(f"{path}/revert", json={"turn": turns[1]}), 409, "droneOffline")
    assert "gadget-drone" in offline["detail"]
    done = await user.post(f"{path}/revert", {"turn": turns[1], "scope": "conversation"})
    assert done["turns"] == turns[1:]


async def test_a_diff_is_asked_of_the_drone_that_has_the_files(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    diff = {"files": [{**CHANGE, "diff": "@@", "truncated": False}], "fileCount": 1, "truncated": False}
    drone.answers["readDiff"] = {"ok": True, "diff": diff}
    none = {"files": [], "fileCount": 0, "truncated": False}
    assert await user.get(f"/turns/{turns[0]}/diff") == none
    of_session = f"/sessions/{session['_id']}/diff"
    for path, params, since, until_ in (
        (f"/turns/{turns[1]}/diff", {}, "a" * 40, "b" * 40),
        (of_session, {}, "a" * 40, None),
        (of_session, {"scope": "uncommitted"}, None, None),
    ):
        assert await user.get(path, **params) == diff
        asked = [payload for name, payload in drone.received if name == "readDiff"][-1]
        assert (asked["since"], asked["until"], asked["project"]["_id"]) == (since, until_, session["project"])
    drone.answers["readDiff"] = {"ok": True, "diff": {"files": "?"}}
    answer = await user.http.get(f"/turns/{turns[1]}/diff")
    problem(answer, 503, "droneOffline")


async def test_of_two_reverts_at_once_one_does(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    restores(drone, "d")
    answers = await asyncio.gather(
        *(user.http.post(f"/sessions/{session['_id']}/revert", json={"turn": turns[1]}) for _ in range(4))
    )
    assert sorted(answer.status_code for answer in answers)[0] == 200
    assert all(answer.status_code in (200, 409) for answer in answers)
    redo = (await user.get(f"/sessions/{session['_id']}"))["revert"]["redo"]
    assert redo == "d" * 40
    assert await reverted(user, session) == [False, True, True]
