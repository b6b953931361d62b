"""An IDE as a browser is one: it comes back after every loss with its cursor, and builds its view from what it gets."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import aiohttp
import socketio
from socketio.exceptions import SocketIOError

from gadget_api.commands import Cursor
from gadget_api.events import EVENT_TYPES
from gadget_api.protocol import PROTOCOL_VERSION
from tests.harness import WAIT_S, User
from tests.wire_json import WireJson

Event = dict[str, Any]

_AGAIN_S = 0.1
_CONNECT_S = 5.0
_CALL_S = 10.0
_CLOSE_S = 5.0
_BEGINNING = "0"
"""A turn id before all others."""


class Watcher:
    """Watches one session, at `url` (a proxy's, perhaps), from its first event on.

    `views` are the turns' events as this IDE has them; `statuses` what it was told of turns, with the loop's time.
    `faults` are breaches of the promise that events come in order, without gaps and doubles.
    """

    def __init__(self, user: User, url: str, session: str) -> None:
        self._user = user
        self._url = url
        self._session = session
        self._socket: socketio.AsyncClient | None = None
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.views: dict[str, list[Event]] = {}
        self.statuses: list[tuple[float, dict[str, Any]]] = []
        self.faults: list[str] = []
        self.connections = 0

    async def __aenter__(self) -> Self:
        self.wake()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sleep()

    def wake(self) -> None:
        assert self._running is None
        self._running = asyncio.create_task(self._run())

    async def sleep(self) -> None:
        """The lid is closed: no connection, until `wake`."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    @property
    def cursor(self) -> dict[str, Any]:
        turn = max((turn for turn, view in self.views.items() if view), default=None)
        if turn is None:
            return {"turnId": _BEGINNING, "seq": 0}
        last = self.views[turn][-1]
        cursor = {"turnId": turn, "seq": last["seq"]}
        return {**cursor, "epoch": last["epoch"]} if "epoch" in Cursor.model_fields else cursor

    def view(self, turn: str) -> list[Event]:
        return self.views.get(turn, [])

    async def until(self, wanted: Callable[[], bool], timeout: float = WAIT_S) -> None:
        """Returns when `wanted` holds; it is asked whenever something came. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not wanted():
                self._changed.clear()
                await self._changed.wait()

    async def until_event(self, turn: str, type: str, count: int = 1, timeout: float = WAIT_S) -> Event:
        """The turn's event number `count` of this type."""

        def found() -> list[Event]:
            return [event for event in self.view(turn) if event["type"] == type]

        await self.until(lambda: len(found()) >= count, timeout)
        return found()[count - 1]

    async def until_connected(self, timeout: float = WAIT_S) -> None:
        before = self.connections
        await self.until(lambda: self.connections > before or self._is_connected, timeout)

    @property
    def _is_connected(self) -> bool:
        return self._socket is not None and bool(self._socket.connected)

    async def _run(self) -> None:
        while True:
            gone = asyncio.Event()
            socket = self._socket = self._fresh(gone)
            try:
                await self._connect(socket)
                await gone.wait()
            except (SocketIOError, aiohttp.ClientError, OSError, TimeoutError, ValueError):
                pass  # nobody there, or not for long: a browser tries again
            finally:
                await _close(socket)
            await asyncio.sleep(_AGAIN_S)

    def _fresh(self, gone: asyncio.Event) -> socketio.AsyncClient:
        async def lost(_reason: str = "") -> None:
            gone.set()

        async def receive(name: str, payload: Any = None) -> None:
            if self._socket is socket:
                self._take(name, payload)

        socket = socketio.AsyncClient(reconnection=False, handle_sigint=False, json=WireJson)
        socket.on("disconnect", lost)
        socket.on("*", receive)
        return socket

    async def _connect(self, socket: socketio.AsyncClient) -> None:
        async with asyncio.timeout(_CONNECT_S):
            await socket.connect(
                self._url,
                auth={"token": self._user.token, "protocolVersion": PROTOCOL_VERSION},
                headers={"Origin": self._user.url},
                transports=["websocket"],
                wait_timeout=_CONNECT_S,
            )
        ask = {"chatSessionId": self._session, "after": self.cursor}
        reply = await socket.call("selectSession", ask, timeout=_CALL_S)
        if not reply["ok"]:
            raise ConnectionError(f"the session is not given: {reply['error']}")
        for turn in reversed(reply["turns"]):
            self._note(turn)
        self.connections += 1
        self._changed.set()

    def _take(self, name: str, payload: Any) -> None:
        if name == "turnStatus":
            self._note(payload["turn"])
        elif name in EVENT_TYPES:
            self._add(payload)
        self._changed.set()

    def _note(self, turn: dict[str, Any]) -> None:
        if turn["session"] == self._session:
            self.statuses.append((asyncio.get_running_loop().time(), turn))

    def _add(self, event: Event) -> None:
        """The client's rule: the next one is added; one of a later epoch takes the place of all from its `seq` on."""
        view = self.views.setdefault(event["turnId"], [])
        seq, what = event["seq"], f"{event['type']} {event['seq']} of epoch {event['epoch']}"
        if seq > len(view) + 1:
            self.faults.append(f"{what} came after {len(view)}: a gap")
        elif seq == len(view) + 1:
            if view and event["epoch"] < view[-1]["epoch"]:
                self.faults.append(f"{what} came after epoch {view[-1]['epoch']}: it is stale")
            view.append(event)
        elif event["epoch"] > view[seq - 1]["epoch"]:
            view[seq - 1 :] = [event]
        else:
            self.faults.append(f"{what} came twice")


async def _close(socket: socketio.AsyncClient) -> None:
    """Ends the connection, whatever state it is in."""
    try:
        await asyncio.wait_for(socket.disconnect(), _CLOSE_S)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        pass
    finally:
        if socket.eio.http is not None and not socket.eio.http.closed:
            await socket.eio.http.close()
