"""Peers that keep the service waiting: half requests, drips, floods, and answers that nobody reads."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gadget_code.server.connection_limits import BODY_S, HEAD_S, STALLED_S, raise_file_limit
from tests.harness import Ide, User, Web, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="one machine has many addresses there, and /proc")

ATTACKERS = 5_000
SIGN_IN_S = 1.0
SLACK_S = 10.0
"""For a machine that does other things too, and the second between two looks."""


@pytest.fixture(scope="module")
def strict(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A service that takes few connections from one address."""
    web = Web.at(Path(tmp_path_factory.mktemp("strict")), mongodb_url, GADGET_CONNECTIONS_PER_ADDRESS="20")
    yield web
    web.stop()


class Peer:
    """A connection that the test writes by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def at(cls, web: Web, address: str, said: bytes = b"") -> "Peer":
        port = httpx.URL(web.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(said)
        return cls(reader, writer)

    async def ended(self) -> bytes:
        """What the service said until it ended the connection."""
        said = b""
        try:
            while piece := await self.reader.read(65536):
                said += piece
        except ConnectionError:
            pass
        return said

    async def drip(self, piece: bytes, every_s: float) -> None:
        """Sends `piece` again and again until the connection ends."""
        while not self.reader.at_eof() and self.reader.exception() is None and not self.writer.is_closing():
            self.writer.write(piece)
            await asyncio.sleep(every_s)


@asynccontextmanager
async def closed_at_end(peers: list[Peer]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for peer in peers:
            peer.writer.transport.abort()


def head(web: Web, line: str, **headers: str) -> bytes:
    fields = {"Host": httpx.URL(web.url).netloc.decode(), **{n.replace("_", "-"): v for n, v in headers.items()}}
    return "\r\n".join([f"{line} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items()), "", ""]).encode()


def half_head(web: Web) -> bytes:
    return head(web, "GET /health/live")[:-2]


def half_body(web: Web) -> bytes:
    return head(web, "POST /api/v1/auth/login", Content_Type="application/json", Content_Length="1000") + b"{"


def sockets_of(web: Web) -> int:
    """How many connections the process holds: those to its database are not among them, they come and go."""
    port = f":{httpx.URL(web.url).port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{fields[9]}]" for fields in lines if fields[1].endswith(port) and fields[3] != "0A"}
    found = 0
    for link in Path(f"/proc/{web.pid}/fd").iterdir():
        try:
            found += os.readlink(link) in inodes
        except FileNotFoundError:
            continue
    return found


async def best_sign_in_s(web: Web, user: User, address: str = "127.0.0.1", tries: int = 3) -> float:
    times = []
    for _ in range(tries):
        transport = httpx.AsyncHTTPTransport(local_address=address)
        async with httpx.AsyncClient(base_url=web.url, transport=transport, timeout=30) as http:
            begun = time.monotonic()
            answer = await http.post("/api/v1/auth/login", json={"email": user.email, "password": user.password})
            times.append(time.monotonic() - begun)
        assert answer.is_success, answer.text
    return min(times)


async def test_thousands_of_incomplete_requests_end_and_do_not_slow_sign_in(web: Web) -> None:
    attackers = min(ATTACKERS, raise_file_limit() - 1000)
    said = (b"", half_head(web), half_body(web), b"\r\n")
    peers: list[Peer] = []
    async with await web.user() as user, closed_at_end(peers):
        before = sockets_of(web)
        for start in range(0, attackers, 200):
            address = f"127.0.1.{1 + start // 200}"
            several = [Peer.at(web, address, said[n % len(said)]) for n in range(min(200, attackers - start))]
            peers += await asyncio.gather(*several)
        drips = {"head": b"x-a: b\r\n", "body": b" ", "nothing": b"\r\n"}
        begun = {"head": half_head(web), "body": half_body(web), "nothing": b""}
        drippers = [await Peer.at(web, "127.0.2.1", begun[name]) for name in drips]
        peers += drippers
        dripping = [
            asyncio.create_task(peer.drip(piece, 0.5)) for peer, piece in zip(drippers, drips.values(), strict=True)
        ]
        assert await best_sign_in_s(web, user) < SIGN_IN_S
        assert sockets_of(web) > before + attackers // 2  # they were all open meanwhile
        async with asyncio.timeout(HEAD_S + BODY_S + SLACK_S):
            await asyncio.gather(*(peer.ended() for peer in peers), *dripping)

        async def gone() -> bool | None:
            return sockets_of(web) <= before or None

        await until(gone, SLACK_S)


async def test_a_slow_second_request_is_ended(web: Web) -> None:
    whole = head(web, "GET /health/live")
    peers = [await Peer.at(web, "127.0.2.2", whole) for _ in range(2)]
    early = head(web, "POST /api/v1/auth/login", Content_Type="application/json", Content_Length="9000000")
    peers.append(await Peer.at(web, "127.0.2.2", early))
    async with closed_at_end(peers):
        for peer in peers:
            assert (await peer.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 ")
        drips = [b"\r\n", half_head(web)[:4], b" "]
        dripping = [asyncio.create_task(peer.drip(piece, 0.5)) for peer, piece in zip(peers, drips, strict=True)]
        async with asyncio.timeout(HEAD_S + BODY_S + SLACK_S):
            await asyncio.gather(*(peer.ended() for peer in peers), *dripping)


async def test_a_slow_but_steady_upload_succeeds(web: Web) -> None:
    body = b'{"email": "eve@example.org", "password": "' + b"x" * 40_000 + b'"}'
    login = head(web, "POST /api/v1/auth/login", Content_Type="application/json", Content_Length=str(len(body)))
    peer = await Peer.at(web, "127.0.2.3", login)
    async with closed_at_end([peer]):
        for start in range(0, len(body), 2000):
            peer.writer.write(body[start : start + 2000])
            await asyncio.sleep((BODY_S + 3) * 2000 / len(body))  # in all longer than a body may stay away
        assert (await asyncio.wait_for(peer.reader.readuntil(b"\r\n"), SLACK_S)).startswith(b"HTTP/1.1 422")


async def test_a_response_that_is_not_read_is_ended(web: Web) -> None:
    before = sockets_of(web)
    asked = head(web, "GET /openapi.json") * 100
    peers = [await Peer.at(web, "127.0.2.4", asked) for _ in range(5)]
    async with closed_at_end(peers):
        for peer in peers:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads

        async def held() -> bool | None:
            return sockets_of(web) >= before + 5 or None

        async def gone() -> bool | None:
            return sockets_of(web) <= before or None

        await until(held)
        await until(gone, 2 * STALLED_S + SLACK_S)


async def test_a_flood_displaces_only_its_own_incomplete_requests(strict: Web) -> None:
    async with await strict.user() as user, Ide(user) as ide:
        others = [await Peer.at(strict, "127.0.3.2", half_head(strict)) for _ in range(5)]
        flood = [await Peer.at(strict, "127.0.3.1", half_head(strict)) for _ in range(200)]
        async with closed_at_end(others + flood):
            for peer in flood[:180]:
                await asyncio.wait_for(peer.ended(), SLACK_S)
            # A sign-in from the same address, another address's half requests, and a socket go on.
            assert await best_sign_in_s(strict, user, "127.0.3.1") < SIGN_IN_S
            for peer in others:
                peer.writer.write(b"Connection: close\r\n\r\n")
                assert (await asyncio.wait_for(peer.ended(), SLACK_S)).startswith(b"HTTP/1.1 200")
            reply = await ide.call("selectSession", {"chatSessionId": "0" * 24, "after": None})
            assert reply["error"]["code"] == "notFound"


async def test_few_descriptors_are_enough_for_a_sign_in_under_attack(mongodb_url: str, tmp_path: Path) -> None:
    web = Web.at(tmp_path, mongodb_url)
    web.stop()
    web.command = ["sh", "-c", 'ulimit -S -n 400; ulimit -H -n 1024; exec "$@"', "sh", *web.command]
    web.start()
    peers: list[Peer] = []
    try:
        assert "this process may open 1024 files: 512 connections in all, 256 per address" in web.output
        async with await web.user() as user, closed_at_end(peers):
            for n in range(1500):
                peers.append(await Peer.at(web, f"127.0.4.{1 + n // 100}", half_head(web)))
            assert await best_sign_in_s(web, user) < SIGN_IN_S
            assert sockets_of(web) < 1024 - 256
    finally:
        web.stop()


async def test_more_sockets_than_an_address_may_have_are_refused(strict: Web) -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    handshake = head(
        strict,
        "GET /socket.io/?EIO=4&transport=websocket",
        **{"Origin": strict.url, "Connection": "Upgrade", "Upgrade": "websocket"},
        **{"Sec_WebSocket_Key": key, "Sec_WebSocket_Version": "13"},
    )
    peers: list[Peer] = []
    async with await strict.user() as user, closed_at_end(peers):
        for _ in range(20):
            peers.append(await Peer.at(strict, "127.0.3.3", handshake))
            assert (await peers[-1].reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 101")
        peers.append(await Peer.at(strict, "127.0.3.3", handshake))
        assert await asyncio.wait_for(peers[-1].ended(), SLACK_S) == b""
        assert await best_sign_in_s(strict, user, "127.0.3.4") < SIGN_IN_S
        # They do not sign in, and make room again.
        async with asyncio.timeout(HEAD_S + SLACK_S):
            await asyncio.gather(*(peer.ended() for peer in peers))
        assert await best_sign_in_s(strict, user, "127.0.3.3") < SIGN_IN_S


def test_the_parts_of_uvicorn_that_the_limits_use_exist() -> None:
    advice = "uvicorn changed: compare gadget_code/server/connection_limits.py with it, then change this list"
    for name in ("connection_made", "connection_lost", "data_received", "pause_writing", "resume_writing"):
        assert name in vars(H11Protocol), advice
        assert name in vars(WebSocketsSansIOProtocol), advice
    for name in ("on_response_complete", "handle_websocket_upgrade"):
        assert name in vars(H11Protocol), advice
    for name in ("conn", "flow", "transport"):
        assert f"self.{name}" in Path(str(sys.modules[H11Protocol.__module__].__file__)).read_text(), advice
