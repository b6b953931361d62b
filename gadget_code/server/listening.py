"""What a service needs first: its listening socket, and a handler for stop signals."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator

from gadget_api.errors import ErrorCode, GadgetError
from gadget_code.settings import Settings


@contextlib.contextmanager
def stop_signal() -> Iterator[asyncio.Event]:
    """Gives an event that SIGTERM and Ctrl+C set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def bind(settings: Settings, *, insecure: bool = False) -> tuple[socket.socket, Settings]:
    """Returns a listening socket, and the settings with its port. Raises GadgetError when the address is taken, or is
    reachable from the network without TLS and without `insecure`."""
    if not (settings.is_loopback or insecure or settings.is_https):
        raise GadgetError(
            ErrorCode.INVALID_REQUEST,
            f"{settings.host} is reachable from the network: put TLS in front and set GADGET_PUBLIC_URL to its "
            "https:// URL, or use `serve --insecure`.",
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as exc:
        listener.close()
        raise GadgetError(
            ErrorCode.INVALID_REQUEST,
            f"{settings.host}:{settings.port} cannot be bound ({exc.strerror}); choose another with --port.",
        ) from exc
    return listener, settings.model_copy(update={"port": listener.getsockname()[1]})
