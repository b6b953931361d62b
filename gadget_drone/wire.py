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
_BROKEN = (aiohttp.ClientError, OSError, RuntimeError)
"""A connection that is lost, or closed by us."""


class Refused(ConnectionError):
    """The server does not let us in; `said` is what it said about that."""

    def __init__(self, said: Any) -> None:
        super().__init__("the server refuses the connection")
        self.said = said


class Wire:
    """From `dial` until `lost` is set; whoever dialled calls `close`."""

    def __init__(
        self, http: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse, silence_s: float, take: Take
    ) -> None:
        """For `dial`."""
        self._http = http
        self._socket = socket
        self._silence_s = silence_s
        """How long the server may say nothing, not even a ping."""
        self._take = take
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.lost = asyncio.Event()
        """Whether the connection is over."""
        self._reader: asyncio.Task[None]

    @classmethod
    async def dial(cls, url: str, auth: dict[str, Any], take: Take) -> Self:
        """Connects to the server at `url` as whoever `auth` says. Raises Refused, ConnectionError; waits without
        bound."""
        to = urlsplit(url)
        address = f"{'wss' if to.scheme == 'https' else 'ws'}://{to.netloc}/socket.io/?EIO=4&transport=websocket"
        http = aiohttp.ClientSession()
        socket: aiohttp.ClientWebSocketResponse | None = None
        try:
            socket = await http.ws_connect(address, timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S))
            opened = orjson.loads((await socket.receive_str()).removeprefix("0"))
            wire = cls(http, socket, (opened["pingInterval"] + opened["pingTimeout"]) / 1000, take)
            await wire._write(b"40" + orjson.dumps(auth))
            welcome = await socket.receive_str()
            if welcome.startswith("44"):
                raise Refused(orjson.loads(welcome[2:]))
            if not welcome.startswith("40"):
                raise ConnectionError("the other end does not speak Socket.IO")
        except BaseException as exc:
            await http.close()
            if socket is not None:
                await socket.close()
            if isinstance(exc, (*_BROKEN, ValueError, KeyError, TypeError)) and not isinstance(exc, ConnectionError):
                raise ConnectionError(f"no Socket.IO server answers: {exc}") from exc
            raise
        wire._reader = asyncio.create_task(wire._read(), name="wire")
        return wire

    async def emit(self, event: str, payload: bytes) -> None:
        """Says `payload`, which is JSON; over when it is written to the network. Raises ConnectionError."""
        await self._write(b'42["%b",%b]' % (event.encode(), payload))

    async def call(self, event: str, payload: bytes) -> Any:
        """The same, and waits for the answer without bound. Raises ConnectionError."""
        self._last_id += 1
        number = self._last_id
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._write(b'42%d["%b",%b]' % (number, event.encode(), payload))
            return await answered
        finally:
            del self._asked[number]

    async def close(self) -> None:
        """Says good-bye, in 5 s at most."""
        self.lost.set()
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
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def _write(self, frame: bytes) -> None:
        if self.lost.is_set():
            raise ConnectionError("the connection is lost")
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except TimeoutError:
            self.lost.set()
            raise ConnectionError("the connection takes nothing") from None
        except _BROKEN as exc:
            raise ConnectionError(f"the connection is lost: {exc}") from exc
        await asyncio.sleep(0)  # the network may take many at once; everybody else has a turn between them

    async def _read(self) -> None:
        try:
            while (message := await self._socket.receive(self._silence_s)).type is aiohttp.WSMsgType.TEXT:
                await self._heard(message.data)
        except (*_BROKEN, ValueError, LookupError) as exc:
            log.debug("the connection ends: %s", exc)
        finally:
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
                if (answered := self._asked.get(int(number))) is not None and not answered.done():
                    answered.set_result(said[0])
            case "1" | "41" | "44":
                raise ConnectionError("the server ends it")

    async def _answer(self, number: str, said: Any) -> None:
        if number:
            with suppress(ConnectionError):
                await self._write(b"43%b[%b]" % (number.encode(), orjson.dumps(said)))


def _parts(frame: str) -> tuple[str, list[Any]]:
    """The number of a request, or "", and what is said."""
    start = frame.index("[")
    return frame[2:start], orjson.loads(frame[start:])
