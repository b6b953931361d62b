"""`gadget-code serve`: the web service alone."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import gadget_code.sockets.server  # noqa: F401  (python-socketio comes before there is a second thread: `hidden_modules`)
from gadget_api.loading import gc_paused
from gadget_code.server.listening import bind, stop_signal
from gadget_code.settings import Settings
from gadget_code.store.database import open_store


async def serve(settings: Settings, *, insecure: bool) -> None:
    """Serves until SIGTERM or Ctrl+C. Prints one line with the URL when it is ready."""
    listener, settings = bind(settings, insecure=insecure)
    with stop_signal() as stop:
        async with AsyncExitStack() as stack:
            with gc_paused():
                # At the same time: loading the routes takes as long as starting the database.
                web_server = asyncio.get_running_loop().run_in_executor(None, _load_web_server)
                store = await stack.enter_async_context(open_store(settings))
                server = await stack.enter_async_context((await web_server)(settings, store, listener))
            print(f"Gadget Code is ready at {settings.origin}", flush=True)
            stopping = asyncio.create_task(stop.wait(), name="stop signal")
            await asyncio.wait([server, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()


def _load_web_server() -> Callable[..., Any]:
    from gadget_code.server.web_server import web_server

    return web_server
