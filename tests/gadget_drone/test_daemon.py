"""A real drone in its own process, real files, a scripted model, and a web service that the test plays."""

import asyncio
import json
import os
import random
import re
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Pause, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.gadget_drone.played_web import PlayedWeb
from tests.harness import Process, clean_environment, repository, until


@dataclass
class Stage:
    web: PlayedWeb
    model: ScriptedServer
    drone: Process
    workspace: Path

    @property
    def gadget(self) -> Path:
        return self.workspace / ".gadget"

    @property
    def checkout(self) -> Path:
        return self.workspace / "project"

    async def restart(self) -> None:
        """SIGKILL, and started again."""
        await asyncio.to_thread(self.drone.kill)
        self.drone.start()

    async def stop(self) -> int:
        return await asyncio.to_thread(self.drone.stop)

    async def until_over(self) -> dict[str, Any]:
        return await self.web.until("workOrderComplete", lambda p: p["epoch"] == self.web.epoch)

    async def until_idle(self) -> None:
        """Until the end is acknowledged and let go of."""
        begin = next(n for n, (name, _) in enumerate(self.web.received) if name == "workOrderComplete")
        await self.web.until("droneStatus", lambda p: p["status"] == "available", begin=begin)
        assert list((self.gadget / "journal").iterdir()) == []
        assert not (self.gadget / "work-order.json").exists()


@pytest.fixture
async def stage_for(tmp_path: Path) -> AsyncIterator[Any]:
    """`await stage_for(script)`: the drone is started; nothing is dispatched yet."""
    opened: list[Any] = []

    async def make(script: Script) -> Stage:
        model = await ScriptedServer(script).__aenter__()
        opened.append(model)
        origin = repository(tmp_path / "origin", {"README.md": "# A project\n"})
        web = await PlayedWeb(model.openai_url, str(origin)).__aenter__()
        opened.append(web)
        env = clean_environment(
            GADGET_SERVER_URL=web.url,
            GADGET_DRONE_TOKEN="t",
            GADGET_ALLOW_LOCAL_GIT="true",
            GADGET_LOG_LEVEL="debug",
        )
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        drone = Process([sys.executable, "-P", "-m", "gadget_drone"], env, tmp_path / "drone.log", workspace)
        drone.start()
        opened.append(drone)
        return Stage(web, model, drone, workspace)

    yield make
    for part in reversed(opened):
        if isinstance(part, Process):
            await asyncio.to_thread(part.stop)
            assert "Traceback" not in part.output, part.output
        else:
            await part.__aexit__(None, None, None)


async def test_a_turn_is_worked_on_and_let_go_of(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "echo x"})), Reply(Text("Done."))]))
    assert await stage.web.dispatch() == {"ok": True}
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()
    assert stage.web.stored("notice")[0]["code"] == "cloning"
    assert all(event["code"] != "resumed" for event in stage.web.stored("notice"))
    assert stage.web.histories == 0, "there is none that it lacks"


_NOTES_SYNCS = """
import os

def noting(sync):
    def note_and_sync(fd):
        with open(os.environ["NOTED"], "a") as notes:
            notes.write(os.readlink(f"/proc/self/fd/{fd}") + "\\n")
        sync(fd)
    return note_and_sync

os.fsync, os.fdatasync = noting(os.fsync), noting(os.fdatasync)
"""


