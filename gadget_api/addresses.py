"""Addresses: which of them a request may go to that a user, a model or a web page asked for, and which are one's."""

import ipaddress

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_OF_CLOUDS = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Public by number, but answered by the machine's own host: Azure's, which hands out what only the machine may know
(learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16). The others' are link-local."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet's, an IPv4 address inside an IPv6 one looked at as itself."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.is_site_local:
            return False
        ip = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or _behind_nat64(ip) or ip
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip in _OF_CLOUDS)


def network_of(address: str) -> str:
    """What limits per address count by: an IPv4 address, or the /64 that an IPv6 user has. Text that is no address is
    its own."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def _behind_nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
