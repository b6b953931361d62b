"""Each behaviour of the proxy is what it says: what a fault test proves hangs on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.faults.proxy import BLACK_HOLE, FAIR, Proxy, Way, Weather

WAIT_S = 10.0


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of an echo that says "bye" at the end of its input."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
            writer.write(b"bye")
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with Proxy(server.sockets[0].getsockname()[1]) as made:
        yield made
    server.close()
    await server.wait_closed()


async def dial(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    writer.write(data)
    return await asyncio.wait_for(reader.readexactly(len(data)), WAIT_S)


async def is_silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), 0.3)
    except TimeoutError:
        return True
    return False


async def until_reset(reader: asyncio.StreamReader) -> bytes:
    """What came before the reset."""
    came = b""
    with pytest.raises(ConnectionResetError):  # noqa: PT012  (which of the reads meets it is the network's choice)
        while data := await asyncio.wait_for(reader.read(65_536), WAIT_S):
            came += data
    return came


async def test_bytes_and_ends_pass_in_both_directions(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    data = bytes(range(256)) * 4096
    assert await echoed(reader, writer, data) == data
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), WAIT_S) == b"bye"
    assert proxy.passed_bytes == 2 * len(data) + 3
    writer.close()


async def test_a_delay_is_waited_for_in_each_direction(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    await echoed(reader, writer, b"x")
    proxy.weather = Weather(delay_s=0.2)
    begun = asyncio.get_running_loop().time()
    await echoed(reader, writer, b"x")
    assert asyncio.get_running_loop().time() - begun >= 0.4
    writer.close()


async def test_a_throttled_link_takes_its_time_and_loses_nothing(proxy: Proxy) -> None:
    proxy.weather = Weather(bytes_per_s=10_000)
    reader, writer = await dial(proxy)
    begun = asyncio.get_running_loop().time()
    assert await echoed(reader, writer, b"z" * 10_000) == b"z" * 10_000
    assert asyncio.get_running_loop().time() - begun >= 0.8
    writer.close()


async def test_a_cut_comes_after_exactly_so_many_bytes_and_once(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    await echoed(reader, writer, b"before")
    proxy.cut_after(1000)
    before = proxy.passed_bytes
    writer.write(b"z" * 4000)
    assert set(await until_reset(reader)) <= {ord("z")}
    assert proxy.passed_bytes - before == 1000
    writer.close()
    reader, writer = await dial(proxy)
    assert await echoed(reader, writer, b"z" * 4000) == b"z" * 4000
    writer.close()


async def test_a_reset_is_an_rst_on_both_sides(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    await echoed(reader, writer, b"x")
    proxy.reset()
    await until_reset(reader)
    writer.close()


async def test_a_link_that_is_cut_refuses_until_it_is_restored(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    await echoed(reader, writer, b"x")
    await proxy.cut()
    await until_reset(reader)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await dial(proxy)
    await proxy.calm()
    reader, writer = await dial(proxy)
    assert await echoed(reader, writer, b"again") == b"again"
    writer.close()


async def test_a_black_hole_takes_connections_and_bytes_and_answers_nothing(proxy: Proxy) -> None:
    old = await dial(proxy)
    await echoed(*old, b"x")
    proxy.weather = BLACK_HOLE
    fresh = await dial(proxy)
    for reader, writer in (old, fresh):
        writer.write(b"lost")
        assert await is_silent(reader)
    proxy.weather = FAIR
    for reader, writer in (old, fresh):
        await until_reset(reader)
        writer.close()
    reader, writer = await dial(proxy)
    assert await echoed(reader, writer, b"again") == b"again"
    writer.close()


async def test_a_half_open_link_loses_one_direction_only(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    await echoed(reader, writer, b"x")
    proxy.weather = Weather(swallowed=Way.DOWN)
    before = proxy.passed_bytes
    writer.write(b"arrives")
    assert await is_silent(reader)
    assert proxy.passed_bytes - before == len(b"arrives")
    writer.close()


async def test_what_was_held_arrives_late_and_whole(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    proxy.weather = Weather(held=Way.BOTH)
    writer.write(b"late")
    assert await is_silent(reader)
    proxy.weather = FAIR
    assert await asyncio.wait_for(reader.readexactly(4), WAIT_S) == b"late"
    writer.close()


async def test_a_flapping_link_goes_down_and_up_and_is_calm_after(proxy: Proxy) -> None:
    proxy.flap(seed=7)
    async with asyncio.timeout(WAIT_S):
        for _ in range(3):
            try:
                reader, writer = await dial(proxy)
                while await reader.read(1):
                    pass
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
    await proxy.calm()
    reader, writer = await dial(proxy)
    assert await echoed(reader, writer, b"calm") == b"calm"
    writer.close()


async def test_nobody_behind_it_is_a_reset() -> None:
    async with Proxy(9) as nowhere:
        reader, writer = await dial(nowhere)
        await until_reset(reader)
        writer.close()
