"""Whom a session's files are asked of, and what becomes of a drone's answer: with drones that the test plays."""

import asyncio
import base64
import hashlib
from typing import Any

import pytest

from gadget_api.errors import TooMany
from gadget_api.ids import new_id
from gadget_code.workspaces.keyed_semaphore import KeyedSemaphore
from tests.gadget_code.peers import PlayedDrone, a_session, problem
from tests.harness import Ide, User, until

LISTED: dict[str, Any] = {"ok": True, "files": {"path": "", "entries": []}}


def asked(drone: PlayedDrone, event: str = "listFiles") -> int:
    return sum(name == event for name, _ in drone.received)


def read(content: bytes, **fields: Any) -> dict[str, Any]:
    version = hashlib.sha256(content).hexdigest()
    data = base64.b64encode(content).decode()
    return {"ok": True, "version": version, "sizeBytes": len(content), "data": data, **fields}


def refusal(code: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": "This is why."}}


async def test_without_a_workspace_the_locked_chosen_or_only_drone_is_used(user: User) -> None:
    session = await a_session(user)
    url = f"/sessions/{session['_id']}/files"
    assert "gadget-drone" in problem(await user.http.get(url), 409, "droneOffline")["detail"]
    async with PlayedDrone(user, "one") as one:
        one.answers["listFiles"] = LISTED
        assert (await user.http.get(url)).json() == {"path": "", "entries": [], "truncated": False}
        async with PlayedDrone(user, "two") as two:
            two.answers["listFiles"] = LISTED
            assert "choose a drone" in problem(await user.http.get(url), 409, "droneOffline")["detail"]
            await user.http.patch(f"/sessions/{session['_id']}", json={"drone": two.id})
            assert (await user.http.get(url)).status_code == 200
            assert (asked(one), asked(two)) == (1, 1)
            async with Ide(user) as ide:
                lock = {"chatSessionId": session["_id"], "droneId": one.id}
                assert (await ide.call("requestSessionLock", lock))["ok"]
            assert (await user.http.get(url)).status_code == 200
            assert (asked(one), asked(two)) == (2, 1)


async def test_the_drone_of_the_last_turn_is_used_and_reported_when_offline(user: User) -> None:
    async with PlayedDrone(user, "one") as one, PlayedDrone(user, "two") as two:
        two.answers["listFiles"] = LISTED
        session = await a_session(user, workspaceId=two.workspace_id, drone=one.id)
        url = f"/sessions/{session['_id']}/files"
        assert (await user.http.get(url)).status_code == 200
        await two.disconnect()
        await two.until_offline()
        assert "is offline" in problem(await user.http.get(url), 409, "droneOffline")["detail"]
        assert (asked(one), asked(two)) == (0, 1)


async def test_another_users_drone_is_never_asked(user: User, web: Any) -> None:
    async with await web.user("eve") as eve, PlayedDrone(eve, "hers") as hers:
        hers.answers["listFiles"] = LISTED
        session = await a_session(user, workspaceId=hers.workspace_id)
        problem(await user.http.get(f"/sessions/{session['_id']}/files"), 409, "droneOffline")
        assert asked(hers) == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("notFound", 404),
        ("notAllowed", 403),
        ("invalidRequest", 422),
        ("tooLarge", 413),
        ("notCloned", 409),
        ("toolFailed", 409),
        ("internal", 409),
    ],
)
async def test_a_drones_refusal_becomes_the_matching_http_error(code: str, status: int, user: User) -> None:
    session = await a_session(user)
    async with PlayedDrone(user) as drone:
        drone.answers["listFiles"] = refusal(code)
        answer = await user.http.get(f"/sessions/{session['_id']}/files")
        assert problem(answer, status, code)["detail"] == "This is why."


