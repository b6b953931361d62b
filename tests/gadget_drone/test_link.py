"""The link, against other ends that are no Gadget Code server: it says so and dials again, and nothing breaks."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from gadget_api.errors import ErrorCode, Unavailable
from gadget_api.model import WireModel
from gadget_api.protocol import Peer, events_between
from gadget_drone.service.link import Link
from tests.gadget_drone.test_wire import played

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"what?\r\n\r\n")


async def a_page(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")


async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("answer", [nonsense, a_page, nothing])
async def test_an_end_that_is_no_server_is_dialled_again(answer: Answer) -> None:
    dialled: asyncio.Queue[None] = asyncio.Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.put_nowait(None)
        await reader.readline()
        await answer(reader, writer)
        writer.close()

    async def never(_: object = None) -> None:
        raise AssertionError("nothing is said to us")

    link = Link({name: never for name in events_between(Peer.WEB, Peer.DRONE)}, never, lambda: None)
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    running = asyncio.create_task(link.run(url, lambda: "token"))
    try:
        async with asyncio.timeout(20):
            for _ in range(3):
                await dialled.get()
        assert not running.done()
        assert not link.is_up
        with pytest.raises(ConnectionError):
            await link.send("response", b"{}")
    finally:
        running.cancel()
        await asyncio.wait([running])
        await link.drop()
        server.close()
        await server.wait_closed()
    assert running.cancelled()


@pytest.mark.parametrize("answer", ["null", '"yes"', "[]", "{}", '{"ok":false}', '{"ok":false,"error":{"code":7}}'])
async def test_an_answer_that_is_none_is_no_yes(answer: str) -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.data.startswith("42"):
                number = message.data[2 : message.data.index("[")]
                await socket.send_str(f"43{number}[{answer}]")

    up = asyncio.Event()

    async def on_up() -> None:
        up.set()

    async def never(_: object) -> None:
        raise AssertionError("nothing is said to us")

    link = Link({name: never for name in events_between(Peer.WEB, Peer.DRONE)}, on_up, lambda: None)
    async with played(answers) as url:
        running = asyncio.create_task(link.run(url, lambda: "token"))
        try:
            async with asyncio.timeout(20):
                await up.wait()
                with pytest.raises(Unavailable) as caught:
                    await link.call("droneStatus", WireModel())
            assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
        finally:
            running.cancel()
            await asyncio.wait([running])
            await link.drop()
