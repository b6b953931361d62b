"""Frames of real connections; where silence counts, with a server whose patience is short."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvicorn

from gadget_api.protocol import SOCKET_PATH
from gadget_code.sockets.frames import LocalManager
from gadget_code.sockets.server import SocketServer

_WAIT_S = 10
_PATIENCE_S = 3.0
"""Longer than a machine holds its breath: server and client share a loop."""


@asynccontextmanager
async def _served(server: SocketServer) -> AsyncIterator[str]:
    async def nothing(*_: Any) -> None:
        raise NotImplementedError

    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(server.asgi(nothing), lifespan="off", log_level="warning", ws="websockets-sansio")
        web = uvicorn.Server(config)
        serving = asyncio.create_task(web.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}{SOCKET_PATH}?EIO=4&transport=websocket"
        finally:
            web.should_exit = True
            await asyncio.wait_for(serving, _WAIT_S)


@pytest.fixture
def server() -> SocketServer:
    return SocketServer([], LocalManager())


@pytest.fixture
def impatient(server: SocketServer) -> SocketServer:
    server.eio.ping_interval, server.eio.ping_timeout = 0.1, _PATIENCE_S
    return server


class _Client:
    """Speaks frames, and answers no ping unless it is told to."""

    def __init__(self, wire: aiohttp.ClientWebSocketResponse) -> None:
        self.wire = wire
        self.heard: list[str] = []
        self._heard = asyncio.Condition()

    async def until(self, count: int) -> None:
        """Returns when so many frames came."""
        async with asyncio.timeout(_WAIT_S), self._heard:
            await self._heard.wait_for(lambda: len(self.heard) >= count)

    async def sign_in(self) -> None:
        assert (await self.wire.receive_str()).startswith("0")
        await self.wire.send_str("40")
        assert (await self.wire.receive_str()).startswith("40")

    async def listen(self, *, answers: bool) -> None:
        """Until the server closes."""
        async for message in self.wire:
            if message.data == "2":
                if answers:
                    await self.wire.send_str("3")
            else:
                async with self._heard:
                    self.heard.append(message.data)
                    self._heard.notify_all()


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[_Client]:
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as wire:
        client = _Client(wire)
        await client.sign_in()
        yield client


async def test_a_connection_that_is_silent_ends(impatient: SocketServer) -> None:
    left = asyncio.Event()
    impatient.on("disconnect", lambda sid, reason: left.set())
    async with _served(impatient) as url, _client(url) as client:
        await asyncio.wait_for(client.listen(answers=False), _WAIT_S)
        await asyncio.wait_for(left.wait(), _WAIT_S)


async def test_a_connection_that_answers_pings_stays(impatient: SocketServer) -> None:
    async with _served(impatient) as url, _client(url) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.listen(answers=True), 1.5 * _PATIENCE_S)


async def test_a_long_handler_does_not_count_as_silence(impatient: SocketServer) -> None:
    async def slow(sid: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    impatient.on("slow", slow)
    async with _served(impatient) as url, _client(url) as client:
        # Handled one after the other: the pong that follows waits for it, as the server does.
        impatient.eio.ping_timeout = 10 * _PATIENCE_S
        listening = asyncio.create_task(client.listen(answers=True))
        await client.wire.send_str(f'421["slow",{1.5 * _PATIENCE_S}]')
        await client.until(1)
        assert client.heard == ['431["done"]']
        listening.cancel()


async def test_everyone_in_a_room_gets_every_event_in_order(server: SocketServer) -> None:
    async def join(sid: str, _: Any) -> str:
        await server.enter_room(sid, "room")
        return "in"

    async def say(sid: str, number: int) -> None:
        await server.emit("said", {"n": number}, room="room")

    server.on("join", join)
    server.on("say", say)
    async with _served(server) as url, _client(url) as one, _client(url) as two:
        listening = [asyncio.create_task(client.listen(answers=True)) for client in (one, two)]
        for client in (one, two):
            await client.wire.send_str('421["join",0]')
            await client.until(1)
        for number in range(300):
            await one.wire.send_str(f'42["say",{number}]')
        wanted = ['431["in"]', *(f'42["said",{{"n":{number}}}]' for number in range(300))]
        for client in (one, two):
            await client.until(len(wanted))
        assert one.heard == two.heard == wanted
        for task in listening:
            task.cancel()


async def test_a_failing_handler_loses_one_frame(server: SocketServer) -> None:
    async def fail(sid: str, _: Any) -> None:
        raise LookupError("on purpose")

    async def work(sid: str, _: Any) -> str:
        return "worked"

    server.on("fail", fail)
    server.on("work", work)
    async with _served(server) as url, _client(url) as client:
        listening = asyncio.create_task(client.listen(answers=True))
        await client.wire.send_str('42["fail",0]')
        await client.wire.send_str('421["work",0]')
        await client.until(1)
        assert client.heard == ['431["worked"]']
        listening.cancel()


@pytest.mark.parametrize("kind", ["1", "3", "4"])
async def test_json_of_any_depth_is_an_ordinary_frame(impatient: SocketServer, kind: str) -> None:
    left = asyncio.Event()
    impatient.on("disconnect", lambda sid, reason: left.set())
    async with _served(impatient) as url, _client(url) as client:
        await client.wire.send_str(kind + "[" * 200_000)
        await asyncio.wait_for(client.listen(answers=False), _WAIT_S)
        assert client.wire.close_code == 1000
        await asyncio.wait_for(left.wait(), _WAIT_S)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "a socket's writer"]


async def test_plain_json_is_not_a_packet(impatient: SocketServer) -> None:
    said: list[Any] = []
    impatient.on("say", lambda sid, what: said.append(what))
    async with _served(impatient) as url, _client(url) as client:
        await client.wire.send_str('4"2[\\"say\\",0]"')
        await asyncio.wait_for(client.listen(answers=False), _WAIT_S)
        assert said == []


async def test_a_closed_connection_cannot_authenticate(impatient: SocketServer) -> None:
    came: list[str] = []
    impatient.on("connect", lambda sid, environ, auth: came.append(sid))
    async with _served(impatient) as url, _client(url) as client:
        for frame in ("1", "40", '42["say",0]'):
            await client.wire.send_str(frame)
        await asyncio.wait_for(client.listen(answers=False), _WAIT_S)
        assert len(came) == 1
        assert impatient.manager.rooms == {}
