"""What a hostile or broken client may do on its socket: end its own connection, and nothing else."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from gadget_api.events import MAX_EVENT_BYTES
from gadget_api.protocol import PROTOCOL_VERSION
from tests.gadget_code.peers import Played, PlayedDrone, RawSocket, a_session, a_turn, is_processing, raw_http
from tests.harness import Ide, User, Web, until


@pytest.fixture
async def witness(web: Web, user: User) -> AsyncIterator[Ide]:
    """Another connection, which has to stay unharmed."""
    async with Ide(user) as ide:
        yield ide
        reply = await ide.call("cancelTurn", {"turnId": "none"})
        assert reply["error"]["code"] == "notFound"


async def signed_in(raw: RawSocket, user: User) -> RawSocket:
    assert (await raw.sign_in({"token": user.token})).startswith("40")
    return raw


@pytest.mark.parametrize(
    "auth", [{}, None, "token", [1], {"token": None}, {"token": 7}, {"token": "x" * 43}, {"token": ""}]
)
async def test_without_a_good_token_a_socket_is_refused_with_a_code(web: Web, auth: Any) -> None:
    async with RawSocket(web.url) as raw:
        refused = await raw.sign_in(auth)
        assert refused.startswith("44")
        document = json.loads(refused[2:])
        assert document.keys() == {"message", "data"}
        assert document["data"] == {
            "code": "notAuthenticated",
            "message": document["message"],
            "retryable": False,
        }
        # And what it says then is not heard.
        await raw.send('421["selectSession",{"chatSessionId":"x"}]')
        assert (await raw.sign_in({"token": "still wrong"})).startswith("44")
        assert not any(frame.startswith("43") for frame in raw.frames)


async def test_a_revoked_token_is_refused(web: Web, user: User) -> None:
    await user.http.post("/auth/logout")
    async with RawSocket(web.url) as raw:
        assert "notAuthenticated" in await raw.sign_in({"token": user.token})


async def test_an_ide_needs_an_origin_and_is_told_which(web: Web, user: User) -> None:
    async with RawSocket(web.url, origin=None) as raw:
        refused = json.loads((await raw.sign_in({"token": user.token}))[2:])
        assert refused["data"]["code"] == "originNotAllowed"
        assert f"Origin: {web.url}" in refused["message"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1.evil.example", "https://127.0.0.1"]
)
async def test_another_origin_does_not_get_as_far_as_a_socket(web: Web, user: User, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await RawSocket(web.url, origin=origin).__aenter__()
    assert refused.value.response.status_code == 403
    answer = await user.http.post("/projects", json={}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "originNotAllowed")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4270", "", "127.0.0.1.evil.example", "[::2]"])
async def test_a_name_that_is_not_ours_is_not_answered(web: Web, user: User, host: str) -> None:
    """DNS rebinding: the browser believes that it talks to its own origin."""
    handshake = (
        f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {host}\r\nOrigin: {web.url}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert (await raw_http(web.url, handshake.encode())).startswith(b"HTTP/1.1 403 ")
    for path in ("/", "/health/live", "/api/v1/users/me"):
        async with httpx.AsyncClient() as http:
            answer = await http.get(web.url + path, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (403, "hostNotAllowed")


async def test_long_polling_is_refused(web: Web) -> None:
    async with httpx.AsyncClient(base_url=web.url) as http:
        for method in ("GET", "POST"):
            answer = await http.request(method, "/socket.io/", params={"EIO": "4", "transport": "polling"}, content="4")
            assert answer.status_code == 400


async def test_the_names_connect_and_disconnect_cannot_be_called(web: Web, user: User, witness: Ide) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        for id, name in enumerate(("connect", "disconnect", "connect_error"), 1):
            reply = await raw.call(name, {"token": "x"}, id=id)
            assert reply["error"]["code"] == "unknownEvent"
        assert not raw.closed.is_set()
        # A drone's own socket neither: it would say that the drone has left.
        async with PlayedDrone(user) as drone:
            assert (await drone.call("disconnect", "transport close"))["error"]["code"] == "unknownEvent"
            assert (await user.get(f"/drones/{drone.id}"))["status"] == "available"


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "x",
        "2",
        "5",
        "6",
        "9",
        "4",
        "4x",
        "44{}",
        "45",
        "47",
        "42",
        "42[]",
        "42{}",
        "42[1]",
        "42null",
        '42"selectSession"',
        "42[[]]",
        '42["a",',
        "4299999999999999999999",
        "43[]",
        "431",
        "431{}",
        '451-["selectSession",{"_placeholder":true,"num":0}]',
        '461-1[{"_placeholder":true,"num":0}]',
        "42" + "[" * 100_000,
        '42["\\ud800"]',
        b"binary",
        b"",
    ],
    ids=lambda frame: repr(frame)[:40],
)
async def test_a_frame_that_is_no_packet_closes_its_connection_alone(
    web: Web, user: User, witness: Ide, frame: str | bytes
) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        await raw.send(frame)
        await raw.until_closed(5)
    # The same from one that has not signed in.
    async with RawSocket(web.url) as raw:
        await raw.send(frame)
        await raw.until_closed(5)


async def test_a_second_sign_in_on_one_socket_closes_it(web: Web, user: User, witness: Ide) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        await raw.send("40" + json.dumps({"token": user.token}))
        await raw.until_closed(5)


async def test_another_namespace_is_refused(web: Web, user: User) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        await raw.send("40/admin," + json.dumps({"token": user.token}))
        assert "Unable to connect" in await raw.until(lambda frame: frame.startswith("44/admin,"))


async def test_an_oversized_frame_ends_its_connection_alone(web: Web, user: User, witness: Ide) -> None:
    for size in (MAX_EVENT_BYTES + 100, MAX_EVENT_BYTES * 3):
        async with RawSocket(web.url) as raw:
            await signed_in(raw, user)
            await raw.send('42["submitPrompt","' + "x" * size + '"]')
            await raw.until_closed(5)
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        reply = await raw.call("submitPrompt", "x" * (MAX_EVENT_BYTES - 100))
        assert reply["error"]["code"] == "invalidRequest"


@pytest.mark.parametrize("payload", [None, 1, "text", [], [{}], True])
async def test_a_payload_that_is_no_object_is_answered(web: Web, user: User, payload: Any) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        assert (await raw.call("selectSession", payload))["error"]["code"] == "invalidRequest"
        assert (await raw.call("selectSession", payload, payload, id=2))["error"]["code"] == "invalidRequest"
        assert (await raw.call("selectSession", id=3))["error"]["code"] == "invalidRequest"


async def test_a_wrong_payload_is_answered_without_what_it_held(web: Web, user: User) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        for id, payload in enumerate(
            (
                {"chatSessionId": {"$ne": None}},
                {"chatSessionId": "x", "after": {"turnId": "hunter2", "seq": -1}},
                {"chatSessionId": "hunter2" * 100},
                {"chatSessionId": "x", "y" * 5000: "hunter2"},
            ),
            1,
        ):
            reply = await raw.call("selectSession", payload, id=id)
            assert reply["error"]["code"] == "invalidRequest"
            assert "hunter2" not in json.dumps(reply)
            assert len(json.dumps(reply)) < 1000


async def test_drone_and_ide_events_are_told_apart_by_the_token_alone(web: Web, user: User) -> None:
    async with PlayedDrone(user) as drone, Ide(user) as ide:
        for event in ("droneStatus", "requestCrashRecovery", "response", "workOrderComplete", "turnAck", "nonsense"):
            reply = await ide.call(event, {"status": "available"})
            assert reply["error"]["code"] == "unknownEvent", event
        for event in ("selectSession", "submitPrompt", "cancelTurn", "steerTurn", "requestSessionLock", "nonsense"):
            reply = await drone.call(event, {"chatSessionId": "x"})
            assert reply["error"]["code"] == "unknownEvent", event
    async with RawSocket(web.url, origin=None) as raw:
        # Whatever else it claims to be.
        claim = {"token": drone.token, "kind": "ide", "user": "x", "drone": "y", "isAdmin": True}
        assert (await raw.sign_in(claim)).startswith("40")
        assert (await raw.call("selectSession", {}))["error"]["code"] == "unknownEvent"


async def test_an_unbound_drone_token_opens_no_socket(web: Web, user: User) -> None:
    async with RawSocket(web.url, origin=None) as raw:
        assert "register first" in await raw.sign_in({"token": await user.drone_token()})


@pytest.mark.parametrize(
    ("version", "behind"), [(PROTOCOL_VERSION + 1, "update the server"), (0, "update the client"), ("x", "the client")]
)
async def test_another_protocol_version_is_told_which_side_to_update(
    web: Web, user: User, version: Any, behind: str
) -> None:
    async with RawSocket(web.url) as raw:
        refused = await raw.sign_in({"token": user.token, "protocolVersion": version})
        assert "protocolMismatch" in refused
        assert behind in refused


async def test_a_flood_of_requests_is_limited_and_the_socket_stays(web: Web, user: User, witness: Ide) -> None:
    async with RawSocket(web.url) as raw:
        await signed_in(raw, user)
        begun = time.monotonic()
        for id in range(1000):
            await raw.send(f'42{id}["cancelTurn",{{"turnId":"none"}}]')
        await raw.until(lambda frame: frame.startswith("43999["))
        took_s = time.monotonic() - begun
        answers = [json.loads(f[f.index("[") :])[0]["error"] for f in raw.frames if f.startswith("43")]
        codes = [answer["code"] for answer in answers]
        assert len(codes) == 1000
        # 200 at once, and 50 a second.
        assert 200 <= codes.count("notFound") <= 201 + 50 * took_s
        assert codes.count("notFound") + codes.count("rateLimited") == 1000
        limited = next(answer for answer in answers if answer["code"] == "rateLimited")
        assert limited["retryable"] is True


async def test_sockets_that_never_sign_in_are_closed(web: Web, user: User) -> None:
    async with RawSocket(web.url) as silent, RawSocket(web.url) as refused:
        begun = time.monotonic()
        await refused.sign_in({"token": "wrong"})
        await silent.until_closed(14)
        await refused.until_closed(14)
        assert time.monotonic() - begun > 5


def _memory_bytes(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _silent_reader(web: Web, user: User, session: str) -> socket.socket:
    """A WebSocket that selects a session and then reads no more."""
    host, port = web.url.removeprefix("http://").split(":")
    raw = socket.create_connection((host, int(port)), timeout=10)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    raw.sendall(
        b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: " + f"{host}:{port}".encode() + b"\r\n"
        b"Origin: " + web.url.encode() + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    received = b""
    for awaited, text in (
        (b"0{", f'40{{"token":"{user.token}"}}'),
        (b"40{", f'42["selectSession",{{"chatSessionId":"{session}"}}]'),
    ):
        while awaited not in received:
            piece = raw.recv(4096)
            assert piece, received
            received += piece
        payload = text.encode()
        assert len(payload) < 126
        raw.sendall(b"\x81" + bytes([0x80 | len(payload)]) + b"\0\0\0\0" + payload)
    return raw


async def test_a_reader_that_does_not_read_is_cut_and_the_others_lose_nothing(web: Web, user: User) -> None:
    async with PlayedDrone(user) as drone, Ide(user) as ide:
        turn = await a_turn(user, await a_session(user))
        await drone.order(turn["_id"])
        await is_processing(user, turn["_id"])
        await ide.select(turn["session"])
        silent = await asyncio.to_thread(_silent_reader, web, user, turn["session"])
        try:
            before = _memory_bytes(web.pid)
            played = Played(turn)
            for _ in range(100):
                await drone.send(played.response("x" * 400_000))
                await drone.acked_or_revoked(turn["_id"], played.seq - 5)
            await drone.acked(turn["_id"], 100)
            assert _memory_bytes(web.pid) - before < 40_000_000
            assert "read too slowly and was closed" in web.output
            # The connection itself ends, too, though its reader never reads.
            port = silent.getsockname()[1]

            async def ended() -> bool | None:
                return None if _is_established(web, port) else True

            await until(ended, 25)
        finally:
            silent.close()
        await drone.send(played.complete())
        await ide.until_complete(turn["_id"])
        stored = await user.events(turn["_id"])
        assert ide.events(turn["_id"]) == stored
    # It can come back, and catch up.
    async with Ide(user) as back:
        await back.select(turn["session"], after=(turn["_id"], 3))
        await back.until_complete(turn["_id"])
        assert back.events(turn["_id"]) == stored[3:]


def _is_established(web: Web, client_port: int) -> bool:
    """Whether the service's end of this connection is open."""
    own = f":{int(web.url.rpartition(':')[2]):04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(f[1].endswith(own) and f[2].endswith(f":{client_port:04X}") and f[3] == "01" for f in lines)
