"""The connections of this process: authenticated by their token, and checked for as long as they live."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

from socketio.exceptions import ConnectionRefusedError as Refused

from gadget_api.errors import ErrorCode, GadgetError, NotAllowed, NotAuthenticated, TooMany
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.tokens import TokenKind
from gadget_code.auth.cookies import COOKIE, page_token
from gadget_code.service import Service
from gadget_code.sockets.rooms import drone_room, user_room
from gadget_code.store.tokens import Caller

log = logging.getLogger(__name__)

_HANDSHAKE_S = 10.0
_WATCH_S = 2.0
_PRESENCE_EVERY = 2  # passes of the watch: well within the 15 s of a drone's lease
_RATE_PER_S = 50.0
_BURST = 200.0
_EVENTS_PER_S = 2_000.0
"""Far above what our drone sends: it waits for each event's reply and merges deltas meanwhile."""
_EVENTS_BURST = 10_000.0
MAX_ATTACHED = 64
"""Terminals that one socket may attach to: more than a drone has."""


@dataclass
class Connection:
    """An authenticated socket."""

    sid: str
    identity: Caller
    replay: asyncio.Task[None] | None = None
    terminals: dict[str, str] = field(default_factory=dict)
    """Attached terminal -> its drone."""
    _requests: "_RateLimit" = field(default_factory=lambda: _RateLimit(_RATE_PER_S, _BURST))
    _events: "_RateLimit" = field(default_factory=lambda: _RateLimit(_EVENTS_PER_S, _EVENTS_BURST))

    @property
    def is_drone(self) -> bool:
        return self.identity.kind is TokenKind.DRONE

    @property
    def drone(self) -> str:
        """The registration of a drone's connection."""
        assert self.identity.drone is not None
        return self.identity.drone

    def spend(self) -> None:
        """Counts one request. Raises TooMany above 50 a second."""
        if self._requests.wait_s() > 0:
            raise TooMany("Too many requests on this connection; wait a second.")
        self._requests.take()

    async def pace(self) -> None:
        """Counts one turn event or one terminal output. Above 2,000 a second it waits, and the drone's socket is not
        read meanwhile."""
        if (wait_s := self._events.wait_s()) > 0:
            await asyncio.sleep(wait_s)
        self._events.take()


