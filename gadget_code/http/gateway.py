"""Checks host, origin and size of every request before a route sees it, and adds security headers to every response.

Pure ASGI and outermost, so that it covers the socket too: Socket.IO's own origin check does not stop DNS rebinding.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gadget_api.errors import ErrorCode, GadgetError, NotAllowed, TooLarge
from gadget_api.images import MAX_IMAGE_BYTES
from gadget_api.protocol import API_PREFIX
from gadget_code.http.problems import problem_response
from gadget_code.settings import Settings

MAX_BODY_BYTES = 1024 * 1024
MAX_UPLOAD_BYTES = 32 * 1024 * 1024
_IMAGES = f"{API_PREFIX}/images"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CSP = (
    "default-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; frame-src 'none'; worker-src 'none'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Another port of this host shares the browser's cache; it must not read our resources from there.
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Gateway:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = settings.host_names
        self._origins = frozenset(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope["headers"])
        try:
            self._check_host(headers)
            if scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS:
                self._check_origin(headers, is_socket=scope["type"] == "websocket")
        except GadgetError as exc:
            if scope["type"] == "websocket":
                await _refuse_socket(receive, send)
            else:
                await problem_response(exc)(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._limited(scope, receive, send, headers)

    def _check_host(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() not in self._hosts:
            raise NotAllowed(
                "This host name is not served; set GADGET_PUBLIC_URL to the URL that users open.",
                ErrorCode.HOST_NOT_ALLOWED,
            )

    def _check_origin(self, headers: dict[str, str], *, is_socket: bool) -> None:
        origin = headers.get("origin")
        if origin is None:
            # A program, or the browser's own page. A missing origin of a socket is checked with its token.
            refused = not is_socket and headers.get("sec-fetch-site") in ("cross-site", "same-site")
        else:
            refused = origin not in self._origins
        if refused:
            raise NotAllowed(
                "Requests from this origin are not allowed; set GADGET_ALLOWED_ORIGINS to allow it.",
                ErrorCode.ORIGIN_NOT_ALLOWED,
            )

    async def _limited(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        limit = _limit_of(scope)
        too_large = TooLarge(
            f"The request is larger than {limit // 1024 // 1024} MiB; a prompt may have 900,000 bytes."
        )
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > limit:
            await problem_response(too_large)(scope, receive, send)
            return
        received = 0
        refused = False

        async def counted() -> Message:
            nonlocal received, refused
            if refused:
                return {"type": "http.disconnect"}
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                refused = True
                await problem_response(too_large)(scope, receive, send)
                return {"type": "http.disconnect"}
            return message

        async def with_headers(message: Message) -> None:
            if refused:
                return  # the error response was sent already
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *((k, v) for k, v in _HEADERS if k not in present)]
            await send(message)

        await self._app(scope, counted, with_headers)


def _limit_of(scope: Scope) -> int:
    if scope["path"] == _IMAGES:
        return MAX_IMAGE_BYTES
    return MAX_UPLOAD_BYTES if scope["method"] == "PUT" else MAX_BODY_BYTES


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}


async def _refuse_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