async def test_a_turn_waits_for_the_disk_a_few_times_and_for_its_journal_only_before_it_changes_something(
    stage_for: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "sitecustomize.py").write_text(_NOTES_SYNCS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "python"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("NOTED", str(tmp_path / "noted"))
    looks, changes = Reply(Call("shell", {"command": "ls"})), Reply(Call("shell", {"command": "touch x"}))
    stage = await stage_for(Script([looks, looks, changes, looks, Reply(Text("Done."))]))
    await stage.web.until("droneStatus", lambda p: p["status"] == "available")

    async def waits() -> bool | None:
        is_noted = '"available"' in (stage.gadget / "workspace.json").read_text()
        # With its name in the directory, which comes after it.
        return True if is_noted and (tmp_path / "noted").read_text().endswith("/.gadget\n") else None

    await until(waits)
    (tmp_path / "noted").write_text("")
    await stage.web.dispatch()
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()
    synced = [Path(line).name for line in (tmp_path / "noted").read_text().splitlines() if "checkpoints" not in line]
    assert sum("work-order" in name for name in synced) == 2, synced
    assert sum(".ndjson" in name for name in synced) == 1, synced
    # It works for the session, the project is here, it waits again.
    assert sum("workspace" in name for name in synced) <= 3, synced
    assert len(synced) <= 13, synced


async def test_a_turn_that_goes_on_says_so_first(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("I was say"), Pause(600)), Reply(Text("I was saying this."))]))
    await stage.web.dispatch()
    await stage.web.until("response")
    await stage.restart()
    assert (await stage.until_over())["status"] == "finished"
    later = [event for event in stage.web.events if event["epoch"] == 2 and event["type"] != "response"]
    assert (later[0]["type"], later[0]["code"], later[0]["level"]) == ("notice", "resumed", "info")
    assert "begun again" in later[0]["message"]
    assert stage.web.histories == 1
    await stage.until_idle()


async def test_a_journal_that_cannot_be_used_is_said_and_the_turn_goes_on_from_what_is_stored(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": "echo ran >> ran; echo ran; sleep 600"})), Reply(Text("I see."))])
    )
    await stage.web.dispatch()
    await stage.web.until("toolOutput")
    await asyncio.to_thread(stage.drone.kill)
    (journal,) = (stage.gadget / "journal").iterdir()
    journal.write_bytes(b"\x00" * 100 + b"\n" + b"{}\n")
    stage.drone.start()
    assert (await stage.until_over())["status"] == "finished"
    (said,) = [event for event in stage.web.stored("notice") if event["code"] == "resumed"]
    assert (said["level"], "could not be used" in said["message"]) == ("warning", True)
    assert "outcome unknown" in stage.web.stored("toolCall")[0]["response"]
    assert (stage.checkout / "ran").read_text() == "ran\n"
    assert len(list(stage.gadget.glob("corrupt-*/*.ndjson"))) == 1


async def test_steering_is_before_the_model_once_over_a_crash(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": "sleep 600"})), Reply(Text("No."), Pause(600)), Reply(Text("Rien."))])
    )
    stage.web.acknowledges = False
    stage.web.steers = [{"steerId": "s0", "content": "Be brief.", "origin": "service"}]
    await stage.web.dispatch()
    await stage.web.until("toolStarted")
    steer = {"steerId": "s1", "content": "In French, please.", "origin": "user"}
    stage.web.steers.append(steer)
    for _ in range(2):
        assert (await stage.web.ask("steerTurn", {"turnId": stage.web.turn, **steer})) == {"ok": True}
    await stage.restart()
    await stage.web.until("response")
    # The service died after it had stored the event, and before it noted that: it lists the message still.
    stage.web.steers = [steer]
    stage.web.acknowledges = True
    await stage.restart()
    assert (await stage.until_over())["status"] == "finished"
    said = [(event["steerId"], event["origin"]) for event in stage.web.stored("steered")]
    assert said == [("s0", "service"), ("s1", "user")]
    users = [message["content"] for message in stage.model.requests[-1].messages if message["role"] == "user"]
    assert users == ["Go.", "Be brief.", "In French, please."]


