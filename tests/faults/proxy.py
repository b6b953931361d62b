"""A TCP link on loopback that can be made bad while it is in use."""

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Flag, auto
from typing import Self

from tests.ports import held_port

_READ_BYTES = 65_536
_TICK_S = 0.05
_CLOSE_S = 5.0
_FLAP_UP_S = (0.1, 1.2)
_FLAP_DOWN_S = (0.05, 0.6)


class Way(Flag):
    """Directions: UP is from the one who dials."""

    NONE = 0
    UP = auto()
    DOWN = auto()
    BOTH = UP | DOWN


@dataclass(frozen=True)
class Weather:
    """How bytes travel, on connections old and new."""

    delay_s: float = 0.0
    """What each read waits before it goes on."""
    bytes_per_s: int | None = None
    """In each direction of each connection; None is no limit."""
    held: Way = Way.NONE
    """Bytes wait, and arrive when the weather changes: what a network that was away for a while does."""
    swallowed: Way = Way.NONE
    """Bytes are lost, and nobody is told. A connection that lost some is reset when that ends: it would be garbled."""


FAIR = Weather()
BLACK_HOLE = Weather(swallowed=Way.BOTH)


class Proxy:
    """From a port of its own on 127.0.0.1 to `port` there. An async context manager; bounded at its end."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._weather = FAIR
        self._changed = asyncio.Event()
        self._left_bytes: int | None = None
        self._flapping: asyncio.Task[None] | None = None
        self.port = held_port()
        self.accepted = 0
        self.passed_bytes = 0

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.calm()
        await self.refuse()
        tasks = [task for pair in self._pairs for task in pair.tasks]
        self.reset()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def weather(self) -> Weather:
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._weather = weather
        for pair in list(self._pairs):
            if pair.lost_bytes and not weather.swallowed:
                pair.reset()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def refuse(self) -> None:
        """Nobody listens any more; what is connected stays."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            # Not `wait_closed`: in Python 3.12 it waits for the connections, too.
            await asyncio.sleep(0)

    async def accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    def reset(self) -> None:
        """Every connection gets an RST."""
        for pair in list(self._pairs):
            pair.reset()

    async def cut(self) -> None:
        """Connections are reset and new ones refused, until `accept`."""
        await self.refuse()
        self.reset()

    def cut_after(self, count: int) -> None:
        """`count` more bytes pass, both directions together; the connection with the next one is reset, once."""
        self._left_bytes = count

    def flap(self, seed: int) -> None:
        """Goes up and down until `calm`."""
        self._flapping = asyncio.create_task(self._flap(random.Random(seed)))

    async def calm(self) -> None:
        """Ends what is wrong: passes and accepts. Connections that lost bytes are reset."""
        if self._flapping is not None:
            self._flapping.cancel()
            with suppress(asyncio.CancelledError):
                await self._flapping
            self._flapping = None
        self._left_bytes = None
        self.weather = FAIR
        await self.accept()

    async def until(self, way: Way) -> Weather:
        """The weather, as soon as it lets bytes through in this direction."""
        while way in self._weather.held:
            await self._changed.wait()
        return self._weather

    def spend(self, count: int) -> int:
        """How many of `count` bytes may pass before the cut."""
        if self._left_bytes is not None:
            allowed = min(count, self._left_bytes)
            self._left_bytes = None if allowed < count else self._left_bytes - allowed
            count = allowed
        self.passed_bytes += count
        return count

    async def _flap(self, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*_FLAP_UP_S))
            await self.cut()
            await asyncio.sleep(dice.uniform(*_FLAP_DOWN_S))
            await self.accept()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        pair = _Pair(self, reader, writer)
        self._pairs.add(pair)
        pair.begin(self._to, lambda: self._pairs.discard(pair))


class _Pair:
    """One connection, and the one behind it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._near = (reader, writer)
        self._writers = [writer]
        self.tasks: list[asyncio.Task[None]] = []
        self.lost_bytes = 0

    def begin(self, port: int, on_end: Callable[[], None]) -> None:
        task = asyncio.create_task(self._carry(port))
        self.tasks.append(task)
        task.add_done_callback(lambda _: on_end())

    def reset(self) -> None:
        for writer in self._writers:
            endpoint: socket.socket | None = writer.get_extra_info("socket")
            if endpoint is not None and not writer.transport.is_closing():
                with suppress(OSError):
                    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        for task in self.tasks:
            task.cancel()

    async def _carry(self, port: int) -> None:
        try:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                self.reset()
                return
            self._writers.append(far_writer)
            reader, writer = self._near
            async with asyncio.TaskGroup() as ways:
                self.tasks.append(ways.create_task(self._pump(reader, far_writer, Way.UP)))
                self.tasks.append(ways.create_task(self._pump(far_reader, writer, Way.DOWN)))
        finally:
            for writer in self._writers:
                writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        """One direction, to its end; an end is passed on like a byte."""
        with suppress(OSError):
            while True:
                weather = self._proxy.weather
                size = _READ_BYTES if weather.bytes_per_s is None else max(1, int(weather.bytes_per_s * _TICK_S))
                data = await reader.read(size)
                weather = await self._proxy.until(way)
                if way in weather.swallowed:
                    self.lost_bytes += len(data) or 1
                    if not data:
                        await asyncio.Event().wait()  # the other side is not told; `reset` ends this
                    continue
                if weather.delay_s:
                    await asyncio.sleep(weather.delay_s)
                if not data:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                allowed = self._proxy.spend(len(data))
                writer.write(data[:allowed])
                await writer.drain()
                if allowed < len(data):
                    self.reset()
                    return
                if weather.bytes_per_s is not None:
                    await asyncio.sleep(len(data) / weather.bytes_per_s)
            return
        self.reset()
