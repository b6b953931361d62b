"""Limits the number of connections to the web service, and how long each may take.

uvicorn limits neither (measured with 0.54): half a request holds a connection and its descriptor for ever. Here head
and body of a request must arrive in time, and responses must be read. A client that floods the service loses its own
incomplete requests first.
"""

import asyncio
import ipaddress
import logging
import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gadget_api.addresses import network_of

log = logging.getLogger(__name__)

HEAD_S = 10.0
"""From the connection, or the first byte of a further request, to the end of the request's head."""
BODY_S = 10.0
"""To the first byte of a body; each further kilobyte adds a second."""
MAX_BODY_S = 300.0
STALLED_S = 15.0
"""For a client that reads nothing of what is queued for it, and for a connection that closes."""
_MIN_BYTES_PER_S = 1000
"""Apache's mod_reqtimeout requires 500."""
_SWEEP_S = 1.0
_REPORT_EVERY_S = 60.0
_MIN_CONNECTIONS = 32
_MAX_CONNECTIONS = 20_000
_MAX_FILES = 65_536
"""Enough. Child processes inherit the limit, and old programs close every descriptor up to it when they start."""
_FILES_OF_OUR_OWN = 512
"""Libraries, logs, and up to a hundred connections to MongoDB."""


def raise_file_limit() -> int:
    """Raises this process's limit of open files as far as allowed (65,536 at most). Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as exc:  # macOS has a lower limit than the hard limit
            log.info("the limit of open files stays at %s: %s", soft, exc)
    return _MAX_FILES if soft == resource.RLIM_INFINITY else soft


class ConnectionLimits:
    """The open connections of one web service."""

    def __init__(self, *, files: int, per_address: int, proxies: Iterable[str] = ()) -> None:
        """`files`: how many this process may open. `proxies`: networks of reverse proxies; their connections count in
        total, and not per address."""
        self.in_all = max(_MIN_CONNECTIONS, min(_MAX_CONNECTIONS, files - _FILES_OF_OUR_OWN))
        self.per_address = min(per_address, self.in_all // 2)
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        self._requests: dict[asyncio.Transport, str] = {}
        """HTTP connection -> the network that it counts for, oldest connection first."""
        self._sockets: dict[asyncio.Transport, str] = {}
        """WebSocket connection -> the network that it counts for."""
        self._counts: dict[str, int] = {}
        self._ended = {"refused": 0, "displaced by a newer one": 0, "too slow": 0}
        self._reported_at = 0.0

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Ends connections that take too long, while the context is open."""
        self._next_sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        try:
            yield
        finally:
            self._next_sweep.cancel()

    def admit(self, transport: asyncio.Transport) -> bool:
        """Returns whether a new connection may stay. May end an older one that waits for a request."""
        network = self._network(transport)
        if network and self._counts.get(network, 0) >= self.per_address:
            has_room = self._push_out(network)
        else:
            has_room = len(self._requests) + len(self._sockets) < self.in_all or self._push_out(None)
        if not has_room:
            self._ended["refused"] += 1
            return False
        self._requests[transport] = network
        self._counts[network] = self._counts.get(network, 0) + 1
        return True

    def upgraded(self, transport: asyncio.Transport) -> None:
        """Moves the connection to the WebSockets."""
        if (network := self._requests.pop(transport, None)) is not None:
            self._sockets[transport] = network

    def closed(self, transport: asyncio.Transport) -> None:
        network = self._requests.pop(transport, None)
        if network is None:
            network = self._sockets.pop(transport, None)
        if network is None:
            return
        self._counts[network] -= 1
        if not self._counts[network]:
            del self._counts[network]

    def _push_out(self, network: str | None) -> bool:
        """Ends the oldest connection (of `network`) that waits for a request. Returns False when there is none."""
        for transport, theirs in self._requests.items():
            if network in (None, theirs) and cast(HttpProtocol, transport.get_protocol()).awaits_request:
                self._end(transport, "displaced by a newer one")
                return True
        return False

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_sweep = loop.call_later(_SWEEP_S, self._sweep)
        now = time.monotonic()
        for transport in [*self._requests, *self._sockets]:
            if cast("HttpProtocol | WebSocketProtocol", transport.get_protocol()).is_late(now):
                self._end(transport, "too slow")
        if any(self._ended.values()) and now - self._reported_at > _REPORT_EVERY_S:
            numbers = ", ".join(f"{number} {why}" for why, number in self._ended.items() if number)
            log.warning("connections were closed: %s", numbers)
            self._ended = dict.fromkeys(self._ended, 0)
            self._reported_at = now

    def _end(self, transport: asyncio.Transport, why: str) -> None:
        self._ended[why] += 1
        self.closed(transport)
        transport.abort()

    def _network(self, transport: asyncio.Transport) -> str:
        """Returns the network that a connection counts for; empty for a proxy."""
        peer = get_remote_addr(transport)
        if peer is None:
            return ""
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        return "" if any(address in proxy for proxy in self._proxies) else network_of(peer[0])


class _SlowReaderCheck:
    """A mixin for uvicorn protocols: detects a client that does not read."""

    transport: asyncio.Transport
    _unsent: tuple[float, int] | None = None
    """When writing was paused, and how many bytes were queued then; None while it is not paused."""

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]  # the protocol's
        self._unsent = time.monotonic(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        self._unsent = None

    def is_late(self, now: float) -> bool:
        if self._unsent is None:
            if self.transport.is_closing():  # it closes when all is sent
                self._unsent = now, self.transport.get_write_buffer_size()
            return False
        since, unsent_bytes = self._unsent
        if now - since <= STALLED_S:
            return False
        self._unsent = now, self.transport.get_write_buffer_size()
        return unsent_bytes - self._unsent[1] < STALLED_S * _MIN_BYTES_PER_S


class HttpProtocol(_SlowReaderCheck, H11Protocol):
    """Measures how long it waits for its client. A test lists what of uvicorn this uses."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._state: Any = h11.IDLE
        """The client's state at the last event."""
        self._since = time.monotonic()
        self._received_bytes = 0

    @property
    def awaits_request(self) -> bool:
        """Whether the client has to send next: the rest of a request, or another one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def is_late(self, now: float) -> bool:
        if super().is_late(now):
            return True
        if self.conn.their_state is not self._state or not self.awaits_request:
            return False  # idle between two requests: uvicorn's own time-out ends it
        if self._state is h11.IDLE:
            return now - self._since > HEAD_S
        if self.flow.read_paused:
            self._since, self._received_bytes = now, 0  # the service is the slow side
        return now - self._since > min(BODY_S + self._received_bytes / _MIN_BYTES_PER_S, MAX_BODY_S)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        if self._limits.admit(transport):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.transport is not None:  # it was admitted
            self._limits.closed(self.transport)
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note(0)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        self._limits.upgraded(self.transport)

    def _note(self, received_bytes: int) -> None:
        if self.conn.their_state is self._state:
            self._received_bytes += received_bytes
        elif received_bytes:
            self._state, self._since, self._received_bytes = self.conn.their_state, time.monotonic(), received_bytes
        else:
            self._state = h11.DONE  # idle, until data arrives


class WebSocketProtocol(_SlowReaderCheck, WebSocketsSansIOProtocol):
    """Ends a connection whose client does not read. uvicorn would keep it, and its queue, for ever."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.closed(self.transport)
        super().connection_lost(exc)
