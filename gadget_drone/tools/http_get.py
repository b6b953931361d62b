"""One page of the web, from public addresses alone.

The address is judged where it is connected to: each socket is made for the very address that was looked at, so a name
that resolves to another one in between (DNS rebinding) changes nothing. No proxy, cookie or credential is used.
"""

import asyncio
import re
import socket
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from gadget_api.addresses import is_public
from gadget_drone.clip import quoted
from gadget_drone.errors import ToolError

MAX_BODY_BYTES = 5_000_000
TIMEOUT_S = 30.0
MAX_REDIRECTS = 5

_CHUNK_BYTES = 2**16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": "GadgetCode (an agent of its user)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,application/xml;q=0.8,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True)
class Page:
    url: URL
    status: int
    media_type: str
    """Such as `text/html`; empty where the server did not say."""
    charset: str | None
    length: int | None
    """As the server said, of what it sent."""
    body: bytes
    """Decompressed; empty where `takes` refused the type."""
    is_cut: bool


@dataclass(frozen=True)
class Moved:
    """A redirect to another host: whoever allowed the first has not allowed that."""

    to: URL


def parsed(url: str) -> URL:
    """Raises ToolError when it is none that may be fetched."""
    try:
        found = URL(url.strip())
        host, _ = found.raw_host, found.port
        if re.search(r"[\x00-\x20\x7f%]", host or ""):
            raise ValueError("no name of a host")
    except ValueError as error:
        raise ToolError(f"{quoted(url)} is no URL.") from error
    if found.scheme not in ("http", "https") or not host:
        raise ToolError("A URL must begin with http:// or https:// and a host.")
    if found.raw_user is not None or found.raw_password is not None:
        raise ToolError("A URL with a user name or password in it is not fetched.")
    return found.with_fragment(None)


def host_of(url: URL) -> str:
    """As permissions know it."""
    return (url.raw_host or "").rstrip(".").lower()


async def http_get(url: URL, *, allow_private: bool) -> Page | Moved:
    """Raises ToolError, also after 30 s."""
    refused: list[str] = []

    def make_socket(address: Any) -> socket.socket:
        family, kind, protocol, _, where = address
        if not allow_private and not is_public(where[0]):
            refused.append(where[0])
            raise OSError("not a public address")
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(socket_factory=make_socket, use_dns_cache=False, force_close=True)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as session,
        ):
            return await _follow(session, url)
    except TimeoutError as error:
        raise ToolError(f"{host_of(url)} did not answer within {TIMEOUT_S:g} s.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if refused:
            raise ToolError(
                f"{host_of(url)} leads to {refused[0]}, an address that is not public: it is not fetched from here."
            ) from error
        raise ToolError(f"Fetching from {host_of(url)} failed: {str(error)[:300] or type(error).__name__}.") from error


async def _follow(session: aiohttp.ClientSession, url: URL) -> Page | Moved:
    asked = url
    for _ in range(MAX_REDIRECTS + 1):
        async with session.get(asked, allow_redirects=False) as response:
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                return await _page(response, asked)
            # `join` takes what the server says for encoded already where it is.
            target = parsed(str(asked.join(URL(location))))
        if host_of(target) != host_of(url):
            return Moved(target)
        asked = target
    raise ToolError(f"More than {MAX_REDIRECTS} redirects: it goes round in circles.")


async def _page(response: aiohttp.ClientResponse, url: URL) -> Page:
    said = response.headers.get("Content-Type", "")
    media_type = said.partition(";")[0].strip().lower()
    body = bytearray()
    if is_text(media_type):
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                break
    return Page(
        url,
        response.status,
        media_type,
        response.charset,
        response.content_length,
        bytes(body[:MAX_BODY_BYTES]),
        len(body) > MAX_BODY_BYTES,
    )


def is_text(media_type: str) -> bool:
    """Whether a page of this type is read; one without a type is looked at."""
    kind, _, subtype = media_type.partition("/")
    last = subtype.rpartition("+")[2]
    return not media_type or kind == "text" or (kind == "application" and last in _TEXT_SUBTYPES)


_TEXT_SUBTYPES = frozenset({"json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "x-ndjson", "x-sh"})
