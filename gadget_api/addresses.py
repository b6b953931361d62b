"""IP addresses: which are public, and which count as one client for rate limits."""

import ipaddress

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_CLOUD_HOSTS = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Public addresses at which the cloud provider's host hands out secrets of the machine. Azure has one
(learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16); the others use link-local addresses."""


def is_public(address: str) -> bool:
    """Returns whether an IP address is on the public internet. For an IPv6 address that contains an IPv4 address, the
    IPv4 address decides."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.is_site_local:
            return False
        ip = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or _behind_nat64(ip) or ip
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip in _CLOUD_HOSTS)


def network_of(address: str) -> str:
    """Returns the key for limits per client: an IPv4 address, or the /64 network of an IPv6 address, because one user
    has a whole /64. Text that is not an IP address is returned unchanged."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def _behind_nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
