"""Cancel, steer, locks, workspace modes, and what survives a crash."""

import asyncio
import json
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from gadget_ai.testing.script import Call, Pause, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Drone, Ide, User, Web, repository, until
from tests.interaction.conftest import HELD


def command_lines() -> str:
    """Of all processes of this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                found.append((entry / "cmdline").read_text(errors="replace"))
    return "\n".join(found)


async def test_cancel_kills_the_tool_and_ends_the_turn_once(stage_for: Any) -> None:
    seconds = f"600.{secrets.randbelow(10**9)}"  # its process is known by them, whatever its number in a sandbox
    stage = await stage_for(Script([Reply(Call("shell", {"command": f"sleep {seconds} & wait"}))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait for ever.")

    async def started() -> bool | None:
        return True if f"sleep\0{seconds}\0" in command_lines() else None

    await until(started)
    assert (await stage.ide.call("cancelTurn", {"turnId": turn["_id"]}))["ok"] is True
    document = await stage.user.until_over(turn["_id"], timeout=10)
    assert document["status"] == "cancelled"

    async def gone() -> bool | None:
        return None if seconds in command_lines() else True

    await until(gone, 10)
    stored = await stage.user.events(turn["_id"])
    assert [event["type"] for event in stored].count("workOrderComplete") == 1
    again = await stage.ide.call("cancelTurn", {"turnId": turn["_id"]})
    assert again["error"]["code"] == "turnOver"


async def test_cancel_ends_a_model_call_and_the_model_is_told(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("I think "), Pause(600), Text("never")), Reply(Text("Next."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Think.")
    await stage.ide.until(lambda name, p: name == "response")
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    assert (await stage.user.until_over(turn["_id"], timeout=10))["status"] == "cancelled"
    await stage.model.wait_disconnected()
    following = await stage.ide.submit(stage.session["_id"], "And now?")
    assert (await stage.user.until_over(following["_id"]))["response"] == "Next."


async def test_cancel_of_a_turn_that_waits_ends_it_without_a_drone(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    stage.drone.stop()
    turn = await stage.ide.submit(stage.session["_id"], "Never mind.")
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    end = await stage.ide.until_complete(turn["_id"])
    assert end["status"] == "cancelled"
    assert (await stage.user.get(f"/turns/{turn['_id']}"))["status"] == "cancelled"
    assert await stage.user.events(turn["_id"]) == [end]
    stage.drone.start()
    await stage.drone.until_available()
    assert stage.model.requests == []


async def test_steering_is_put_before_the_model_at_the_next_step_exactly_once(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": HELD})), Reply(Text("In French, then.")), Reply(Text("Rien."))])
    )
    turn = await stage.ide.submit(stage.session["_id"], "Explain.")
    await stage.ide.until(lambda name, p: name == "toolStarted")
    steer = {"turnId": turn["_id"], "content": "In French, please.", "steerId": "s1"}
    assert (await stage.ide.call("steerTurn", steer))["ok"] is True
    assert (await stage.ide.call("steerTurn", steer))["ok"] is True
    # What is asked of the drone after it is answered after it.
    assert (await stage.ide.call("listTerminals", {"chatSessionId": stage.session["_id"]}))["ok"] is True
    await stage.let_go()
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    stored = await stage.user.events(turn["_id"])
    assert [e["content"] for e in stored if e["type"] == "steered"] == ["In French, please."]
    said = [message["content"] for message in stage.model.requests[1].messages if message["role"] == "user"]
    assert said == ["Explain.", "In French, please."]
    late = await stage.ide.call("steerTurn", {**steer, "steerId": "s2"})
    assert late["error"]["code"] == "turnNotRunning"


async def test_a_locked_drone_works_for_its_session_alone(stage_for: Any, user: User) -> None:
    stage = await stage_for(Script([Reply(Text("For B.")), Reply(Text("For A."))]))
    a = stage.session
    project = await user.get(f"/projects/{a['project']}")
    provider = await user.get(f"/providers/{a['provider']}")
    b = await user.session(project, provider)
    drone = await stage.drone.registration()
    lock = {"chatSessionId": b["_id"], "droneId": drone["_id"]}
    assert (await stage.ide.call("requestSessionLock", lock))["ok"] is True
    workspace = json.loads((stage.drone.gadget / "workspace.json").read_text())
    assert workspace["chatSession"]["_id"] == b["_id"]
    taken = await stage.ide.call("requestSessionLock", {**lock, "chatSessionId": a["_id"]})
    assert taken["error"]["code"] == "droneLocked"
    waiting = await stage.ide.submit(a["_id"], "For A?")
    turn = await stage.ide.submit(b["_id"], "For B?")
    assert (await user.until_over(turn["_id"]))["response"] == "For B."
    assert (await user.get(f"/turns/{waiting['_id']}"))["status"] == "queued"
    # The lock holds over a restart of the drone.
    await stage.drone.until_available()
    stage.drone.stop()
    stage.drone.start()
    await stage.drone.until_available()

    async def locked_again() -> bool | None:
        found = json.loads((stage.drone.gadget / "workspace.json").read_text())
        return True if found["chatSession"] is not None else None

    await until(locked_again)
    assert (await stage.ide.call("releaseSessionLock", {"chatSessionId": b["_id"]}))["ok"] is True
    assert (await user.until_over(waiting["_id"]))["response"] == "For A."


async def test_the_agent_waits_while_the_user_edits_by_hand(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("One.")), Reply(Text("Two."))]))
    first = await stage.ide.submit(stage.session["_id"], "One?")
    await stage.user.until_over(first["_id"])
    await stage.drone.until_available()
    mode = {"chatSessionId": stage.session["_id"], "mode": "user"}
    assert (await stage.ide.call("requestWorkspaceMode", mode))["ok"] is True
    assert (await stage.ide.select(stage.session["_id"]))["workspaceMode"] == "user"
    second = await stage.ide.submit(stage.session["_id"], "Two?")
    await stage.ide.until(
        lambda name, p: (
            name == "turnStatus"
            and p["turn"]["_id"] == second["_id"]
            and "you are editing" in (p["turn"]["statusReason"] or "")
        )
    )
    assert (await stage.ide.call("requestWorkspaceMode", {**mode, "mode": "idle"}))["ok"] is True
    assert (await stage.user.until_over(second["_id"]))["response"] == "Two."


async def test_a_killed_drone_goes_on_with_its_turn_and_repeats_nothing(stage_for: Any) -> None:
    stage = await stage_for(
        Script(
            [
                Reply(Call("shell", {"command": "echo once >> ran"})),
                Reply(Text("Between."), Call("shell", {"command": "echo twice >> ran; sleep 600"})),
                Reply(Text("All is well.")),
            ]
        )
    )
    turn = await stage.ide.submit(stage.session["_id"], "Go.")
    await stage.ide.until(lambda name, p: name == "toolStarted" and "600" in json.dumps(p["params"]))
    ran: Path = stage.checkout / "ran"

    async def both() -> bool | None:
        return True if ran.exists() and "twice" in ran.read_text() else None

    await until(both)
    stage.drone.kill()
    await stage.ide.until(
        lambda name, p: name == "turnStatus" and "is lost" in (p["turn"]["statusReason"] or ""), timeout=5
    )
    stage.drone.start()
    document = await stage.user.until_over(turn["_id"])
    await stage.ide.until_complete(turn["_id"])
    assert document["status"] == "finished"
    assert document["epoch"] == 2
    assert ran.read_text() == "once\ntwice\n"
    stored = await stage.user.events(turn["_id"])
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    results = [event for event in stored if event["type"] == "toolCall"]
    assert "outcome unknown" in results[1]["response"]
    assert stored == stage.ide.events(turn["_id"])
    assert len(stage.model.requests) == 3
    assert document["stats"]["toolCallCount"] == 2


async def test_a_stopped_drone_lets_the_step_end_and_goes_on_later(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": f"{HELD}; echo done >> ran"})), Reply(Text("Fine."))])
    )
    turn = await stage.ide.submit(stage.session["_id"], "Go.")
    await stage.ide.until(lambda name, p: name == "toolStarted")
    stage.drone.signal(signal.SIGTERM)

    async def stopping() -> bool | None:
        return True if "waiting for the running step" in stage.drone.output else None

    await until(stopping)
    await stage.let_go()
    assert await asyncio.to_thread(stage.drone.wait) == 0
    assert (stage.checkout / "ran").read_text() == "done\n"
    assert (await stage.user.get(f"/turns/{turn['_id']}"))["status"] == "processing"
    stage.drone.start()
    assert (await stage.user.until_over(turn["_id"]))["status"] == "finished"
    assert (stage.checkout / "ran").read_text() == "done\n"


async def test_a_second_drone_in_the_same_workspace_is_refused_and_the_first_untouched(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Here."))]))
    second = Drone(stage.drone.command, stage.drone.env, stage.drone.log.with_name("second.log"), stage.drone.workspace)
    second.start()
    assert second.wait() == 1
    assert str(stage.drone.pid) in second.output
    assert "Traceback" not in second.output
    turn = await stage.ide.submit(stage.session["_id"], "Still there?")
    assert (await stage.user.until_over(turn["_id"]))["response"] == "Here."


async def test_the_web_service_may_be_killed_in_the_middle_of_a_turn(mongodb_url: str, tmp_path: Path) -> None:
    web = Web.at(tmp_path / "web", mongodb_url)
    script = [
        Reply(Text("Slow ", deltas=1), Call("shell", {"command": "sleep 3; echo ran >> ran"})),
        Reply(Text("words that come one by one and on and on.", deltas=20, pause_s=0.05)),
    ]
    drone = None
    try:
        async with ScriptedServer(Script(script)) as model, await web.user() as user:
            drone = await Drone.at(tmp_path, user)
            provider = await user.provider(model.openai_url)
            origin = repository(tmp_path / "origin", {"README.md": "x\n"})
            session = await user.session(await user.project(str(origin)), provider)
            async with Ide(user) as ide:
                await ide.select(session["_id"])
                turn = await ide.submit(session["_id"], "Go.")
                await ide.until(lambda name, p: name == "toolStarted")
                before = ide.events(turn["_id"])
                web.kill()
            web.start()
            async with Ide(user) as ide:
                await ide.select(session["_id"], after=(turn["_id"], before[-1]["seq"]))
                end = await ide.until_complete(turn["_id"])
                assert end["success"] is True
                stored = await user.events(turn["_id"])
                assert before + ide.events(turn["_id"]) == stored
            assert (drone.workspace / "project" / "ran").read_text() == "ran\n"
            assert len(model.requests) == 2
            assert (await user.until_over(turn["_id"]))["epoch"] == 1
    finally:
        if drone is not None:
            drone.stop()
        web.stop()


async def test_a_drone_ends_cleanly_when_its_credential_is_revoked(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    drone = await stage.drone.registration()
    assert (await stage.user.http.delete(f"/drones/{drone['_id']}")).status_code == 204
    assert stage.drone.wait(20) == 1
    assert "revoked" in stage.drone.output
    assert "Traceback" not in stage.drone.output


async def test_a_cancel_that_was_accepted_holds_over_the_death_of_the_drone(stage_for: Any) -> None:
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"
    stage = await stage_for(Script([Reply(Call("shell", {"command": command})), Reply(Text("Never said."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait.")

    async def started() -> bool | None:
        return True if (stage.checkout / "pid").exists() else None

    await until(started)
    assert (await stage.ide.call("cancelTurn", {"turnId": turn["_id"]}))["ok"] is True
    stage.drone.kill()
    stage.drone.start()
    document = await stage.user.until_over(turn["_id"])
    assert document["status"] == "cancelled"
    assert len(stage.model.requests) == 1
    stored = await stage.user.events(turn["_id"])
    assert [event["type"] for event in stored].count("workOrderComplete") == 1
    await stage.drone.until_available()


async def test_a_drone_whose_turn_was_ended_while_it_was_away_works_for_any_session_again(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "sleep 600"})), Reply(Text("For another."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait.")
    await stage.ide.until(lambda name, p: name == "toolStarted")
    stage.drone.kill()
    await stage.ide.until(lambda name, p: name == "droneStatus" and p["drone"]["status"] == "offline")
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    assert (await stage.user.get(f"/turns/{turn['_id']}"))["status"] == "cancelled"
    stage.drone.start()
    drone = await stage.drone.until_available()
    assert drone["workspaceMode"] == "idle"
    project = await stage.user.get(f"/projects/{stage.session['project']}")
    provider = await stage.user.get(f"/providers/{stage.session['provider']}")
    other = await stage.user.session(project, provider)
    following = await stage.ide.submit(other["_id"], "And for me?")
    assert (await stage.user.until_over(following["_id"]))["response"] == "For another."


async def test_a_turn_that_goes_on_says_so(stage_for: Any) -> None:
    script = [Reply(Call("shell", {"command": "sleep 600"})), Reply(Text("On it goes. "), Pause(600))]
    stage = await stage_for(Script(script))
    turn = await stage.ide.submit(stage.session["_id"], "Wait.")
    await stage.ide.until(lambda name, p: name == "toolStarted")
    stage.drone.kill()
    stage.drone.start()
    await stage.ide.until(lambda name, p: name == "response")
    document = await stage.user.get(f"/turns/{turn['_id']}")
    assert (document["status"], document["statusReason"]) == ("processing", None)
    drone = await stage.drone.registration()
    assert (drone["status"], drone["turn"]) == ("busy", turn["_id"])
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    await stage.user.until_over(turn["_id"])


async def test_a_drone_that_was_frozen_through_a_cancel_lets_the_turn_go(stage_for: Any) -> None:
    command = "trap '' TERM; while :; do echo x; sleep 0.1; done"
    stage = await stage_for(Script([Reply(Call("shell", {"command": command})), Reply(Text("Next."))]))
    turn = await stage.ide.submit(stage.session["_id"], "Wait.")
    await stage.ide.until(lambda name, p: name == "toolOutput")
    stage.drone.signal(signal.SIGSTOP)
    try:
        await stage.user.post(f"/turns/{turn['_id']}/cancel", {})  # ended by the server: the drone does not answer
        assert (await stage.user.get(f"/turns/{turn['_id']}"))["status"] == "cancelled"
    finally:
        stage.drone.signal(signal.SIGCONT)
    await stage.drone.until_available()
    following = await stage.ide.submit(stage.session["_id"], "And now?")
    assert (await stage.user.until_over(following["_id"]))["response"] == "Next."
    stored = await stage.user.events(turn["_id"])
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    assert [event["type"] for event in stored].count("workOrderComplete") == 1
