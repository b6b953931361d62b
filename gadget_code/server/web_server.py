"""Runs uvicorn on a listening socket, and stops it cleanly."""

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.events import MAX_EVENT_BYTES
from gadget_code.app import create_app
from gadget_code.server.connection_limits import ConnectionLimits, HttpProtocol, WebSocketProtocol, raise_file_limit
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_START_S = 30.0


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """`stop_signal` handles the signals. uvicorn would raise them again and end the process before the database has
        stopped."""
        yield


@asynccontextmanager
async def web_server(
    settings: Settings, store: MongoStore, listener: socket.socket
) -> AsyncIterator[asyncio.Task[None]]:
    """Serves while the context is open. Gives the task that ends when the server ends by itself."""
    files = raise_file_limit()
    limits = ConnectionLimits(
        files=files, per_address=settings.connections_per_address, proxies=settings.trusted_proxies
    )
    log.info(
        "this process may open %s files: %s connections in all, %s per address",
        *(files, limits.in_all, limits.per_address),
    )
    config = uvicorn.Config(
        create_app(settings, store),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        http=functools.partial(HttpProtocol, limits=limits),  # type: ignore[arg-type]  # it is called and nothing else
        ws=functools.partial(WebSocketProtocol, limits=limits),  # type: ignore[arg-type]
        # By default uvicorn trusts the address headers of any local program.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        # A larger frame ends its connection at once; engine.io's own limit is just below.
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
        with limits.enforced():
            yield task
    finally:
        server.should_exit = True
        await asyncio.wait([task])
        listener.close()
