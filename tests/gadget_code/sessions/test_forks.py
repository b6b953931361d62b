"""A fork begins with what another session said, and shares nothing with it."""

import asyncio
from typing import Any

from gadget_api.ids import new_id
from tests.gadget_code.peers import PlayedDrone, a_checkpoint, a_finished_turn, a_session, a_turn, problem
from tests.harness import User

CALL = {
    "type": "toolCall",
    "callId": "c1",
    "name": "shell",
    "params": {"a.b": {"$set": 1}},
    "response": "cut",
    "isError": False,
    "durationMs": 5,
    "blob": {"blobId": "b1", "sizeBytes": 5},
}


async def history(user: User, turn: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = (await user.get(f"/turns/{turn}/steps"))["items"]
    return steps


async def test_a_fork_keeps_turns_steps_and_blobs_when_its_source_is_deleted(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user, name="the source", level="ask", budget={"usd": 2.0})
    delta = {"type": "response", "content": "Ans"}
    first = await a_finished_turn(user, drone, session, "one", delta, CALL, a_checkpoint("a"))
    headers = {"Authorization": f"Bearer {drone.token}"}
    await user.http.put(f"/turns/{first['_id']}/blobs/b1", content=b"whole", headers=headers)
    second = await a_finished_turn(user, drone, session, "two")
    await a_finished_turn(user, drone, session, "three")
    forked = await user.post(f"/sessions/{session['_id']}/fork", {"turn": second["_id"]})
    assert forked["forkedFrom"] == {"session": session["_id"], "turn": second["_id"]}
    assert (forked["name"], forked["level"], forked["budget"]["usd"]) == ("the source (fork)", "ask", 2.0)
    turns = (await user.get(f"/sessions/{forked['_id']}/turns"))["items"][::-1]
    assert [turn["prompts"]["user"] for turn in turns] == ["one", "two"]
    assert {turn["session"] for turn in turns} == {forked["_id"]}
    before = await history(user, first["_id"])
    assert (await user.http.delete(f"/sessions/{session['_id']}")).status_code == 204
    copied = await history(user, turns[0]["_id"])
    own = {"turnId": turns[0]["_id"], "chatSessionId": forked["_id"]}
    assert copied == [{**event, **own} for event in before]
    assert (await user.http.get(f"/turns/{turns[0]['_id']}/blobs/b1")).content == b"whole"
    assert [e["type"] for e in await user.events(turns[0]["_id"])] == [
        "toolCall",
        "checkpoint",
        "step",
        "workOrderComplete",
    ]
    # It goes on: its next turn reads what it began with.
    turn = await a_turn(user, forked, "four")
    order = await drone.order(turn["_id"])
    assert order["afterTurn"] == turns[1]["_id"]
    assert order["sessionSpent"]["usd"] == 0  # the other session paid for it
    context = (await user.http.get(f"/sessions/{forked['_id']}/context", headers=headers)).json()
    assert [item["messages"][0]["content"] for item in context["items"]] == ["one", "two", "four"]


async def test_reverted_and_unfinished_turns_are_not_forked(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    path = f"/sessions/{session['_id']}"
    problem(await user.http.post(f"{path}/fork", json={}), 409, "turnNotRunning")
    await a_finished_turn(user, drone, session, "one")
    second = await a_finished_turn(user, drone, session, "two")
    await user.post(f"{path}/revert", {"turn": second["_id"], "scope": "conversation"})
    running = await a_turn(user, session, "three")
    for turn in (second, running):
        problem(await user.http.post(f"{path}/fork", json={"turn": turn["_id"]}), 409, "turnNotRunning")
    problem(await user.http.post(f"{path}/fork", json={"turn": new_id()}), 404, "notFound")
    forked = await user.post(f"{path}/fork", {"name": "mine"})
    assert forked["name"] == "mine"
    turns = (await user.get(f"/sessions/{forked['_id']}/turns"))["items"]
    assert [turn["prompts"]["user"] for turn in turns] == ["one"]


async def test_a_prompt_takes_an_archived_session_out_of_the_archive(user: User) -> None:
    kept, archived = await asyncio.gather(a_session(user), a_session(user))
    path = f"/sessions/{archived['_id']}"
    changed = (await user.http.patch(path, json={"archived": True})).json()
    assert changed["archivedAt"] is not None
    assert (await user.http.patch(path, json={"archived": True})).json()["archivedAt"] == changed["archivedAt"]
    assert [s["_id"] for s in (await user.get("/sessions"))["items"]] == [kept["_id"]]
    assert [s["_id"] for s in (await user.get("/sessions", archived="true"))["items"]] == [archived["_id"]]
    assert (await user.http.patch(path, json={"archived": False})).json()["archivedAt"] is None
    assert len((await user.get("/sessions"))["items"]) == 2
    await user.http.patch(path, json={"archived": True})
    await a_turn(user, archived)  # who goes on with it wants it back
    assert len((await user.get("/sessions"))["items"]) == 2
