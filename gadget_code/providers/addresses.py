"""Checks the addresses of outgoing requests to URLs that users enter."""

import asyncio
import socket
from urllib.parse import urlsplit

from gadget_api.addresses import is_public
from gadget_api.errors import ErrorCode, InvalidInput

_RESOLVE_S = 5.0


async def check_address(url: str, *, allow_private: bool) -> tuple[str, ...]:
    """Returns the addresses that `url` resolves to. Raises InvalidInput when the scheme is not http(s), or an address
    is not public and that is not allowed. Returns none for an unknown host; the connection then fails."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("The URL must begin with http:// or https://.", ErrorCode.URL_NOT_ALLOWED)
    loop = asyncio.get_running_loop()
    try:
        entries = await asyncio.wait_for(
            loop.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM), _RESOLVE_S
        )
    except (OSError, TimeoutError, ValueError):  # ValueError: an invalid name, such as one with a NUL
        return ()
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if not allow_private and not all(is_public(address) for address in addresses):
        raise InvalidInput(
            f"{parts.hostname} is a private address, which this install does not allow "
            "(its owner can: GADGET_ALLOW_PRIVATE_URLS=true).",
            ErrorCode.URL_NOT_ALLOWED,
        )
    return addresses