async def test_ten_kills_in_a_row_repeat_nothing(stage_for: Any) -> None:
    kills = 10
    stage = await stage_for(
        Script(
            [
                Reply(Call("shell", {"command": "echo ran >> ran; echo ran"})),
                Reply(Call("shell", {"command": "echo ran too >> ran; echo ran too; sleep 600"})),
                # A kill between the question and the answer's way into the journal has it asked again.
                *[Reply(Text("All is well."))] * (kills + 1),
            ]
        )
    )
    await stage.web.dispatch()
    await stage.web.until("toolOutput", lambda p: "too" in p["content"])
    stage.web.stores = False  # so that the recovery takes its time
    pause = random.Random(4270)
    asked: int | None = None
    for _ in range(kills):
        await asyncio.to_thread(stage.drone.kill)
        if asked is None and has_answer(stage.gadget / "journal" / f"{stage.web.turn}.ndjson"):
            asked = len(stage.model.requests)
        stage.drone.start()
        await asyncio.sleep(pause.uniform(0.3, 1.2))  # at any instant of it
    stage.web.stores = True
    await stage.restart()
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()
    assert (stage.checkout / "ran").read_text() == "ran\nran too\n"
    results = [event["response"] for event in stage.web.stored("toolCall")]
    assert len(results) == 2
    assert "outcome unknown" in results[1]
    assert asked in (None, len(stage.model.requests)), "what is in the journal is not asked for again"
    assert 3 <= len(stage.model.requests) <= 3 + kills
    assert len(stage.web.stored("workOrderComplete")) == 1


def has_answer(journal: Path) -> bool:
    """Whether the turn's last step is in it, whole."""
    lines = journal.read_text().split("\n")[:-1]
    return any('"type":"step"' in line and "All is well." in line for line in lines)


async def test_an_end_that_is_not_acknowledged_does_not_hold_up_a_stop_and_is_sent_after_the_next_start(
    stage_for: Any,
) -> None:
    stage = await stage_for(Script([Reply(Text("Done."))]))
    stage.web.stores = False
    await stage.web.dispatch()
    await stage.web.until("workOrderComplete")
    assert await stage.stop() == 0
    for _ in range(3):
        stage.drone.start()
        begin = len(stage.web.received)
        await stage.web.until("workOrderComplete", begin=begin)
        await asyncio.to_thread(stage.drone.kill)
    stage.web.stores = True
    stage.drone.start()
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()
    assert stage.web.events[-1] == stage.web.stored("workOrderComplete")[0]
    assert len(stage.model.requests) == 1


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_an_end_that_the_server_refuses_is_let_go_of(is_restarted: bool, stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Done."))]))
    stage.web.stores = False
    await stage.web.dispatch()
    await stage.web.until("workOrderComplete")
    stage.web.revokes = True
    await (stage.restart() if is_restarted else stage.web.drop_drone())
    await stage.until_idle()
    assert stage.web.events == []


async def test_an_order_that_the_disk_does_not_take_is_refused_and_leaves_nothing(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Done."))]))
    await stage.web.until("droneStatus")
    _, hard = resource.prlimit(stage.drone.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    refused = await stage.web.dispatch()
    assert refused["error"]["code"] == "workspaceRefused"
    assert f"make room in {stage.workspace}" in refused["error"]["message"]
    assert list((stage.gadget / "journal").iterdir()) == []
    assert not (stage.gadget / "work-order.json").exists()
    resource.prlimit(stage.drone.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert await stage.web.dispatch() == {"ok": True}
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()


async def test_a_recovery_on_a_full_disk_says_what_to_do_and_goes_on_when_there_is_room(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Text("x" * 20_000), Call("shell", {"command": "sleep 600"})), Reply(Text("Done."))])
    )
    stage.web.stores = False
    await stage.web.dispatch()
    await stage.web.until("toolStarted")
    await asyncio.to_thread(stage.drone.kill)
    (journal,) = (stage.gadget / "journal").iterdir()
    before = journal.read_bytes()
    limited = ["/bin/sh", "-c", 'ulimit -S -f 16; exec "$@"', "sh"]
    stage.drone.command = [*limited, *stage.drone.command]
    stage.drone.log = stage.drone.log.with_name("second.log")
    (stage.gadget / "logs/drone.log").unlink()
    stage.drone.start()
    for _ in range(2):
        begin = len(stage.web.received)
        await stage.web.until("requestCrashRecovery", begin=begin)
    assert journal.read_bytes().startswith(before)
    assert "make room in" in stage.drone.output
    assert not stage.drone.has_ended
    resource.prlimit(stage.drone.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await stage.web.store_again()
    assert (await stage.until_over())["status"] == "finished"
    await stage.until_idle()


async def command(stage: Stage, name: str, *options: str) -> str:
    """What `gadget-drone name` prints."""
    ran = await asyncio.create_subprocess_exec(
        *[sys.executable, "-P", "-m", "gadget_drone", name, "--server", stage.web.url, *options],
        cwd=stage.workspace,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await asyncio.wait_for(ran.communicate(), 30)
    return printed.decode()


async def test_status_says_what_the_drone_waits_for(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "sleep 600"}))]))
    stage.web.stores = False
    await stage.web.dispatch()
    await stage.web.until("toolStarted")
    found = json.loads(await command(stage, "status", "--json"))
    assert (found["connected"], found["connectionSince"] is not None) == (True, True)
    (turn,) = found["unacknowledgedTurns"]
    assert (turn["turnId"], turn["epoch"], turn["stepCount"]) == (stage.web.turn, 1, 1)
    assert turn["eventCount"] >= 3
    assert turn["sizeBytes"] > 500
    told = await command(stage, "status")
    assert "connected since" in told
    assert "epoch 1, 1 steps" in told
    await stage.web.__aexit__()
    async with asyncio.timeout(20):
        while "not connected since" not in await command(stage, "status"):  # noqa: ASYNC110  (another process says it)
            await asyncio.sleep(0.1)
    await asyncio.to_thread(stage.drone.kill)
    (journal,) = (stage.gadget / "journal").iterdir()
    journal.write_bytes(b"{]\n")
    (stage.gadget / "blobs" / f"{stage.web.turn}.b.blob").write_bytes(b"x" * 99)
    told = await command(stage, "status")
    assert f"Damaged     journal/{stage.web.turn}.ndjson" in told
    assert "1 (99 bytes) wait to be uploaded" in told
    assert "does not run" in told


