"""Running the web service: uvicorn on a socket that listens, and a clean end."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.events import MAX_EVENT_BYTES
from gadget_code.app import create_app
from gadget_code.settings import Settings
from gadget_code.sockets.server import PING_INTERVAL_S, PING_TIMEOUT_S
from gadget_code.store.database import Store

_START_S = 30.0


class _WebSocket(WebSocketsSansIOProtocol):
    """Ends a connection whose reader takes nothing: uvicorn would keep it, and what is unsent, as long as it likes."""

    _stuck: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(PING_INTERVAL_S + PING_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flowing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._flowing()
        super().connection_lost(exc)

    def _flowing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are `stop_signal`'s: uvicorn would raise them again and end us before the database is stopped."""
        yield


@asynccontextmanager
async def web_server(settings: Settings, store: Store, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """The web service, serving while the context is open. Gives the task that ends if it ends by itself."""
    config = uvicorn.Config(
        create_app(settings, store),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        ws=_WebSocket,
        # Over this a frame ends its connection at once; engine.io's own limit is just below.
        ws_max_size=MAX_EVENT_BYTES + 1000,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        timeout_graceful_shutdown=10,
    )
    server = _Uvicorn(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
    try:
        async with asyncio.timeout(_START_S):
            while not server.started and not task.done():  # noqa: ASYNC110  (uvicorn has no event for it)
                await asyncio.sleep(0.005)
        if task.done():
            raise GadgetError(ErrorCode.INTERNAL, "The web service did not start; see its log.")
        yield task
    finally:
        server.should_exit = True
        await asyncio.wait([task])
        listener.close()
