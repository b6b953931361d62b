"""Terminals end to end: a real web service, a real drone, real shells."""

import base64
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Reply, Script, Text
from gadget_api.terminals import SCROLLBACK_BYTES
from tests.gadget_code.peers import Played, PlayedDrone, a_turn
from tests.gadget_drone.tools.test_shell import is_running
from tests.harness import Drone, Ide, User, Web, repository, until
from tests.interaction.test_two_web_processes import redis_url, two_webs

__all__ = ["redis_url", "two_webs"]  # fixtures


class Viewer:
    """A socket of the user's, and what it makes of one terminal as a page does."""

    def __init__(self, ide: Ide, session: str) -> None:
        self.ide = ide
        self.session = session
        self.terminal = ""
        self.begin = 0
        self.said = b""

    async def call(self, event: str, **fields: Any) -> dict[str, Any]:
        return await self.ide.call(event, {"chatSessionId": self.session, **fields})

    async def open(self) -> str:
        opened = await self.call("openTerminal", columns=80, rows=24)
        assert opened["ok"], opened
        return str(opened["terminal"]["_id"])

    async def attach(self, terminal: str) -> dict[str, Any]:
        after = self.begin + len(self.said) if self.terminal == terminal else 0
        answer = await self.call("attachTerminal", terminalId=terminal, after=after)
        assert answer["ok"], answer
        self.terminal = terminal
        if answer["offset"] != after or after == 0:
            self.begin, self.said = answer["offset"], b""
        self.said += base64.b64decode(answer["data"])
        return answer

    async def type(self, text: str) -> None:
        data = base64.b64encode(text.encode()).decode()
        reply = await self.call("writeTerminal", terminalId=self.terminal, data=data)
        assert reply["ok"], reply

    @property
    def seen(self) -> bytes:
        """All of it, each byte once; up to the first gap."""
        whole, end = self.said, self.begin + len(self.said)
        for name, payload in self.ide.received:
            if name == "terminalOutput" and payload["terminalId"] == self.terminal:
                data, offset = base64.b64decode(payload["data"]), payload["offset"]
                if offset <= end < offset + len(data):
                    whole += data[end - offset :]
                    end = offset + len(data)
        return whole

    async def until(self, text: bytes) -> None:
        await self.ide.until(lambda *_: text in self.seen)


async def until_same(one: Viewer, other: Viewer) -> None:
    """A prompt after what was waited for may have reached one of them only."""

    async def same() -> bool | None:
        return True if one.seen == other.seen else None

    await until(same)


@pytest.fixture
async def drone(user: User, tmp_path: Path) -> AsyncIterator[Drone]:
    drone = await Drone.at(tmp_path, user, SHELL="/bin/sh")
    yield drone
    drone.stop()
    assert "Traceback" not in drone.output, drone.output


@pytest.fixture
async def session(user: User) -> str:
    project = await user.project("https://example.org/a.git")
    provider = await user.provider("http://127.0.0.1:9/v1")
    return str((await user.session(project, provider))["_id"])


@pytest.fixture
async def viewer(user: User, drone: Drone, session: str) -> AsyncIterator[Viewer]:
    async with Ide(user) as ide:
        yield Viewer(ide, session)


async def shell_pid(viewer: Viewer, drone: Drone) -> int:
    await viewer.type("echo $$ > shell-pid; echo writt''en\n")
    await viewer.until(b"written\r\n")
    return int((drone.workspace / "shell-pid").read_text())


async def gone(pid: int) -> bool | None:
    return True if not is_running(pid) else None


async def test_two_sockets_see_the_same_whenever_they_came(viewer: Viewer, user: User) -> None:
    terminal = await viewer.open()
    await viewer.attach(terminal)
    await viewer.type("echo fir''st\n")
    await viewer.until(b"first\r\n")
    async with Ide(user) as other_ide:
        other = Viewer(other_ide, viewer.session)
        listed = await other.call("listTerminals")
        assert [one["_id"] for one in listed["terminals"]] == [terminal]
        await other.attach(terminal)
        await other.until(b"first\r\n")
        await other.type("echo sec''ond\n")
        await viewer.until(b"second\r\n")
        await other.until(b"second\r\n")
        await until_same(viewer, other)
        assert viewer.seen.count(b"first\r\n") == viewer.seen.count(b"second\r\n") == 1
        await other.call("resizeTerminal", terminalId=terminal, columns=101, rows=33)
        await viewer.ide.until(lambda name, p: name == "terminalChanged" and p["terminal"]["columns"] == 101)
        await viewer.type("stty size\n")
        await other.until(b"33 101\r\n")
        # Who has detached hears nothing more.
        await other.call("detachTerminal", terminalId=terminal)
        heard = len(other_ide.received)
        await viewer.type("echo thi''rd\n")
        await viewer.until(b"third\r\n")
        await other.call("listTerminals")
        assert not [p for name, p in other_ide.received[heard:] if name == "terminalOutput"]


