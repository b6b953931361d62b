"""A Socket.IO client that costs little: what a browser, a drone or a load generator says and hears, and no more.

python-socketio's client takes about 100 us an event; a bench that reads 10,000 a second would measure that.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import aiohttp
import orjson

Receive = Callable[[str, Any], "dict[str, Any] | None"]
"""Takes an event and its payload; what it answers is the reply to a request."""

_WAIT_S = 30.0


class Wire:
    """One connection, for as long as the context is open. `on_event` gets whatever is said to us."""

    def __init__(self, url: str, auth: dict[str, Any] | None = None, *, origin: str | None = None) -> None:
        self._url = url.replace("http", "ws", 1) + "/socket.io/?EIO=4&transport=websocket"
        self._auth = auth or {}
        self._headers = {"Origin": origin} if origin is not None else {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.on_event: Receive = lambda _name, _payload: None
        self.is_closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        self._welcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        try:
            self._socket = await self._http.ws_connect(
                self._url, headers=self._headers, max_msg_size=0, compress=0, autoping=True
            )
            self._reader = asyncio.create_task(self._read())
            async with asyncio.timeout(_WAIT_S):
                welcome = await self._welcome
        except BaseException:
            await self._http.close()
            raise
        if not welcome.startswith("40"):
            await self.__aexit__()
            raise ConnectionError(f"the server refused: {welcome[:200]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()
        await self._http.close()

    async def emit(self, event: str, payload: Any) -> None:
        await self.send_text(f"42{orjson.dumps([event, payload]).decode()}")

    async def send_text(self, frame: str) -> None:
        """A frame that the caller has made. Waits while the server takes nothing."""
        await self._socket.send_str(frame)

    async def call(self, event: str, payload: Any, timeout: float = _WAIT_S) -> Any:
        """The reply. Raises ConnectionError when it is a refusal, TimeoutError."""
        self._last_id += 1
        number = self._last_id
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        await self.send_text(f"42{number}{orjson.dumps([event, payload]).decode()}")
        try:
            async with asyncio.timeout(timeout):
                reply = await answer
        finally:
            del self._asked[number]
        if isinstance(reply, dict) and reply.get("ok") is False:
            raise ConnectionError(f"{event} was refused: {reply['error']}")
        return reply

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            self.is_closed.set()

    async def _take(self, frame: str) -> None:
        if frame == "2":
            return await self.send_text("3")
        if frame.startswith("0"):
            return await self.send_text("40" + orjson.dumps(self._auth).decode())
        if frame.startswith(("40", "44")):
            if not self._welcome.done():
                self._welcome.set_result(frame)
            return
        start = frame.find("[")
        if start < 0:
            return
        number, content = frame[2:start], orjson.loads(frame[start:])
        if frame.startswith("43"):
            if (answer := self._asked.get(int(number))) is not None and not answer.done():
                answer.set_result(content[0] if content else None)
        elif frame.startswith("42"):
            reply = self.on_event(content[0], content[1] if len(content) > 1 else None)
            if number:
                await self.send_text(f"43{number}{orjson.dumps([reply or {'ok': True}]).decode()}")