class _RateLimit:
    """A token bucket: a number per second on average, and a burst at once."""

    def __init__(self, rate_per_s: float, burst: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._left = burst
        self._counted_at = time.monotonic()

    def wait_s(self) -> float:
        """Returns the seconds until the next `take`; 0 when it may happen now."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._counted_at) * self._rate_per_s)
        self._counted_at = now
        return max(0.0, (1 - self._left) / self._rate_per_s)

    def take(self) -> None:
        self._left -= 1


class Connections:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._by_sid: dict[str, Connection] = {}
        self._seen: dict[str, float] = {}
        """Engine.IO id -> when the socket was first seen (monotonic seconds), authenticated or not."""

    def get(self, sid: str) -> Connection | None:
        return self._by_sid.get(sid)

    def attached(self) -> dict[str, set[str]]:
        """Returns drone -> its terminals that sockets of this process are attached to."""
        by_drone: dict[str, set[str]] = {}
        for connection in self._by_sid.values():
            for terminal, drone in connection.terminals.items():
                by_drone.setdefault(drone, set()).add(terminal)
        return by_drone

    async def admit(self, sid: str, environ: dict[str, Any], auth: Any) -> None:
        """Handles `connect`. Raises the refusal that the client receives."""
        try:
            identity = await self._identify(environ, auth if isinstance(auth, dict) else {})
            if identity.drone is not None:
                await self._drone_is_here(identity.drone, sid)
        except GadgetError as exc:
            raise Refused(exc.message, exc.info.to_wire()) from exc
        # No await from here to the client's welcome, so that the client receives no event before it.
        self._by_sid[sid] = Connection(sid, identity)
        room = user_room(identity.user) if identity.drone is None else drone_room(identity.drone)
        await self._service.sockets.enter_room(sid, room)

    async def _drone_is_here(self, drone_id: str, sid: str) -> None:
        for other in [c for c in self._by_sid.values() if c.identity.drone == drone_id]:
            # The drone reconnected before its old connection timed out.
            await self._service.sockets.abort_client(other.sid)
        drone = await self._service.store.drones.connected(drone_id, sid)
        if drone is None:
            raise NotAuthenticated("This drone was removed; register it again.")
        await self._service.rooms.emit_drone(drone)

    async def leave(self, sid: str, reason: str) -> None:
        """Handles `disconnect`."""
        connection = self._by_sid.pop(sid, None)
        if connection is None:
            return
        if connection.replay is not None:
            connection.replay.cancel()
        drone_id = connection.identity.drone
        if drone_id is None:
            return
        log.info("drone %s has disconnected: %s", drone_id, reason)
        self._service.rooms.drone_disconnected(drone_id)
        if not any(other.identity.drone == drone_id for other in self._by_sid.values()):
            self._service.metrics.drone_lags.pop(drone_id, None)
        await self._service.recorder.close_streams(sid)
        try:
            drone = await self._service.store.drones.disconnected(drone_id, sid)
            if drone is not None:
                await self._service.rooms.emit_drone(drone)
                await self._service.leases.drone_lost(drone)
        except GadgetError as exc:
            log.warning("drone %s is offline; its status is updated later: %s", drone_id, exc.message)

    async def watch(self) -> None:
        """Closes sockets that never authenticated or whose token ended, and renews the leases of connected drones."""
        round_ = 0
        while True:
            await asyncio.sleep(_WATCH_S)
            round_ += 1
            try:
                await self._forget_closed()
                await self._close_unauthenticated()
                await self._close_revoked()
                if round_ % _PRESENCE_EVERY == 0:
                    await self._service.store.drones.renew([c.sid for c in self._by_sid.values() if c.is_drone])
                    await self._service.store.tokens.touch({c.identity.token_hash for c in self._by_sid.values()})
            except GadgetError as exc:
                log.warning("the connections cannot be checked now: %s", exc.message)

    async def _forget_closed(self) -> None:
        """Removes sockets that were aborted during authentication: no `disconnect` event comes for them."""
        for sid in [sid for sid in self._by_sid if not self._service.sockets.is_open(sid)]:
            await self.leave(sid, "closed during authentication")

    async def _close_unauthenticated(self) -> None:
        manager = self._service.sockets.manager
        admitted = {manager.eio_sid_from_sid(sid, "/") for sid in self._by_sid}
        now = time.monotonic()
        self._seen = {eio_sid: self._seen.get(eio_sid, now) for eio_sid in self._service.sockets.eio.sockets}
        for eio_sid, since in self._seen.items():
            if eio_sid not in admitted and now - since > _HANDSHAKE_S - _WATCH_S:
                await self._service.sockets.abort(eio_sid)

    async def _close_revoked(self) -> None:
        hashes = {c.identity.token_hash for c in self._by_sid.values()}
        if not hashes:
            return
        live = await self._service.store.tokens.live(hashes)
        for connection in list(self._by_sid.values()):
            # A connection that was added meanwhile is not in `hashes`.
            if connection.identity.token_hash in hashes - live:
                log.info("a socket was closed: its token was revoked or has expired")
                await self._service.sockets.abort_client(connection.sid)

    async def _identify(self, environ: dict[str, Any], auth: dict[str, Any]) -> Caller:
        version = auth.get("protocolVersion", PROTOCOL_VERSION)
        if version != PROTOCOL_VERSION:
            behind = "the server" if isinstance(version, int) and version > PROTOCOL_VERSION else "the client"
            raise NotAllowed(
                f"The client speaks protocol {version!s:.20} and the server {PROTOCOL_VERSION}; update {behind}.",
                ErrorCode.PROTOCOL_MISMATCH,
            )
        key = auth.get("page")
        token = auth.get("token") or page_token(_cookie(environ), key if isinstance(key, str) else None)
        identity = await self._service.store.tokens.identify(token) if isinstance(token, str) else None
        if identity is None or identity.kind is TokenKind.SIGN_IN:
            raise NotAuthenticated("The token is missing, revoked or expired; sign in again.")
        if identity.kind is TokenKind.DRONE:
            if identity.drone is None:
                raise NotAllowed("This drone token is not bound to a workspace yet; register first.")
        elif not environ.get("HTTP_ORIGIN"):
            # A wrong origin was refused before. Only a drone may send none.
            raise NotAllowed(
                f"An IDE connection must send the header `Origin: {self._service.settings.origin}`.",
                ErrorCode.ORIGIN_NOT_ALLOWED,
            )
        return identity


def _cookie(environ: dict[str, Any]) -> str | None:
    try:
        morsel = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None
