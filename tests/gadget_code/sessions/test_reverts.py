"""Back to where a session was before a turn, and forward again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.sessions import ChatSession
from gadget_code.sessions.claims import CLAIM_S, RESTORE_S
from gadget_code.store.database import MongoStore
from gadget_drone.checkpoints.limits import CheckpointLimits
from tests.gadget_code.peers import (
    PlayedDrone,
    a_checkpoint,
    a_finished_turn,
    a_session,
    a_turn,
    a_web,
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


async def test_a_preview_shows_the_changes_and_makes_none(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    restores(drone)
    path = f"/sessions/{session['_id']}"
    before = await user.get(path)
    would = await user.post(f"{path}/revert", {"turn": turns[1], "preview": True})
    assert would == {"turns": turns[1:], "files": [CHANGE], "fileCount": 1, "leftAlone": []}
    assert restored(drone) == [("a", True)]
    assert await user.get(path) == before
    assert await reverted(user, session) == [False, False, False]


async def test_conversation_and_files_are_reverted_and_redone(user: User, drone: PlayedDrone) -> None:
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


async def test_a_prompt_after_a_revert_ends_the_redo(user: User, drone: PlayedDrone) -> None:
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


async def test_one_redo_undoes_two_reverts(user: User, drone: PlayedDrone) -> None:
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


async def test_reverting_only_files_keeps_the_conversation(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    done = await user.post(f"{path}/revert", {"turn": turns[2], "scope": "files"})
    assert (done["turns"], done["fileCount"], restored(drone)) == ([], 1, [("b", False)])
    assert await reverted(user, session) == [False, False, False]
    await user.post(f"{path}/redo", {})
    assert restored(drone)[1:] == [("d", False)]


async def test_a_refused_revert_names_its_reason(user: User, drone: PlayedDrone) -> None:
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
    await drone.until_offline()
    offline = problem(await user.http.post(f"{path}/revert", json={"turn": turns[1]}), 409, "droneOffline")
    assert "gadget-drone" in offline["detail"]
    done = await user.post(f"{path}/revert", {"turn": turns[1], "scope": "conversation"})
    assert done["turns"] == turns[1:]


async def test_the_diff_comes_from_the_drone_of_the_workspace(user: User, drone: PlayedDrone) -> None:
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


async def test_one_of_two_concurrent_reverts_succeeds(user: User, drone: PlayedDrone) -> None:
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


@asynccontextmanager
async def while_files_are_restored(
    user: User, drone: PlayedDrone, path: str, body: dict[str, Any]
) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """The drone restores files; it is done when the block is."""
    drone.holds["restoreFiles"] = asyncio.Event()
    asked = drone.count("restoreFiles")
    request = asyncio.create_task(user.http.post(path, json=body))

    async def is_asked() -> bool | None:
        return drone.count("restoreFiles") > asked or None

    await until(is_asked)
    yield request
    drone.holds.pop("restoreFiles").set()
    await request


async def is_held_back(user: User, turn: dict[str, Any]) -> None:
    async def is_said() -> bool | None:
        return "revert or redo" in ((await user.get(f"/turns/{turn['_id']}"))["statusReason"] or "") or None

    await until(is_said)


async def test_a_prompt_during_a_revert_waits_for_its_end(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    async with while_files_are_restored(user, drone, f"{path}/revert", {"turn": turns[1]}) as reverting:
        fourth = await a_turn(user, session, "four")
        await is_held_back(user, fourth)
        for verb, body in (("revert", {"turn": turns[2]}), ("redo", {})):
            answer = await user.http.post(f"{path}/{verb}", json=body)
            problem(answer, 409, "turnNotRunning" if verb == "revert" else "nothingToRedo")
    assert reverting.result().json()["turns"] == turns[1:]
    order = await drone.order(fourth["_id"])
    assert (order["session"]["historyVersion"], order["afterTurn"]) == (1, turns[0])
    assert await prompts_a_model_reads(user, drone, session) == ["one", "four"]
    assert await reverted(user, session) == [False, True, True, False]
    # It came after: what was taken back stays so, and its own work is not undone.
    assert (await user.get(path))["revert"] is None
    problem(await user.http.post(f"{path}/redo"), 409, "nothingToRedo")
    assert drone.count("restoreFiles") == 1


async def test_a_prompt_during_a_redo_reads_the_redone_turns(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    await user.post(f"{path}/revert", {"turn": turns[1]})
    async with while_files_are_restored(user, drone, f"{path}/redo", {}) as redoing:
        fourth = await a_turn(user, session, "four")
        await is_held_back(user, fourth)
        problem(await user.http.post(f"{path}/revert", json={"turn": turns[0]}), 409, "turnNotRunning")
    assert redoing.result().json()["turns"] == turns[1:]
    assert (await drone.order(fourth["_id"]))["afterTurn"] == turns[2]
    assert await prompts_a_model_reads(user, drone, session) == ["one", "two", "three", "four"]


async def test_a_prompt_through_another_process_waits_for_a_revert_too(mongodb_url: str, tmp_path: Path) -> None:
    settings = {"GADGET_DATABASE": f"t{new_id()}", "GADGET_SECRET_KEY_FILE": str(tmp_path / "secret.key")}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        a_web(tmp_path / "one", mongodb_url, **settings) as one,
        a_web(tmp_path / "two", mongodb_url, **settings) as two,
    ):
        async with await one.user() as user, PlayedDrone(user) as drone:
            session, turns = await three_turns(user, drone)
            path = f"/sessions/{session['_id']}"
            restores(drone, "d")
            async with User(two.url, user.email, user.password, user.token, user.document) as far:
                async with while_files_are_restored(user, drone, f"{path}/revert", {"turn": turns[1]}):
                    fourth = await a_turn(far, session, "four")
                    await is_held_back(far, fourth)
                    problem(await far.http.post(f"{path}/revert", json={"turn": turns[2]}), 409, "turnNotRunning")
                assert (await drone.order(fourth["_id"]))["afterTurn"] == turns[0]


async def test_a_revert_without_a_reply_reports_it_and_holds_prompts_back(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    async with while_files_are_restored(user, drone, f"{path}/revert", {"turn": turns[1]}) as reverting:
        await drone.disconnect()
        lost = problem(await reverting, 503, "droneOffline")
    assert "some may be restored and others not" in lost["detail"]
    assert await reverted(user, session) == [False, False, False]
    await drone.connect()
    await drone.report("available")
    fourth = await a_turn(user, session, "four")  # the drone may be at the files still
    await is_held_back(user, fourth)


async def test_a_refused_revert_holds_no_prompts(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    gone = {"code": "gitFailed", "message": "The disk is full.", "retryable": True}
    drone.answers["restoreFiles"] = {"ok": False, "error": gone}
    problem(await user.http.post(f"{path}/revert", json={"turn": turns[1]}), 409, "gitFailed")
    restores(drone, "d")
    await user.post(f"{path}/revert", {"turn": turns[1]})


async def test_files_can_be_reverted_after_their_conversation(user: User, drone: PlayedDrone) -> None:
    session, turns = await three_turns(user, drone)
    path = f"/sessions/{session['_id']}"
    restores(drone, "d")
    await user.post(f"{path}/revert", {"turn": turns[1], "scope": "conversation"})
    again = await user.http.post(f"{path}/revert", json={"turn": turns[1]})
    assert "`files`" in problem(again, 409, "nothingToRedo")["detail"]
    done = await user.post(f"{path}/revert", {"turn": turns[1], "scope": "files"})
    assert (done["turns"], done["fileCount"], restored(drone)) == ([], 1, [("a", False)])
    now = await user.get(path)
    assert now["revert"] == {**now["revert"], "turn": turns[1], "scope": "both", "redo": "d" * 40}
    await user.post(f"{path}/redo", {})
    assert restored(drone)[1:] == [("d", False)]
    assert await reverted(user, session) == [False, False, False]


def test_the_claim_outlasts_the_wait_for_a_restore_and_the_restore_itself() -> None:
    limits = CheckpointLimits()
    assert limits.restore_s + limits.diff_s < RESTORE_S < CLAIM_S


async def test_a_claim_expires_and_only_its_owner_releases_it(store: MongoStore) -> None:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "name": "n", "project": "p", "provider": "v"}
    session = await store.sessions.insert(ChatSession.model_validate({**base, "selected_model": "m"}))

    async def is_claimed() -> bool:
        found, claimed = await store.sessions.with_claim("u", session.id)
        assert found == session
        return claimed

    assert not await is_claimed()
    assert await store.sessions.claim(session.id, "one", 60.0) == session
    assert await is_claimed()
    assert await store.sessions.claim(session.id, "two", 60.0) is None
    await store.sessions.release_claim(session.id, "two")
    assert await is_claimed()
    # Its process died.
    await store.sessions.collection.update_one({}, {"$set": {"store.claim.until": utc_now() - timedelta(seconds=1)}})
    assert not await is_claimed()
    assert await store.sessions.claim(session.id, "two", 60.0) == session
    await store.sessions.release_claim(session.id, "two")
    assert not await is_claimed()
