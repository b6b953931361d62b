"""What both clients make of a connection: kept, lost, never there, by way of a proxy."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gadget_ai.client import Timeouts
from gadget_ai.testing.script import Reply, Text
from gadget_api.errors import ErrorCode
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import MakeStage, text
from tests.gadget_ai.test_clients import both, refused

Respond = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OPENAI = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
OLLAMA = b'{"message":{"role":"assistant","content":"ok"},"done":true,"done_reason":"stop"}\n'


def answer_of(api: ApiType) -> bytes:
    body, kind = (OPENAI, b"text/event-stream") if api is ApiType.OPENAI else (OLLAMA, b"application/x-ndjson")
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


async def request(reader: asyncio.StreamReader) -> bytes:
    """One, with its body: its first line."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return head.partition(b"\r\n")[0]


@asynccontextmanager
async def listening(respond: Respond) -> AsyncIterator[str]:
    """Its address."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await respond(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@both
async def test_the_next_call_reuses_the_connection(api: ApiType, make_stage: MakeStage) -> None:
    connections = 0

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request(reader)
            writer.write(answer_of(api))

    async with listening(respond) as address:
        stage = await make_stage(api, base_url=f"http://{address}")
        assert [text(await stage.ask()) for _ in range(3)] == ["ok"] * 3
        await stage.client.close()
    assert connections == 1


@both
async def test_a_closed_connection_is_replaced(api: ApiType, make_stage: MakeStage) -> None:
    closed = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer_of(api))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with listening(respond) as address:
        stage = await make_stage(api, base_url=f"http://{address}")
        for _ in range(3):
            assert text(await stage.ask()) == "ok"
            await asyncio.wait_for(closed.wait(), 5)
            closed.clear()


@both
async def test_a_connection_closed_before_the_answer_is_cut_off(api: ApiType, make_stage: MakeStage) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)

    async with listening(respond) as address:
        stage = await make_stage(api, base_url=f"http://{address}")
        caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_CUT_OFF, True)


@both
async def test_a_response_that_is_not_http_is_an_error(api: ApiType, make_stage: MakeStage) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
        await writer.drain()

    async with listening(respond) as address:
        stage = await make_stage(api, base_url=f"http://{address}")
        caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_CUT_OFF, True)


@both
async def test_a_tls_handshake_that_hangs_is_a_timeout(api: ApiType, make_stage: MakeStage) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(respond) as address:
        stage = await make_stage(api, base_url=f"https://{address}", timeouts=Timeouts(connect_s=0.2))
        caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_TIMEOUT, True)
    assert "0.2 seconds" in caught.message


@both
async def test_a_server_without_tls_is_unreachable_by_https(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("never")))
    plain = stage.server.root_url.partition("://")[2]
    stage = await make_stage(api, base_url=f"https://{plain}")
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_UNREACHABLE, True)


@both
async def test_the_proxy_comes_from_the_environment(
    api: ApiType, make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await request(reader))
        writer.write(answer_of(api))
        await writer.drain()

    async with listening(respond) as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
        monkeypatch.setenv("NO_PROXY", "")
        stage = await make_stage(api, base_url="http://models.invalid")
        assert text(await stage.ask()) == "ok"
        await stage.client.close()
    assert asked[0].startswith(b"POST http://models.invalid/")