async def test_another_user_is_refused_everything(viewer: Viewer, web: Web) -> None:
    terminal = await viewer.open()
    await viewer.attach(terminal)
    async with await web.user("eve") as eve, PlayedDrone(eve) as spy, Ide(eve) as ide:
        foreign = Viewer(ide, viewer.session)
        data = base64.b64encode(b"x").decode()
        requests: dict[str, dict[str, Any]] = {
            "listTerminals": {},
            "openTerminal": {"columns": 80, "rows": 24},
            "attachTerminal": {"terminalId": terminal, "after": 0},
            "writeTerminal": {"terminalId": terminal, "data": data},
            "resizeTerminal": {"terminalId": terminal, "columns": 80, "rows": 24},
            "closeTerminal": {"terminalId": terminal},
        }
        for event, fields in requests.items():
            reply = await foreign.call(event, **fields)
            assert reply["error"]["code"] == "notFound", (event, reply)
        # Nor does her own drone speak for a terminal of another's.
        heard = len(viewer.ide.received)
        await spy.call("terminalOutput", {"terminalId": terminal, "offset": 0, "data": data})
        listed = await viewer.call("listTerminals")
        document = {**listed["terminals"][0], "title": "forged"}
        refused = await spy.call("terminalChanged", {"terminal": document})
        assert refused["error"]["code"] == "notFound"
        await viewer.type("echo st''ill\n")
        await viewer.until(b"still\r\n")
        told = [p for name, p in viewer.ide.received[heard:] if name == "terminalChanged"]
        assert all(p["terminal"]["title"] != "forged" for p in told)
        assert b"x" not in viewer.seen.replace(b"exit", b"")


async def test_a_terminal_of_one_session_is_none_of_another(viewer: Viewer, user: User) -> None:
    terminal = await viewer.open()
    project = await user.project("https://example.org/b.git", slug="b")
    provider = await user.provider("http://127.0.0.1:9/v1")
    other = Viewer(viewer.ide, str((await user.session(project, provider))["_id"]))
    refused = await other.call("attachTerminal", terminalId=terminal, after=0)
    assert refused["error"]["code"] == "notFound"
    assert (await other.call("listTerminals"))["terminals"] == []


@pytest.mark.parametrize("how", ["deleted", "archived"])
async def test_with_its_session_a_terminal_ends(viewer: Viewer, user: User, drone: Drone, how: str) -> None:
    terminal = await viewer.open()
    await viewer.attach(terminal)
    pid = await shell_pid(viewer, drone)
    if how == "deleted":
        assert (await user.http.delete(f"/sessions/{viewer.session}")).is_success
    else:
        assert (await user.http.patch(f"/sessions/{viewer.session}", json={"archived": True})).is_success
    await viewer.ide.until(lambda name, p: name == "terminalClosed" and p["terminalId"] == terminal)
    await until(lambda: gone(pid))
    if how == "archived":
        refused = await viewer.call("openTerminal", columns=80, rows=24)
        assert "archived" in refused["error"]["message"]


async def test_a_drone_that_was_away_when_its_session_was_deleted_learns_it(
    viewer: Viewer, user: User, drone: Drone
) -> None:
    terminal = await viewer.open()
    await viewer.attach(terminal)
    pid = await shell_pid(viewer, drone)
    drone.signal(signal.SIGSTOP)

    async def offline() -> bool | None:
        found = await drone.registration()
        return True if found is not None and found["status"] == "offline" else None

    await until(offline)
    assert (await user.http.delete(f"/sessions/{viewer.session}")).is_success
    assert is_running(pid)
    drone.signal(signal.SIGCONT)
    await until(lambda: gone(pid))


async def test_a_killed_drone_leaves_no_shell(viewer: Viewer, drone: Drone) -> None:
    await viewer.attach(await viewer.open())
    pid = await shell_pid(viewer, drone)
    await viewer.type("trap '' HUP TERM; sleep 600\n")
    drone.kill()
    await until(lambda: gone(pid))


async def test_a_terminal_outlives_a_killed_web_service(mongodb_url: str, tmp_path: Path) -> None:
    web = Web.at(tmp_path / "web", mongodb_url)
    drone = None
    try:
        async with await web.user() as user:
            drone = await Drone.at(tmp_path, user, SHELL="/bin/sh")
            project = await user.project("https://example.org/a.git")
            session = str((await user.session(project, await user.provider("http://127.0.0.1:9/v1")))["_id"])
            async with Ide(user) as ide:
                viewer = Viewer(ide, session)
                terminal = await viewer.open()
                await viewer.attach(terminal)
                os.mkfifo(drone.workspace / "go")
                await viewer.type("echo bef''ore; cat go; echo aft''er\n")
                await viewer.until(b"before\r\n")
                seen = viewer.seen
                web.kill()
            (drone.workspace / "go").write_text("meanwhile\n")
            web.start()
            async with Ide(user) as ide:
                again = Viewer(ide, session)

                async def back() -> bool | None:
                    return True if (await again.call("listTerminals"))["ok"] else None

                await until(back)  # the drone dials again
                again.terminal, again.said = terminal, seen
                await again.attach(terminal)
                await again.until(b"meanwhile\r\nafter\r\n")
                assert again.seen.startswith(seen)
                assert again.seen.count(b"meanwhile\r\n") == again.seen.count(b"before\r\n") == 1
    finally:
        if drone is not None:
            drone.stop()
        web.stop()


