"""The link: the drone's one connection to the web service. It dials out, and dials again for ever."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from pydantic import ValidationError

from gadget_api.commands import OkReply
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, InvalidInput, Unavailable, error_reply
from gadget_api.model import WireModel
from gadget_api.protocol import PROTOCOL_VERSION, Peer, SocketEvent, events_between
from gadget_drone.service.wire import Answer, Refused, Wire

log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[WireModel | None]]
"""Answers the event's reply; None is `OkReply`."""
Door = Callable[[Any], Awaitable[dict[str, Any]]]

_CONNECT_S = 20.0
_CALL_S = 10.0
_FIRST_DELAY_S = 0.2
_MAX_DELAY_S = 10.0
_FATAL = frozenset({ErrorCode.NOT_AUTHENTICATED, ErrorCode.PROTOCOL_MISMATCH, ErrorCode.NOT_ALLOWED})


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
        self._wire: Wire | None = None
        self._at_doors: set[asyncio.Task[None]] = set()
        """What the server said, and has no answer yet. It goes on when the connection is lost."""

    @property
    def is_up(self) -> bool:
        return self._wire is not None and not self._wire.lost.is_set()

    async def run(self, url: str, token: Callable[[], str | None]) -> None:
        """Keeps the connection until cancelled. Raises GadgetError when the server does not want this drone."""
        failures = 0
        try:
            while True:
                try:
                    self._wire = await self._connect(url, token())
                    failures = 0
                    await self._on_up()
                    await self._wire.lost.wait()
                    log.warning("the connection to %s is lost", url)
                    self._on_down()
                except Unavailable as exc:
                    log.info("%s", exc.message)
                await self.drop()
                delay_s = min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0)
                failures += 1
                await asyncio.sleep(delay_s)
        finally:
            for task in self._at_doors:
                task.cancel()
            if self._at_doors:
                await asyncio.wait(self._at_doors)

    async def send(self, event: str, payload: bytes) -> None:
        """Sends `payload`, which is JSON, and waits until it is written to the network. Raises ConnectionError."""
        if self._wire is None:
            raise ConnectionError("there is no connection")
        await self._wire.emit(event, payload)

    async def call(self, event: str, message: WireModel) -> None:
        """A request and its yes. Raises Unavailable when the link is down, else the error that was answered."""
        if self._wire is None:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "There is no connection to the server.")
        try:
            async with asyncio.timeout(_CALL_S):
                reply = await self._wire.call(event, orjson.dumps(message.to_wire()))
        except (ConnectionError, TimeoutError) as exc:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The connection to the server is lost.") from exc
        try:
            error = None if reply.get("ok") else ErrorInfo.model_validate(reply["error"])
        except (AttributeError, LookupError, ValidationError) as exc:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The server's answer to us is none.") from exc
        if error is not None:
            raise GadgetError(error.code, error.message, retryable=error.retryable)

    async def drop(self) -> None:
        """Ends the connection, whatever state it is in."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def _connect(self, url: str, token: str | None) -> Wire:
        auth = {"token": token, "protocolVersion": PROTOCOL_VERSION}
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await Wire.dial(url, auth, self._take)
        except Refused as exc:
            refusal = _refusal(exc.said)
            if refusal is None:
                raise Unavailable(ErrorCode.SERVER_UNREACHABLE, f"{url} refuses the connection; trying again") from exc
            if refusal.code in _FATAL:
                raise GadgetError(refusal.code, refusal.message) from exc
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, refusal.message) from exc
        except (ConnectionError, TimeoutError) as exc:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, f"no server answers at {url}; trying again") from exc

    def _take(self, event: str, payload: Any, answer: Answer) -> None:
        if (door := self._doors.get(event)) is not None:
            task = asyncio.create_task(_through(door, payload, answer), name=event)
            self._at_doors.add(task)
            task.add_done_callback(self._at_doors.discard)


async def _through(door: Door, payload: Any, answer: Answer) -> None:
    await answer(await door(payload))


def _refusal(said: Any) -> ErrorInfo | None:
    with suppress(ValidationError, AttributeError):
        return ErrorInfo.model_validate(said.get("data"))
    return None


def _door(event: SocketEvent, handler: Handler) -> Door:
    """The one way in for what the server sends: validates, answers, and lets nothing through that was raised."""

    async def handle(payload: Any) -> dict[str, Any]:
        try:
            try:
                message = event.payload.model_validate(payload)
            except ValidationError as exc:
                raise InvalidInput(f"{event.name} is not right: {exc.errors()[0]['msg']}.") from exc
            return (await handler(message) or OkReply()).to_wire()
        except GadgetError as exc:
            log.info("%s was refused: %s", event.name, exc.message)
            return error_reply(exc)
        except Exception:
            log.exception("%s failed", event.name)
            return error_reply(GadgetError(ErrorCode.INTERNAL, "Something failed in the drone; see its log."))

    return handle