async def test_doctor_sees_a_stopped_drone_a_wrong_clock_and_damaged_files(stage_for: Any) -> None:
    stage = await stage_for(Script([]))
    await stage.web.until("droneStatus")
    (stage.gadget / "corrupt-20260101T000000Z").mkdir()
    well = await command(stage, "doctor")
    assert f"held by the drone that works here (process {stage.drone.pid})" in well
    assert "ok      clock" in well
    stage.web.clock_s = -3600.0
    stage.drone.signal(signal.SIGSTOP)
    (stage.gadget / "work-order.json").write_text("{")  # not before: it would set this aside
    try:
        ill = await command(stage, "doctor")
    finally:
        stage.drone.signal(signal.SIGCONT)
    assert f"kill -CONT {stage.drone.pid}" in ill
    assert re.search("36[0-9]{2} s ahead of the server's; set it right", ill), ill
    assert ".gadget/work-order.json is damaged" in ill
    assert "corrupt-20260101T000000Z: nobody wrote down why" in ill


async def test_a_second_drone_says_in_one_sentence_who_works_here_and_leaves_the_first_alone(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Here."))]))
    await stage.web.until("droneStatus")
    second = Process(stage.drone.command, stage.drone.env, stage.drone.log.with_name("second.log"), stage.workspace)
    second.start()
    assert await asyncio.to_thread(second.wait) == 1
    (said,) = second.output.splitlines()
    assert said.startswith(f"gadget-drone: Another drone (process {stage.drone.pid}, since ")
    await stage.web.dispatch()
    assert (await stage.until_over())["status"] == "finished"


async def test_a_graceful_stop_lets_the_step_end_and_the_turn_goes_on_later(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Call("shell", {"command": "sleep 2; echo ran >> ran; echo ran"})), Reply(Text("Done."))])
    )
    await stage.web.dispatch()
    await stage.web.until("toolStarted")
    assert await stage.stop() == 0
    assert len(stage.web.stored("toolCall")) == 1  # it was connected until the step had ended
    assert stage.web.stored("workOrderComplete") == []
    stage.drone.start()
    assert (await stage.until_over())["status"] == "finished"
    assert (stage.checkout / "ran").read_text() == "ran\n"
    await stage.until_idle()


