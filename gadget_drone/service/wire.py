"""One Socket.IO connection, as much of it as a drone and its service say: protocol 5 over Engine.IO 4, WebSocket alone,
one namespace, no attachments. https://socket.io/docs/v4/socket-io-protocol/

python-socketio's client takes each event through a queue, two tasks and four timers: 130 us of CPU where this takes 35.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import orjson

log = logging.getLogger(__name__)

Answer = Callable[[Any], Awaitable[None]]
"""Answers what was said to us; nobody hears it where no answer is asked for, or the connection is lost."""
Take = Callable[[str, Any, Answer], None]
"""Takes an event, its payload, and the way to answer. Must be quick."""

_WRITE_S = 20.0
"""For one frame to be written to the network; past that the connection is dead, whatever the socket says."""
_CLOSE_S = 5.0
_MAX_SILENCE_S = 300.0
"""The longest silence that a server may ask us to bear: of one that asks for more, or for none, we would never learn
that it is gone."""
_BROKEN = (aiohttp.ClientError, OSError, RuntimeError)
"""A connection that is lost, or closed by us."""


class Refused(ConnectionError):
    """The server does not let us in; `said` is what it said about that."""

    def __init__(self, said: Any) -> None:
        super().__init__("the server refuses the connection")
        self.said = said


class Wire:
    """From `dial` until `lost` is set; whoever dialled calls `close`."""

    def __init__(self, http: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse, take: Take) -> None:
        """For `dial`."""
        self._http = http
        self._socket = socket
        self._take = take
        self._silence_s = 0.0
        """How long the server may say nothing, not even a ping."""
        self._asked: dict[int, asyncio.Future[Any]] = {}
        """By number; 0 is the question whether we may come in."""
        self._last_id = 0
        self._reader: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        """Whether the connection is over."""

    @classmethod
    async def dial(cls, url: str, auth: dict[str, Any], take: Take) -> Self:
        """Connects to the server at `url` as whoever `auth` says. Raises Refused, ConnectionError; waits without
        bound."""
        to = urlsplit(url)
        address = f"{'wss' if to.scheme == 'https' else 'ws'}://{to.netloc}/socket.io/?EIO=4&transport=websocket"
        http = aiohttp.ClientSession()
        try:
            socket = await http.ws_connect(address, timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S))
        except BaseException as exc:
            await http.close()
            if isinstance(exc, (*_BROKEN, ValueError)):
                raise ConnectionError(f"no WebSocket server answers: {exc}") from exc
            raise
        wire = cls(http, socket, take)
        try:
            opened = orjson.loads((await socket.receive_str()).removeprefix("0"))
            wire._silence_s = (opened["pingInterval"] + opened["pingTimeout"]) / 1000
            if not 0 < wire._silence_s <= _MAX_SILENCE_S:
                raise ValueError("no server of ours is silent for so long")
            wire._reader = asyncio.create_task(wire._read(), name="wire")
            await wire._asking(0, b"40" + orjson.dumps(auth))
        except BaseException as exc:
            await wire.close()
            if isinstance(exc, (ValueError, LookupError, TypeError)):
                raise ConnectionError("the other end does not speak Socket.IO") from exc
            raise
        return wire

    async def emit(self, event: str, payload: bytes) -> None:
        """Says `payload`, which is JSON; over when it is written to the network. Raises ConnectionError."""
        await self._write(b'42["%b",%b]' % (event.encode(), payload))

    async def call(self, event: str, payload: bytes) -> Any:
        """The same, and waits for the answer without bound. Raises ConnectionError."""
        self._last_id += 1
        return await self._asking(self._last_id, b'42%d["%b",%b]' % (self._last_id, event.encode(), payload))

    async def close(self) -> None:
        """Says good-bye, in 5 s at most."""
        self._end()
        try:
            async with asyncio.timeout(_CLOSE_S):
                with suppress(*_BROKEN):
                    await self._socket.send_str("41")
                await self._socket.close()
        except TimeoutError:
            log.debug("the other end did not say good-bye")
        finally:
            await self._http.close()
            await self._socket.close()
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.wait([self._reader])

    async def _asking(self, number: int, frame: bytes) -> Any:
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._write(frame)
            return await answered
        finally:
            del self._asked[number]
            if answered.done() and not answered.cancelled():
                answered.exception()  # asyncio complains of one that nobody saw: the question may not have left

    async def _write(self, frame: bytes) -> None:
        if self.lost.is_set():
            raise ConnectionError("the connection is lost")
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except TimeoutError:
            self._end()
            raise ConnectionError("the connection takes nothing") from None
        except _BROKEN as exc:
            raise ConnectionError(f"the connection is lost: {exc}") from exc
        await asyncio.sleep(0)  # the network may take many at once; everybody else has a turn between them

    async def _read(self) -> None:
        try:
            while (message := await self._socket.receive(self._silence_s)).type is aiohttp.WSMsgType.TEXT:
                await self._heard(message.data)
        except (*_BROKEN, ValueError, LookupError) as exc:
            log.debug("the connection ends: %s", type(exc).__name__)  # its text may hold a part of a frame
        finally:
            self._end()

    def _end(self) -> None:
        self.lost.set()
        for answered in self._asked.values():
            if not answered.done():
                answered.set_exception(ConnectionError("the connection is lost"))

    async def _heard(self, frame: str) -> None:
        """Raises ConnectionError where it says that this is the end, ValueError, LookupError where it says nothing."""
        match frame[:2]:
            case "2":
                await self._write(b"3")
            case "42":
                number, (event, *payload) = _parts(frame)
                self._take(event, payload[0] if payload else None, partial(self._answer, number))
            case "43":
                number, said = _parts(frame)
                self._settle(int(number), said[0])
            case "40":
                self._settle(0, None)
            case "44" if (refused := self._asked.get(0)) is not None and not refused.done():
                refused.set_exception(Refused(orjson.loads(frame[2:])))
            case "1" | "41" | "44":
                raise ConnectionError("the server ends it")

    def _settle(self, number: int, said: Any) -> None:
        if (answered := self._asked.get(number)) is not None and not answered.done():
            answered.set_result(said)

    async def _answer(self, number: str, said: Any) -> None:
        if number:
            with suppress(ConnectionError):
                await self._write(b"43%b[%b]" % (number.encode(), orjson.dumps(said)))


def _parts(frame: str) -> tuple[str, list[Any]]:
    """The number of a request, or "", and what is said."""
    start = frame.index("[")
    return frame[2:start], orjson.loads(frame[start:])
