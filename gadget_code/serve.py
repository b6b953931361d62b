"""`gadget-code serve`: the web service alone."""

import asyncio

from gadget_code.settings import Settings
from gadget_code.store.database import open_store
from gadget_code.web_server import bind, stop_signal, web_server


async def serve(settings: Settings, *, insecure: bool) -> None:
    """Serves until SIGTERM or Ctrl+C. Prints one line with the URL when it is ready."""
    listener, settings = bind(settings, insecure=insecure)
    with stop_signal() as stop:
        async with open_store(settings) as store, web_server(settings, store, listener) as server:
            print(f"Gadget Code is ready at {settings.origin}", flush=True)
            stopping = asyncio.create_task(stop.wait(), name="stop signal")
            await asyncio.wait([server, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