async def test_a_file_that_changes_during_each_read_is_a_conflict(user: User) -> None:
    session = await a_session(user)
    url = f"/sessions/{session['_id']}/files/content?path=f"
    async with PlayedDrone(user) as drone:
        drone.answers["readFile"] = refusal("fileChanged")
        problem(await user.http.get(url), 409, "fileChanged")
        assert asked(drone, "readFile") == 3
        # A drone that says one thing and sends another is not believed.
        drone.answers["readFile"] = read(b"one", version="0" * 64)
        problem(await user.http.get(url), 409, "fileChanged")
        for data in ("no base64!", "ééé=", "AAAA" * 90_000):
            drone.answers["readFile"] = read(b"one", data=data)
            problem(await user.http.get(url), 503, "droneOffline")
        drone.answers["readFile"] = read(b"one", sizeBytes=2**40)
        problem(await user.http.get(url), 413, "tooLarge")
        drone.answers["readFile"] = {"ok": True, "sizeBytes": "?"}
        problem(await user.http.get(url), 503, "droneOffline")
        drone.answers["readFile"] = read(b"one")
        assert (await user.http.get(url)).content == b"one"


async def test_an_unresponsive_drone_delays_no_other(user: User) -> None:
    async with PlayedDrone(user, "one") as one, PlayedDrone(user, "two") as two:
        one.answers["listFiles"], two.answers["listFiles"] = None, LISTED
        lost = await a_session(user, workspaceId=one.workspace_id)
        session = await a_session(user, workspaceId=two.workspace_id)
        asking = [asyncio.create_task(user.http.get(f"/sessions/{lost['_id']}/files")) for _ in range(8)]

        async def all_asked() -> bool | None:
            return asked(one) == 8 or None

        await until(all_asked)
        assert (await user.http.get(f"/sessions/{session['_id']}/files")).status_code == 200
        assert not any(task.done() for task in asking)
        await one.disconnect()
        for answer in await asyncio.gather(*asking):
            problem(answer, 503, "droneOffline")


async def test_keys_typed_to_an_unresponsive_drone_delay_nothing(user: User) -> None:
    async with PlayedDrone(user, "one") as one, Ide(user) as ide:
        session, terminal = await a_session(user), new_id()
        one.answers["writeTerminal"] = None
        key = {"chatSessionId": session["_id"], "terminalId": terminal, "data": "YQ=="}
        keys = [asyncio.create_task(ide.call("writeTerminal", key)) for _ in range(8)]
        # On the same socket, behind all of them: five seconds for each would cost it its pings, and be its end.
        assert (await ide.select(session["_id"]))["ok"]
        assert {reply["error"]["code"] for reply in await asyncio.gather(*keys)} == {"droneOffline"}
        assert asked(one, "writeTerminal") == 1
        # Another connection is another chance.
        await one.disconnect()
        one.answers.clear()
        await one.connect()
        await one.report("available")
        assert (await ide.call("writeTerminal", key))["ok"]


async def test_the_semaphore_queues_some_requests_and_refuses_the_rest() -> None:
    slots = KeyedSemaphore(at_once=2, waiting=2, wait_s=30.0)
    go, running, most = asyncio.Event(), 0, 0

    async def work(key: str) -> None:
        nonlocal running, most
        async with slots.hold(key):
            running += 1
            most = max(most, running)
            await go.wait()
            running -= 1

    tasks = [asyncio.create_task(work("ada")) for _ in range(5)]
    while not tasks[4].done():  # noqa: ASYNC110  (it takes a turn of the loop or two)
        await asyncio.sleep(0)
    assert isinstance(tasks[4].exception(), TooMany)
    other = asyncio.create_task(work(new_id()))
    while running < 3:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert most == 3  # two of hers, and the other
    go.set()
    await asyncio.gather(*tasks[:4], other)
    assert (running, slots._lines) == (0, {})
    impatient = KeyedSemaphore(at_once=1, waiting=1, wait_s=0.01)
    async with impatient.hold("ada"):
        with pytest.raises(TooMany):
            async with impatient.hold("ada"):
                pass
    assert impatient._lines == {}