async def test_a_stop_gives_up_a_step_that_does_not_end(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "sleep 600"})), Reply(Text("I see."))]))
    await stage.web.dispatch()
    await stage.web.until("toolStarted")
    begun = time.monotonic()
    assert await stage.stop() == 0
    assert 9 < time.monotonic() - begun < 20
    stage.drone.start()
    assert (await stage.until_over())["status"] == "finished"
    assert "outcome unknown" in stage.web.stored("toolCall")[0]["response"]


async def test_an_offer_that_was_read_too_late_runs_nothing(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "echo ran >> ran"}))]))
    await stage.web.until("droneStatus", lambda p: p["status"] == "available")
    stage.drone.signal(signal.SIGSTOP)
    stage.web.epoch = 1
    offer = asyncio.create_task(stage.web.ask("processWorkOrder", {"workOrder": stage.web.order}))
    await asyncio.sleep(0)
    stage.web.epoch, stage.web.revokes = 2, True  # nobody answered in time: it was given to another
    stage.drone.signal(signal.SIGCONT)
    await offer
    begun = await stage.web.until("beginTurn")
    assert (begun["turnId"], begun["epoch"]) == (stage.web.turn, 1)
    begin = stage.web.received.index(("beginTurn", begun))
    await stage.web.until("droneStatus", lambda p: p["status"] == "available", begin=begin)
    assert not (stage.checkout / "ran").exists()
    assert stage.web.events == []
    assert list((stage.gadget / "journal").iterdir()) == []
    assert not (stage.gadget / "work-order.json").exists()


async def test_the_model_is_asked_while_tools_and_events_wait_for_the_service(stage_for: Any) -> None:
    stage = await stage_for(
        Script([Reply(Text("I look."), Call("shell", {"command": "echo ran >> ran"})), Reply(Text("Done."))])
    )
    stage.web.answers_begin = False
    assert await stage.web.dispatch() == {"ok": True}
    await stage.web.until("beginTurn")
    journal = stage.gadget / "journal" / f"{stage.web.turn}.ndjson"

    async def model_has_answered() -> bool | None:
        return b'"type":"step"' in journal.read_bytes() or None

    await until(model_has_answered)
    await stage.web.until("beginTurn", begin=len(stage.web.received))  # it asks again
    assert not (stage.checkout / "ran").exists()
    assert stage.web.events == []
    stage.web.answers_begin = True
    assert (await stage.until_over())["status"] == "finished"
    assert (stage.checkout / "ran").read_text() == "ran\n"


async def test_an_answer_that_comes_late_costs_no_journal(stage_for: Any) -> None:
    """The service answered an earlier question, and by then had taken the next one up: a later epoch."""
    stage = await stage_for(
        # The second may have been asked for when the drone was killed.
        Script([Reply(Call("shell", {"command": "echo ran >> ran"})), Reply(Text("Done.")), Reply(Text("Done."))]),
    )
    stage.web.stores = False
    assert await stage.web.dispatch() == {"ok": True}
    await stage.web.until("toolCall")
    await asyncio.to_thread(stage.drone.kill)
    stage.web.epoch_ahead = 1
    stage.web.stores = True
    begin = len(stage.web.received)
    stage.drone.start()
    await stage.web.until("beginTurn", begin=begin)
    over = await stage.until_over()
    assert over["status"] == "finished", over
    assert (stage.checkout / "ran").read_text() == "ran\n"
    assert [event["seq"] for event in stage.web.events] == list(range(1, len(stage.web.events) + 1))


async def test_who_knows_of_a_turns_end_is_not_told_that_it_works_still(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Text("Done."))]))
    stage.web.acknowledges = False
    await stage.web.dispatch()
    await stage.until_over()
    mode = {"chatSessionId": stage.web.session, "mode": "user"}
    by_hand = asyncio.create_task(stage.web.ask("requestWorkspaceMode", mode))
    await asyncio.wait([by_hand], timeout=0.3)
    assert not by_hand.done()
    await stage.web.acknowledge()
    assert (await by_hand)["ok"] is True
