"""Requests that go out to an address a user gave: only where it may lead."""

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from gadget_api.errors import ErrorCode, InvalidInput

_RESOLVE_S = 5.0
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052


async def check_address(url: str, *, allow_private: bool) -> tuple[str, ...]:
    """The addresses `url` leads to. Raises InvalidInput when it is not http(s), or leads to a loopback, private or
    otherwise not public address and that is not allowed. An unknown host is refused only when it is connected to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("The URL must begin with http:// or https://.", ErrorCode.URL_NOT_ALLOWED)
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(
            loop.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM), _RESOLVE_S
        )
    except (OSError, TimeoutError, ValueError):  # ValueError: no name at all, such as one with a NUL
        return ()
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allow_private and not all(is_public(address) for address in addresses):
        raise InvalidInput(
            f"{parts.hostname} is a private address, which this install does not allow "
            "(its owner can: GADGET_ALLOW_PRIVATE_URLS=true).",
            ErrorCode.URL_NOT_ALLOWED,
        )
    return addresses


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet's, an IPv4 address inside an IPv6 one looked at as itself."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or _behind_nat64(ip) or ip
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def _behind_nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
