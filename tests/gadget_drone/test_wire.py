"""One Socket.IO connection, against python-socketio's server, and against other ends that play what it does not do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
import socketio
from aiohttp import WSMsgType, web

from gadget_drone.service.wire import Answer, Refused, Wire
from tests.wire_json import WireJson

OPEN = {"sid": "s", "upgrades": [], "pingInterval": 60_000, "pingTimeout": 60_000, "maxPayload": 1_000_000}
"""Silence is the end of a connection after two minutes: no test waits for that."""
SOON = OPEN | {"pingInterval": 100, "pingTimeout": 2_000}
Plays = Callable[[web.WebSocketResponse], Awaitable[None]]


def nobody(event: str, payload: Any, answer: Answer) -> None:
    raise AssertionError("nothing is said to us")


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[str]:
    """Its URL."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def served(server: socketio.AsyncServer) -> AsyncIterator[str]:
    app = web.Application()
    server.attach(app)
    async with listening(app) as url:
        yield url


@asynccontextmanager
async def played(plays: Plays, opening: dict[str, Any] = OPEN) -> AsyncIterator[str]:
    """An end that lets whoever dials in, and goes on as `plays` says."""

    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("0" + orjson.dumps(opening).decode())
        assert (await socket.receive_str()).startswith("40")
        await socket.send_str('40{"sid":"s"}')
        await plays(socket)
        return socket

    app = web.Application()
    app.router.add_get("/socket.io/", answer)
    async with listening(app) as url:
        yield url


@asynccontextmanager
async def dialled(url: str, take: Callable[[str, Any, Answer], None] = nobody, **auth: Any) -> AsyncIterator[Wire]:
    async with asyncio.timeout(20):
        wire = await Wire.dial(url, auth, take)
        try:
            yield wire
        finally:
            await wire.close()


@pytest.fixture
def server() -> socketio.AsyncServer:
    return socketio.AsyncServer(
        async_mode="aiohttp", json=WireJson, cors_allowed_origins="*", ping_interval=0.1, ping_timeout=2
    )


async def test_events_go_both_ways_in_their_order_and_are_answered(server: socketio.AsyncServer) -> None:
    heard: list[Any] = []
    tasks: set[asyncio.Task[None]] = set()
    said = asyncio.Event()

    async def connect(_sid: str, _environ: Any, auth: Any) -> None:
        heard.append(auth)

    async def asked(_sid: str, payload: Any) -> Any:
        return {"ok": True, "said": payload}

    async def event(_sid: str, payload: Any) -> None:
        heard.append(payload["n"])

    for name, handler in (("connect", connect), ("asked", asked), ("event", event)):
        server.on(name, handler)

    def take(name: str, payload: Any, answer: Answer) -> None:
        tasks.add(asyncio.ensure_future(answer([name, payload])))
        if name == "said":
            said.set()

    async with served(server) as url, dialled(url, take, token="é") as wire:
        for n in range(20):
            await wire.emit("event", b'{"n":%d}' % n)
        assert await wire.call("asked", '{"x":"é"}'.encode()) == {"ok": True, "said": {"x": "é"}}
        assert heard == [{"token": "é"}, *range(20)]
        [sid] = [sid for sid, _ in server.manager.get_participants("/", None)]
        assert await server.call("question", {"y": 1}, to=sid, timeout=5) == ["question", {"y": 1}]
        await server.emit("said", {"z": "é"}, to=sid)
        await said.wait()
        assert not wire.lost.is_set()


async def test_a_refusal_says_why(server: socketio.AsyncServer) -> None:
    async def connect(_sid: str, _environ: Any, _auth: Any) -> None:
        raise socketio.exceptions.ConnectionRefusedError("no", {"code": "notAuthenticated"})

    server.on("connect", connect)
    async with served(server) as url:
        with pytest.raises(Refused) as caught:
            async with dialled(url):
                pass
    assert caught.value.said["data"] == {"code": "notAuthenticated"}


async def test_pings_are_answered(server: socketio.AsyncServer) -> None:
    async with served(server) as url, dialled(url) as wire:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):  # both ends have given up a silent one by then
                await wire.lost.wait()


async def test_a_ping_may_come_before_the_welcome() -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("0" + orjson.dumps(OPEN).decode())
        assert (await socket.receive_str()).startswith("40")
        await socket.send_str("2")
        assert await socket.receive_str() == "3"
        await socket.send_str('40{"sid":"s"}')
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/socket.io/", answer)
    async with listening(app) as url, dialled(url) as wire:
        assert not wire.lost.is_set()


@pytest.mark.parametrize(
    "frame",
    [
        *("", "0", "0{}", "0[]", "hello", "1"),
        '0{"pingInterval":0,"pingTimeout":0}',
        '0{"pingInterval":1e308,"pingTimeout":1e308}',
    ],
)
async def test_an_end_that_speaks_otherwise_is_no_server(frame: str) -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(frame)
        async for message in socket:
            if message.data.startswith("40"):
                await socket.send_str('40{"sid":"s"}')
        return socket

    app = web.Application()
    app.router.add_get("/socket.io/", answer)
    async with listening(app) as url:
        with pytest.raises(ConnectionError):
            async with dialled(url):
                pass


async def test_an_end_that_is_silent_is_lost() -> None:
    async def silent(socket: web.WebSocketResponse) -> None:
        async for _ in socket:
            pass

    async with played(silent, SOON) as url, dialled(url) as wire:
        with pytest.raises(ConnectionError):
            await wire.call("asked", b"{}")
        assert wire.lost.is_set()
        with pytest.raises(ConnectionError):
            await wire.emit("event", b"{}")


@pytest.mark.parametrize(
    "frame", ["1", "41", '44{"message":"x"}', "42nonsense", "42[", '43["x"]', "42[]", "42[{}]", "42[7]"]
)
async def test_an_end_and_nonsense_end_the_connection(frame: str) -> None:
    async def ending(socket: web.WebSocketResponse) -> None:
        await socket.send_str(frame)
        async for _ in socket:
            pass

    async with played(ending) as url, dialled(url) as wire:
        await wire.lost.wait()


async def test_what_is_no_text_ends_the_connection() -> None:
    async def binary(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"42")
        async for _ in socket:
            pass

    async with played(binary) as url, dialled(url) as wire:
        await wire.lost.wait()


async def test_closing_says_so_and_ends_who_waits() -> None:
    heard: list[Any] = []

    async def listens(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            heard.append(message.data)
        heard.append(WSMsgType.CLOSE)

    async with played(listens) as url, dialled(url) as wire:
        asking = asyncio.create_task(wire.call("asked", b"{}"))
        await asyncio.sleep(0)
        await wire.close()
        with pytest.raises(ConnectionError):
            await asking
    assert heard == ['421["asked",{}]', "41", WSMsgType.CLOSE]
