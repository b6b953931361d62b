"""A prompt goes from a client to a drone, works on a real repository, and comes back stored."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text, Think
from gadget_api.events import SHOWN_TYPES
from gadget_api.messages import Usage
from tests.harness import User, git, until
from tests.interaction.conftest import HELD

MEND = [
    Reply(
        Think("I look first.", deltas=3),
        Text("Let me see.", deltas=2),
        Call("read", {"path": "app.py"}, deltas=4),
        Usage(input_tokens=100, cached_input_tokens=40, response_tokens=10, thinking_token_count=4),
    ),
    Reply(
        Call("edit", {"path": "app.py", "old_text": "return 41", "new_text": "return 42"}),
        Call("shell", {"command": "python3 -c 'import app; print(app.answer())'"}),
        Usage(input_tokens=200, response_tokens=20),
    ),
    Reply(Text("It is 42 now.", deltas=5), Usage(input_tokens=300, response_tokens=30)),
]
PRICE = {"input": 1.0, "cachedInput": 0.5, "output": 10.0}


@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_a_turn_changes_the_repository_and_everybody_agrees_on_what_happened(stage_for: Any, api: str) -> None:
    stage = await stage_for(Script(MEND), api=api, price=PRICE)
    journal = stage.drone.gadget / "journal"

    turn = await stage.ide.submit(stage.session["_id"], "Make it 42.")
    end = await stage.ide.until_complete(turn["_id"])

    assert end["success"] is True
    assert (stage.checkout / "app.py").read_text() == "def answer():\n    return 42\n"
    assert git(stage.checkout, "status", "--porcelain") == " M app.py\n"
    document = await stage.user.until_over(turn["_id"])
    stored = await stage.user.events(turn["_id"])
    # The store and the watcher agree, event for event.
    assert stage.ide.events(turn["_id"]) == stored
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    assert [event["type"] for event in stored].count("workOrderComplete") == 1
    assert stored[-1]["type"] == "workOrderComplete"
    # The deltas say what the steps say.
    steps = [event for event in stored if event["type"] == "step"]
    assert [step["index"] for step in steps] == [1, 2, 3]
    for kind, field in (("response", "content"), ("thinking", "thinking")):
        said = "".join(event["content"] for event in stored if event["type"] == kind)
        assert said == "".join(step["message"][field] for step in steps)
    results = [event for event in stored if event["type"] == "toolCall"]
    assert [result["name"] for result in results] == ["read", "edit", "shell"]
    assert "42" in results[2]["response"]
    assert not any(result["isError"] for result in results)
    # The turn's figures are true.
    assert document["status"] == "finished"
    assert document["response"] == "It is 42 now."
    stats = document["stats"]
    assert stats == end["stats"]
    assert (stats["toolCallCount"], stats["inputTokens"], stats["responseTokens"]) == (3, 600, 60)
    if api == "openai":  # Ollama reports neither
        assert (stats["cachedInputTokens"], stats["thinkingTokenCount"]) == (40, 4)
        assert stats["cost"] == pytest.approx((560 * 1.0 + 40 * 0.5 + 60 * 10.0) / 1e6)
    assert stats["durationMs"] > 0
    assert stats["durationLabel"] != "pending"
    assert document["lastSeq"] == stored[-1]["seq"]

    # When the end is acknowledged the drone keeps nothing of the turn.
    async def let_go() -> bool | None:
        return True if not list(journal.iterdir()) and not (stage.drone.gadget / "work-order.json").exists() else None

    await until(let_go)
    await stage.drone.until_available()
    whole = await stage.user.get(f"/turns/{turn['_id']}/steps")
    assert whole["items"] == [event for event in stored if event["type"] in SHOWN_TYPES]


async def test_the_journal_the_store_and_a_watcher_agree_while_the_turn_runs(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("one"), Call("shell", {"command": HELD})), Reply(Text("two"))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait a little.")
    await stage.ide.until(lambda name, p: name == "toolStarted")

    def journaled() -> list[dict[str, Any]]:
        lines = (stage.drone.gadget / "journal" / f"{turn['_id']}.ndjson").read_bytes().splitlines()
        return [line for line in map(orjson.loads, lines) if "acked" not in line]

    async def all_stored() -> list[dict[str, Any]] | None:
        stored = await stage.user.events(turn["_id"])
        return stored if len(stored) == len(journaled()) else None

    stored = await until(all_stored)
    assert journaled() == stored == stage.ide.events(turn["_id"])
    await stage.let_go()
    await stage.ide.until_complete(turn["_id"])


async def test_the_next_turn_is_sent_the_whole_history_and_repeats_the_request_before(stage_for: Any) -> None:
    stage = await stage_for(Script([*MEND, Reply(Text("Yes."))]))
    first = await stage.ide.submit(stage.session["_id"], "Make it 42.")
    await stage.ide.until_complete(first["_id"])
    second = await stage.ide.submit(stage.session["_id"], "Are you sure?")
    await stage.ide.until_complete(second["_id"])

    last = stage.model.requests[-1]
    roles = [message["role"] for message in last.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "tool", "assistant", "user"]
    assert last.messages[2]["content"] == "<thinking>I look first.</thinking>\nLet me see."
    assert last.messages[-1]["content"] == "Are you sure?"
    for before, after in zip(stage.model.requests, stage.model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


async def test_what_a_drone_keeps_of_a_turn_is_what_it_would_be_told(stage_for: Any) -> None:
    stage = await stage_for(
        Script([*MEND, Reply(Text("Yes.")), Reply(Call("shell", {"command": "echo y"})), Reply(Text("It is.")), *MEND])
    )
    for prompt in ("Make it 42.", "/compact", "Are you sure?"):
        turn = await stage.ide.submit(stage.session["_id"], prompt)
        assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    kept = stage.model.requests[-1].messages
    await stage.drone.until_available()
    assert stage.drone.stop() == 0
    stage.drone.start()
    await stage.drone.until_available()
    turn = await stage.ide.submit(stage.session["_id"], "Once more.")
    await stage.user.until_over(turn["_id"])
    fetched = next(r.messages for r in stage.model.requests if r.messages[-1]["content"] == "Once more.")
    assert fetched[: len(kept)] == kept


async def test_a_restarted_drone_fetches_the_history_it_no_longer_has(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("First answer.")), Reply(Text("Second answer."))]))
    first = await stage.ide.submit(stage.session["_id"], "First question.")
    await stage.ide.until_complete(first["_id"])
    await stage.user.until_over(first["_id"])
    await stage.drone.until_available()
    assert stage.drone.stop() == 0
    # The token that it was started with is its own now.
    stage.drone.start()
    await stage.drone.until_available()
    second = await stage.ide.submit(stage.session["_id"], "Second question.")
    await stage.ide.until_complete(second["_id"])

    said = [message["content"] for message in stage.model.requests[-1].messages[1:]]
    assert said == ["First question.", "First answer.", "Second question."]


async def test_an_unknown_tool_and_bad_arguments_answer_the_model_and_the_turn_goes_on(stage_for: Any) -> None:
    stage = await stage_for(
        Script(
            [
                Reply(Call("teleport", {"to": "mars"})),
                Reply(Call("read", {"file": "app.py"})),
                Reply(Call("read", arguments='{"path": "app')),
                Reply(Text("I give up.")),
            ]
        )
    )
    turn = await stage.ide.submit(stage.session["_id"], "Go on.")
    end = await stage.ide.until_complete(turn["_id"])
    assert end["success"] is True
    results = [event for event in await stage.user.events(turn["_id"]) if event["type"] == "toolCall"]
    assert [result["isError"] for result in results] == [True, True, True]
    assert "teleport" in results[0]["response"]
    assert "path" in results[1]["response"]
    assert "JSON" in results[2]["response"]


async def test_a_session_in_plan_mode_changes_nothing(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("write", {"path": "new.txt", "content": "x"})), Reply(Text("A plan."))]))
    answer = await stage.user.http.patch(f"/sessions/{stage.session['_id']}", json={"mode": "plan"})
    assert answer.json()["mode"] == "plan"
    turn = await stage.ide.submit(stage.session["_id"], "Plan it.")
    await stage.ide.until_complete(turn["_id"])
    assert not (stage.checkout / "new.txt").exists()
    [told] = [message["content"] for message in stage.model.requests[1].messages if message["role"] == "tool"]
    assert "Not permitted" in told


async def test_no_key_and_no_token_is_on_disk_or_in_a_log(stage_for: Any, web: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "env"})), Reply(Text("Done."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Show the environment.")
    await stage.ide.until_complete(turn["_id"])
    assert await asyncio.to_thread(stage.drone.stop) == 0  # no file is on its way out any more
    secrets = ["sk-scripted-0123456789", stage.drone.env["GADGET_DRONE_TOKEN"], stage.user.token]
    files = [path for path in stage.drone.workspace.parent.rglob("*") if path.is_file()]
    places = {str(path): path.read_bytes() for path in files}
    places["web log"] = web.log.read_bytes()
    places["events"] = json.dumps(await stage.user.events(turn["_id"])).encode()
    places["providers"] = json.dumps(await stage.user.get("/providers")).encode()
    found = [(place, secret) for place, data in places.items() for secret in secrets if secret.encode() in data]
    assert found == []
    assert stage.model.requests[0].headers["authorization"] == f"Bearer {secrets[0]}"


async def test_the_workspace_files_are_as_the_contract_says(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": HELD})), Reply(Text("Done."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait.")
    await stage.ide.until(lambda name, p: name == "toolStarted")

    async def written(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What is said is written down a little later."""

        async def found() -> dict[str, Any] | None:
            workspace: dict[str, Any] = json.loads((stage.drone.gadget / "workspace.json").read_text())
            return workspace if wanted(workspace) else None

        workspace: dict[str, Any] = await until(found)
        return workspace

    workspace = await written(lambda file: file["registration"]["status"] == "busy" and bool(file["projects"]))
    order = json.loads((stage.drone.gadget / "work-order.json").read_text())
    assert workspace["chatSession"]["_id"] == stage.session["_id"]
    assert workspace["lockedProject"]["slug"] == "project"
    assert [project["slug"] for project in workspace["projects"]] == ["project"]
    assert order["turnId"] == turn["_id"]
    assert order["status"] == "processing"
    assert order["prompt"] == "Wait."
    assert {"workspace.json", "work-order.json", "lock"} <= _private(stage.drone.gadget)
    await stage.let_go()
    await stage.ide.until_complete(turn["_id"])
    after = await written(lambda file: file["chatSession"] is None)
    assert {"workspace.json", "drone.log", "checkpoints"} <= _private(stage.drone.gadget)
    assert after["workspaceId"] == workspace["workspaceId"]


