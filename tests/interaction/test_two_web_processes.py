"""Two web processes behind Redis: it does not matter which of them holds whose socket."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Drone, Ide, Process, User, Web, clean_environment, repository, until


@pytest.fixture
async def redis_url(tmp_path: Path) -> AsyncIterator[str]:
    """A Redis of this test's own, on a Unix socket."""
    binary = shutil.which("redis-server")
    if binary is None:
        if os.environ.get("CI"):
            pytest.fail("redis-server is not installed, and CI must not skip")
        pytest.skip("redis-server is needed: apt install redis-server")
    socket = tmp_path / "r.sock"
    command = [binary, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    process = Process(command, clean_environment(), tmp_path / "redis.log").start()

    async def ready() -> bool | None:
        assert not process.has_ended, process.output
        return True if socket.exists() else None

    await until(ready)
    yield f"unix://{socket}"
    process.stop()


async def test_a_watcher_on_one_process_sees_what_a_drone_on_the_other_does(
    mongodb_url: str, redis_url: str, tmp_path: Path
) -> None:
    settings = {"GADGET_DATABASE": f"t{tmp_path.name[-20:]}", "GADGET_REDIS_URL": redis_url}
    # The same secret key for both: what one encrypts the other has to read.
    settings["GADGET_SECRET_KEY_FILE"] = str(tmp_path / "secret.key")
    one = Web.at(tmp_path / "one", mongodb_url, **settings)
    two = Web.at(tmp_path / "two", mongodb_url, **settings)
    drone = None
    script = [
        Reply(Text("I look around. ", deltas=8, pause_s=0.01), Call("shell", {"command": "sleep 1"})),
        Reply(Text("All is where it was.", deltas=8, pause_s=0.01)),
        Reply(Call("shell", {"command": "sleep 600"})),
    ]
    try:
        async with ScriptedServer(Script(script)) as model, await one.user() as user:
            drone = await Drone.at(tmp_path, user)
            elsewhere = User(two.url, user.email, user.password, user.token, user.document)
            async with elsewhere, Ide(elsewhere) as far, Ide(user) as near:
                provider = await elsewhere.provider(model.openai_url, key="sk-scripted-0123456789")
                origin = repository(tmp_path / "origin", {"a.txt": "a\n"})
                session = await elsewhere.session(await elsewhere.project(str(origin)), provider)
                await far.select(session["_id"])
                await near.select(session["_id"])
                turn = await far.submit(session["_id"], "Look.")
                end = await far.until_complete(turn["_id"])
                assert end["success"] is True
                await near.until_complete(turn["_id"])
                stored = await elsewhere.events(turn["_id"])
                assert near.events(turn["_id"]) == stored
                assert _once_and_in_order(far.events(turn["_id"])) == stored
                # A request of one process's IDE reaches the drone of the other.
                second = await far.submit(session["_id"], "Wait.")
                await far.until(lambda name, p: name == "toolStarted" and p["turnId"] == second["_id"])
                assert (await far.call("cancelTurn", {"turnId": second["_id"]}))["ok"] is True
                assert (await elsewhere.until_over(second["_id"]))["status"] == "cancelled"
    finally:
        for process in (drone, one, two):
            if process is not None:
                process.stop()
    assert "Traceback" not in one.output + two.output


def _once_and_in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client makes of a stream that comes through another process: repeats are dropped, by `seq`."""
    return [event for _, event in sorted({event["seq"]: event for event in events}.items())]
