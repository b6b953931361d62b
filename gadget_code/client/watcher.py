"""Watches a session: yields its events once and in order, over any number of connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import socketio
from socketio.exceptions import ConnectionError as SocketConnectionError
from socketio.exceptions import SocketIOError

from gadget_api.commands import Cursor, SelectSession
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, Unavailable
from gadget_api.events import EVENT_TYPES
from gadget_api.model import WireModel
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.turns import ChatTurn
from gadget_code.client.api import ApiClient

_CALL_S = 20.0
_WELCOME_S = 10.0
_QUEUE = 10_000
"""Events that wait for the reader. When the queue is full the socket is not read, and the server's own limit
applies."""


class Watcher:
    """Watches one session. `events()` yields `(type, payload)` of turn events and of `turnStatus`."""

    def __init__(self, api: ApiClient, session: str) -> None:
        self._api = api
        self._session = session
        self._cursor: Cursor | None = None
        self._gap: tuple[str, int] | None = None
        """The event after the gap for which a replay was requested last."""
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_QUEUE)
        self._socket = socketio.AsyncClient(reconnection_delay=0.2, reconnection_delay_max=5, handle_sigint=False)
        self._selecting: asyncio.Task[None] | None = None
        self._socket.on("connect", self._on_connect)
        self._socket.on("disconnect", self._on_disconnect)
        for name in (*EVENT_TYPES, "turnStatus"):
            self._socket.on(name, self._receiver(name))

    async def open(self) -> None:
        """Connects. Raises GadgetError when the server refuses or does not answer."""
        refusal: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def refused(data: Any = None) -> None:
            if not refusal.done():
                refusal.set_result(data)

        self._socket.on("connect_error", refused)
        auth = {"token": self._api.token, "protocolVersion": PROTOCOL_VERSION}
        try:
            await self._socket.connect(
                self._api.server,
                headers={"Origin": self._api.server},
                auth=auth,
                transports=["websocket"],
                wait_timeout=_WELCOME_S,
            )
        except SocketConnectionError as exc:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(refusal), 0.1)
            raise _as_error(refusal.result() if refusal.done() else None, self._api.server) from exc

    async def close(self) -> None:
        if self._selecting is not None:
            self._selecting.cancel()
        await self._socket.disconnect()

    async def call(self, event: str, message: WireModel) -> dict[str, Any]:
        """Sends a request and returns the reply. Raises the error of the reply."""
        try:
            reply = await self._socket.call(event, message.to_wire(), timeout=_CALL_S)
        except SocketIOError as exc:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The connection to the server is lost; try again.") from exc
        if reply.get("ok"):
            return dict(reply)
        error = ErrorInfo.model_validate(reply["error"])
        raise GadgetError(error.code, error.message, retryable=error.retryable)

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yields without end. `("connection", True | False)` says that the connection is back or lost."""
        while True:
            name, payload = await self._queue.get()
            if name not in EVENT_TYPES:
                yield name, payload
            elif self._is_next(payload["turnId"], payload["seq"], payload["epoch"]):
                self._cursor = Cursor(turn_id=payload["turnId"], seq=payload["seq"], epoch=payload["epoch"])
                yield name, payload

    def _is_next(self, turn: str, seq: int, epoch: int) -> bool:
        """Returns whether to yield an event: it continues the stream, or replaces its end. An event of a later epoch
        may replace what this client saw and nobody stored. Drops repeats; after a gap it requests a replay."""
        have = self._cursor
        if have is None or (have.turn_id < turn and seq == 1):
            return True
        if have.turn_id == turn:
            if epoch < (have.epoch or 0):
                return False
            if seq == have.seq + 1 or (seq <= have.seq and epoch > (have.epoch or 0)):
                return True
            if seq <= have.seq:
                return False
        elif have.turn_id > turn:
            return False
        if self._gap == (turn, seq):
            return True  # the missing events are gone: deltas of old turns expire
        self._gap = (turn, seq)
        self._select_again()
        return False

    async def _on_connect(self) -> None:
        self._put("connection", True)
        self._select_again()

    async def _on_disconnect(self, _reason: str = "") -> None:
        self._put("connection", False)

    def _select_again(self) -> None:
        if self._selecting is None or self._selecting.done():
            self._selecting = asyncio.create_task(self._select(), name="select session")

    async def _select(self) -> None:
        select = SelectSession(chat_session_id=self._session, after=self._cursor)
        with suppress(Unavailable):  # the connection is lost; the next one selects again
            try:
                reply = await self.call("selectSession", select)
            except GadgetError as exc:
                if isinstance(exc, Unavailable):
                    raise
                self._put("failed", exc)
                return
            for turn in reply["turns"]:
                self._put("turnStatus", {"turn": turn})

    def _receiver(self, name: str) -> Any:
        async def receive(payload: Any) -> None:
            await self._queue.put((name, payload))

        return receive

    def _put(self, name: str, payload: Any) -> None:
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait((name, payload))


def turn_of(payload: dict[str, Any]) -> ChatTurn:
    return ChatTurn.model_validate(payload["turn"])


def _as_error(refusal: Any, server: str) -> GadgetError:
    # python-socketio gives a refused client {message, data}; anything else is a failed connection.
    if isinstance(refusal, dict) and isinstance(refusal.get("data"), dict):
        error = ErrorInfo.model_validate(refusal["data"])
        return GadgetError(error.code, error.message)
    return Unavailable(ErrorCode.SERVER_UNREACHABLE, f"No Gadget Code server answers at {server}.")
