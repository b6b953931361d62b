"""Two web processes behind Redis: it does not matter which of them holds whose socket."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.gadget_code.peers import Played, PlayedDrone, RawSocket, a_session, a_turn, is_processing
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


@pytest.fixture
async def two_webs(mongodb_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[tuple[Web, Web]]:
    settings = {"GADGET_DATABASE": f"t{tmp_path.name[-20:]}", "GADGET_REDIS_URL": redis_url}
    # The same secret key for both: what one encrypts the other has to read.
    settings["GADGET_SECRET_KEY_FILE"] = str(tmp_path / "secret.key")
    webs = [Web.at(tmp_path / name, mongodb_url, **settings) for name in ("one", "two")]
    try:
        yield webs[0], webs[1]
    finally:
        for web in webs:
            web.stop()
    assert "Traceback" not in webs[0].output + webs[1].output


async def test_a_drone_that_goes_from_one_process_to_the_other_and_back_is_understood(
    two_webs: tuple[Web, Web],
) -> None:
    one, two = two_webs
    async with await one.user() as user, PlayedDrone(user) as first:
        far = User(two.url, user.email, user.password, user.token, user.document)
        turn = await a_turn(user, await a_session(user))
        await first.order(turn["_id"])
        played = Played(turn)
        for _ in range(2):
            await first.send(played.response())
        await first.acked(turn["_id"], 2)
        # Its network has changed; process one does not know yet that the old connection is dead.
        second = first.same_drone(far)
        await second.connect()
        await second.report("busy")
        for _ in range(2):
            await second.send(played.response())
        await second.acked(turn["_id"], 4)
        third = first.same_drone(user)
        await third.connect()
        await third.report("busy")
        await third.send(played.response())
        await third.send(played.complete())
        await third.acked(turn["_id"], 6)
        assert (await user.until_over(turn["_id"]))["status"] == "finished"
        assert [event["seq"] for event in await user.events(turn["_id"])] == list(range(1, 7))
        for drone in (second, third):
            await drone.disconnect()
        await far.http.aclose()


async def test_a_watcher_on_one_process_sees_what_a_drone_on_the_other_does(
    two_webs: tuple[Web, Web], tmp_path: Path
) -> None:
    one, two = two_webs
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
                assert _once_and_in_order(near.events(turn["_id"])) == stored
                assert _once_and_in_order(far.events(turn["_id"])) == stored
                # A request of one process's IDE reaches the drone of the other; so does what is asked of its files.
                files = f"/sessions/{session['_id']}/files/content?path=a.txt"
                etag = (await elsewhere.http.get(files)).headers["etag"]
                saved = await elsewhere.http.put(files, content=b"b" * 2_000_000, headers={"If-Match": etag})
                assert saved.status_code == 200, saved.text
                assert (await elsewhere.http.get(files)).content == b"b" * 2_000_000
                second = await far.submit(session["_id"], "Wait.")
                await far.until(lambda name, p: name == "toolStarted" and p["turnId"] == second["_id"])
                assert (await far.call("cancelTurn", {"turnId": second["_id"]}))["ok"] is True
                assert (await elsewhere.until_over(second["_id"]))["status"] == "cancelled"
    finally:
        if drone is not None:
            drone.stop()


async def _sees(ide: Ide, event: dict[str, Any]) -> None:
    await ide.until(lambda name, p: (name, p) == (event["type"], event))


def _once_and_in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client makes of a stream that comes through another process: repeats are dropped, by `seq`."""
    return [event for _, event in sorted({event["seq"]: event for event in events}.items())]


async def test_a_drone_that_was_cut_off_as_it_began_leaves_nothing_that_hides_who_goes_on(
    two_webs: tuple[Web, Web],
) -> None:
    one, two = two_webs
    async with await one.user() as user, PlayedDrone(user) as lost:
        far = User(two.url, user.email, user.password, user.token, user.document)
        async with far, PlayedDrone(far, "other") as other:
            turn = await a_turn(user, await a_session(user, drone=lost.id))
            await lost.order(turn["_id"])
            await is_processing(user, turn["_id"])
            begin = {"turnId": turn["_id"], "epoch": 1}
            async with RawSocket(one.url, origin=None) as raw:
                await raw.sign_in({"token": lost.token})
                # Cut off right behind its question: process one says yes to nobody.
                await raw.send(f"42{json.dumps(['beginTurn', begin])}")

            async def is_lost() -> bool | None:
                return (await user.get(f"/turns/{turn['_id']}"))["waiting"] == "droneLost" or None

            await until(is_lost)
            await far.post(f"/turns/{turn['_id']}/continue", {"droneId": other.id})
            order = await other.order(turn["_id"])
            assert (await other.call("beginTurn", {**begin, "epoch": order["epoch"]}))["ok"]
            played = Played(turn, epoch=order["epoch"])
            await other.send(played.response())
            await other.acked(turn["_id"], 1)
            came_over = other.same_drone(user)
            await came_over.connect()
            await came_over.report("busy")
            await came_over.send(played.complete())
            await came_over.acked_or_revoked(turn["_id"], 2)
            assert came_over.count("turnRevoked") == 0
            assert (await user.until_over(turn["_id"]))["status"] == "finished"
            await came_over.disconnect()


async def test_a_watcher_sees_the_turn_that_runs_though_one_before_it_ended_through_the_other_process(
    two_webs: tuple[Web, Web],
) -> None:
    one, two = two_webs
    async with await one.user() as user, PlayedDrone(user) as first:
        far = User(two.url, user.email, user.password, user.token, user.document)
        session = await a_session(user)
        before = await a_turn(user, session)
        await first.order(before["_id"])
        played = Played(before)
        await first.send(played.response())
        await first.acked(before["_id"], 1)
        # Its network has changed; process one does not know yet that the old connection is dead.
        moved = first.same_drone(far)
        await moved.connect()
        await moved.report("busy")
        await moved.send(played.complete())
        await moved.acked(before["_id"], 2)
        async with PlayedDrone(user, "second") as second:
            turn = await a_turn(user, session)
            order = await second.order(turn["_id"])
            played = Played(turn, epoch=order["epoch"])
            async with Ide(user) as ide:
                for event in [played.response() for _ in range(5)]:
                    # The next one is relayed, and not stored yet, when the watcher comes.
                    await second.send(event)
                    await asyncio.sleep(0.02)
                    await ide.select(session["_id"], after=(turn["_id"], event["seq"] - 1))
                    await _sees(ide, event)
                    await second.acked(turn["_id"], event["seq"])
        await moved.disconnect()
        await far.http.aclose()
