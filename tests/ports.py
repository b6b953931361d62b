"""Ports of the loopback for servers that a test stops and starts again."""

import socket


def held_port() -> int:
    """A free one that the system gives to nobody else while this process lives, also while nobody listens on it. Who
    asks for it by its number and with SO_REUSEADDR, as servers do, gets it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    holder.detach()  # open for as long as we are
    return port