async def test_terminals_can_be_switched_off(user: User, session: str, tmp_path: Path) -> None:
    drone = await Drone.at(tmp_path, user, GADGET_TERMINALS="off")
    try:
        async with Ide(user) as ide:
            refused = await Viewer(ide, session).call("openTerminal", columns=80, rows=24)
            assert refused["error"]["code"] == "terminalsOff"
    finally:
        drone.stop()


async def test_a_drone_that_is_away_is_named(user: User, session: str) -> None:
    async with Ide(user) as ide:
        refused = await Viewer(ide, session).call("listTerminals")
        assert refused["error"]["code"] == "droneOffline"


async def test_a_shell_has_nothing_of_the_drones_settings(viewer: Viewer) -> None:
    await viewer.attach(await viewer.open())
    await viewer.type("echo COUNT=$(env | grep -c GADGET_)= TERM=$TERM=\n")
    await viewer.until(b"=xterm-256color=")
    assert b"COUNT=0=" in viewer.seen


async def test_the_events_of_a_turn_flow_while_a_terminal_says_without_end(stage_for: Any) -> None:
    """The drone's one socket carries both; a turn of 300 deltas takes no longer for `yes` beside it than seconds."""
    deltas = 300
    stage = await stage_for(Script([Reply(Text("word " * deltas, deltas=deltas, pause_s=0.005))]))
    viewer = Viewer(stage.ide, stage.session["_id"])
    await viewer.attach(await viewer.open())
    await viewer.type("yes\n")
    await viewer.until(b"y\r\ny\r\n" * 1000)
    turn = await stage.ide.submit(stage.session["_id"], "Go.")
    end = await stage.ide.until_complete(turn["_id"], timeout=20)
    assert end["success"] is True
    first = next(i for i, (name, p) in enumerate(stage.ide.received) if name == "response")
    between = [name for name, _ in stage.ide.received[first:]]
    assert "terminalOutput" in between  # it did go on
    assert between.count("response") > 20  # and the answer came in pieces, not at the end


async def test_a_socket_that_does_not_read_loses_output_and_nothing_else(user: User, session: str) -> None:
    """A drone that the test plays says more than is kept for a socket that reads nothing; what a turn says still
    arrives, and the connection stands."""
    async with PlayedDrone(user) as drone, Ide(user) as ide:
        terminal = {
            "_id": "t" * 24,
            "session": session,
            "createdAt": "2026-01-01T00:00:00.000Z",
            "title": "sh",
            "columns": 80,
            "rows": 24,
            "exitCode": None,
            "length": 0,
        }
        drone.answers["attachTerminal"] = {"ok": True, "terminal": terminal, "offset": 0, "data": ""}
        attached = await ide.call(
            "attachTerminal", {"chatSessionId": session, "terminalId": terminal["_id"], "after": 0}
        )
        assert attached["ok"], attached
        await ide.select(session)
        turn = await a_turn(user, {"_id": session})
        await drone.order(turn["_id"])
        data = base64.b64encode(b"x" * 65536).decode()
        transport = ide._socket.eio.ws._writer.transport
        transport.pause_reading()
        count = 400  # 35 MB: more than kernels keep
        for number in range(count):
            output = {"terminalId": terminal["_id"], "offset": number * 65536, "data": data}
            assert (await drone.call("terminalOutput", output))["ok"]
        played = Played(turn)
        await drone.send(played.response("still here"))
        transport.resume_reading()
        await ide.until(lambda name, p: name == "response" and p["content"] == "still here")
        offsets = [p["offset"] for name, p in ide.received if name == "terminalOutput"]
        assert 0 < len(offsets) < count
        await drone.send(played.complete())
        await ide.until_complete(turn["_id"])


async def test_it_does_not_matter_which_process_holds_whose_socket(two_webs: tuple[Web, Web], tmp_path: Path) -> None:
    one, two = two_webs
    drone = None
    try:
        async with await one.user() as user:
            drone = await Drone.at(tmp_path, user, SHELL="/bin/sh")
            elsewhere = User(two.url, user.email, user.password, user.token, user.document)
            async with elsewhere, Ide(elsewhere) as far, Ide(user) as near:
                origin = repository(tmp_path / "origin", {"a.txt": "a\n"})
                provider = await user.provider("http://127.0.0.1:9/v1")
                session = str((await user.session(await user.project(str(origin)), provider))["_id"])
                viewer, other = Viewer(far, session), Viewer(near, session)
                terminal = await viewer.open()
                await viewer.attach(terminal)
                await other.attach(terminal)
                await viewer.type("seq 1 20000; echo do''ne\n")
                for one_of_both in (viewer, other):
                    await one_of_both.until(b"done\r\n")
                await until_same(viewer, other)
                assert len(viewer.seen) < SCROLLBACK_BYTES
    finally:
        if drone is not None:
            drone.stop()