def _private(gadget: Path) -> set[str]:
    """The names in `.gadget/`, all of them for the drone's user alone."""
    own = {"home", "tmp", "objects"}  # what commands put there is theirs, and git's objects are read-only too
    names = set()
    for path in (path for path in gadget.rglob("*") if not own & set(path.relative_to(gadget).parts[:-1])):
        try:
            found = path.stat()
        except FileNotFoundError:  # the drone works, and replaces and deletes them
            continue
        assert found.st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
        names.add(path.name)
    return names


async def test_two_users_cannot_see_each_other(stage_for: Any, web: Any) -> None:
    stage = await stage_for(Script([Reply(Text("A secret."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Tell me a secret.")
    await stage.ide.until_complete(turn["_id"])
    drone = await stage.drone.registration()
    assert drone is not None
    async with await web.user("eve") as eve:
        await _sees_nothing(eve, stage, turn, drone)


async def _sees_nothing(eve: User, stage: Any, turn: dict[str, Any], drone: dict[str, Any]) -> None:
    session = stage.session
    for path in (
        f"/sessions/{session['_id']}",
        f"/sessions/{session['_id']}/turns",
        f"/turns/{turn['_id']}",
        f"/turns/{turn['_id']}/events",
        f"/turns/{turn['_id']}/steps",
        f"/turns/{turn['_id']}/blobs/x",
        f"/projects/{session['project']}",
        f"/providers/{session['provider']}",
        f"/providers/{session['provider']}/models",
        f"/drones/{drone['_id']}",
    ):
        assert (await eve.http.get(path)).status_code == 404, path
        assert (await eve.http.get(path)).json()["code"] == "notFound"
    for path, body in (
        (f"/turns/{turn['_id']}/cancel", {}),
        (f"/turns/{turn['_id']}/steer", {"content": "x"}),
        (f"/sessions/{session['_id']}/turns", {"content": "x", "promptId": "p"}),
    ):
        assert (await eve.http.post(path, json=body)).status_code == 404, path
    for path in (f"/sessions/{session['_id']}", f"/projects/{session['project']}", f"/drones/{drone['_id']}"):
        assert (await eve.http.delete(path)).status_code == 404
        assert (await eve.http.patch(path, json={"name": "mine"})).status_code == 404
    for listed in ("/sessions", "/projects", "/providers", "/drones"):
        assert (await eve.get(listed))["items"] == []
    # Nor use what is another's for a session of one's own.
    theirs = {
        "name": "x",
        "project": session["project"],
        "provider": session["provider"],
        "selectedModel": "scripted",
    }
    assert (await eve.http.post("/sessions", json=theirs)).status_code == 404
    from tests.harness import Ide

    async with Ide(eve) as ide:
        for event, payload in (
            ("selectSession", {"chatSessionId": session["_id"]}),
            ("submitPrompt", {"chatSessionId": session["_id"], "content": "x", "promptId": "p"}),
            ("cancelTurn", {"turnId": turn["_id"]}),
            ("steerTurn", {"turnId": turn["_id"], "content": "x", "steerId": "s"}),
            ("requestSessionLock", {"chatSessionId": session["_id"], "droneId": drone["_id"]}),
            ("releaseSessionLock", {"chatSessionId": session["_id"]}),
            ("requestWorkspaceMode", {"chatSessionId": session["_id"], "mode": "user"}),
        ):
            reply = await ide.call(event, payload)
            assert reply["ok"] is False, event
            assert reply["error"]["code"] == "notFound", event
        assert ide.received == []
