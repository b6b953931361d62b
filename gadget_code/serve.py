"""`gadget-code serve`: the web service alone."""

import asyncio

from gadget_api.errors import ErrorCode, GadgetError
from gadget_code.settings import Settings
from gadget_code.store.database import open_store
from gadget_code.web_server import bind, stop_signal, web_server


async def serve(settings: Settings, *, insecure: bool) -> None:
    """Serves until SIGTERM or Ctrl+C. Prints one line with the URL when it is ready."""
    if not (settings.is_loopback or insecure or settings.is_https):
        raise GadgetError(
            ErrorCode.INVALID_REQUEST,
            f"{settings.host} is reached from the network: put TLS in front and set GADGET_PUBLIC_URL to its https:// "
            "URL, or say --insecure.",
        )
    listener, settings = bind(settings)
    with stop_signal() as stop:
        async with open_store(settings) as store, web_server(settings, store, listener) as server:
            print(f"Gadget Code is ready at {settings.origin}", flush=True)
            stopping = asyncio.create_task(stop.wait(), name="stop signal")
            await asyncio.wait([server, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
