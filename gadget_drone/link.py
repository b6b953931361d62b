"""The link: the drone's one connection to the web service. It dials out, and dials again for ever."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import orjson
import socketio
from pydantic import ValidationError
from socketio.exceptions import ConnectionError as SocketConnectionError
from socketio.exceptions import SocketIOError

from gadget_api.commands import Done
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, InvalidInput, Unavailable, failure
from gadget_api.model import WireModel
from gadget_api.protocol import PROTOCOL_VERSION, Peer, SocketEvent, events_between

log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[WireModel | None]]
"""Answers the event's reply; None is `Done`."""

_WELCOME_S = 10.0
_CONNECT_S = 20.0
_DROP_S = 5.0
_CALL_S = 10.0
_WRITE_S = 20.0
"""For one event to be written to the network; past that the link is dead, whatever the socket says."""
_FIRST_DELAY_S = 0.2
_MAX_DELAY_S = 10.0
_BROKEN = (aiohttp.ClientError, OSError, ValueError)
"""What python-socketio lets through when the other end answers with something else, or not at all."""
_FATAL = frozenset({ErrorCode.NOT_AUTHENTICATED, ErrorCode.PROTOCOL_MISMATCH, ErrorCode.NOT_ALLOWED})


class WireJson:
    """What python-socketio asks of a json module: text as it is, as a browser writes it, where Python's own would write
    six bytes for an é."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return orjson.dumps(value).decode()

    @staticmethod
    def loads(text: str, **_: Any) -> Any:
        return orjson.loads(text)


class Link:
    """`on_up` is called each time the connection stands, before anything else is sent on it; `on_down` when it is
    lost."""

    def __init__(
        self, handlers: Mapping[str, Handler], on_up: Callable[[], Awaitable[None]], on_down: Callable[[], None]
    ) -> None:
        self._on_up = on_up
        self._on_down = on_down
        table = events_between(Peer.WEB, Peer.DRONE)
        if missing := table.keys() - handlers.keys():
            raise LookupError(f"events without a handler: {missing}")
        self._doors = {event.name: _door(event, handlers[event.name]) for event in table.values()}
        self._gone = asyncio.Event()
        self._refusal: ErrorInfo | None = None
        self._writing: set[asyncio.Timeout] = set()
        """How long those may wait who wait for the network."""
        self._socket = self._fresh_socket()

    @property
    def is_up(self) -> bool:
        return bool(self._socket.connected)

    async def run(self, url: str, token: Callable[[], str | None]) -> None:
        """Keeps the connection until cancelled. Raises GadgetError when the server does not want this drone."""
        failures = 0
        while True:
            # A fresh one each time: one that was lost in the middle of something does not connect again.
            self._socket = self._fresh_socket()
            try:
                await self._connect(url, token())
                failures = 0
                await self._on_up()
                await self._gone.wait()
                log.warning("the connection to %s is lost", url)
                self._on_down()
            except Unavailable as exc:
                log.info("%s", exc.message)
            await self.drop()
            delay_s = min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0)
            failures += 1
            await asyncio.sleep(delay_s)

    async def send(self, event: str, payload: dict[str, Any]) -> None:
        """Sends, and waits until it is written to the network. Raises ConnectionError."""
        socket = self._socket
        if not socket.connected:
            raise ConnectionError("there is no connection")
        try:
            await socket.emit(event, payload)
            async with asyncio.timeout(_WRITE_S) as limit:
                self._writing.add(limit)
                try:
                    await socket.eio.queue.join()
                finally:
                    self._writing.discard(limit)
        except TimeoutError:
            if socket is self._socket:
                self._gone.set()
            raise ConnectionError("the connection takes nothing") from None
        except SocketIOError as exc:
            raise ConnectionError(str(exc)) from exc

    async def call(self, event: str, message: WireModel) -> None:
        """A request and its yes. Raises Unavailable when the link is down, else the error that was answered."""
        asking = asyncio.ensure_future(self._socket.call(event, message.to_wire(), timeout=_CALL_S))
        going = asyncio.ensure_future(self._gone.wait())
        try:
            # The library would wait for an answer that cannot come any more.
            await asyncio.wait((asking, going), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The connection to the server is lost.")
            reply = asking.result()
        except SocketIOError as exc:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The connection to the server is lost.") from exc
        finally:
            asking.cancel()
            going.cancel()
        if not reply.get("ok"):
            error = ErrorInfo.model_validate(reply["error"])
            raise GadgetError(error.code, error.message, retryable=error.retryable)

    async def drop(self) -> None:
        """Ends the connection, whatever state it is in."""
        socket = self._socket
        try:
            await asyncio.wait_for(socket.disconnect(), _DROP_S)
        except (TimeoutError, *_BROKEN) as exc:
            log.debug("a connection did not end well: %s", exc)
        finally:
            if socket.eio.http is not None and not socket.eio.http.closed:
                await socket.eio.http.close()

    def _fresh_socket(self) -> socketio.AsyncClient:
        self._refusal = None
        gone = self._gone = asyncio.Event()

        async def lost(_reason: str = "") -> None:
            gone.set()
            for limit in self._writing:  # nobody writes any more: whoever waits for that need not
                if not limit.expired():
                    limit.reschedule(0)

        socket = socketio.AsyncClient(reconnection=False, handle_sigint=False, json=WireJson)
        socket.on("disconnect", lost)
        socket.on("connect_error", self._refused)
        for name, door in self._doors.items():
            socket.on(name, door)
        return socket

    async def _connect(self, url: str, token: str | None) -> None:
        auth = {"token": token, "protocolVersion": PROTOCOL_VERSION}
        try:
            # The library bounds the last part of this alone.
            async with asyncio.timeout(_CONNECT_S):
                await self._socket.connect(url, auth=auth, transports=["websocket"], wait_timeout=_WELCOME_S)
        except (SocketConnectionError, TimeoutError, *_BROKEN) as exc:
            refusal = self._refusal
            if refusal is not None and refusal.code in _FATAL:
                raise GadgetError(refusal.code, refusal.message) from exc
            message = refusal.message if refusal is not None else f"no server answers at {url}; trying again"
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, message) from exc

    async def _refused(self, data: Any = None) -> None:
        with suppress(ValidationError, AttributeError):
            self._refusal = ErrorInfo.model_validate(data.get("data"))


def _door(event: SocketEvent, handler: Handler) -> Callable[..., Awaitable[dict[str, Any]]]:
    """The one way in for what the server sends: validates, answers, and lets nothing through that was raised."""

    async def handle(payload: Any = None) -> dict[str, Any]:
        try:
            try:
                message = event.payload.model_validate(payload)
            except ValidationError as exc:
                raise InvalidInput(f"{event.name} is not right: {exc.errors()[0]['msg']}.") from exc
            return (await handler(message) or Done()).to_wire()
        except GadgetError as exc:
            log.info("%s was refused: %s", event.name, exc.message)
            return failure(exc)
        except Exception:
            log.exception("%s failed", event.name)
            return failure(GadgetError(ErrorCode.INTERNAL, "Something failed in the drone; see its log."))

    return handle
