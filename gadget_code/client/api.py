"""The REST client of the terminal client."""

import socket
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Any

import httpx

from gadget_api.errors import ErrorCode, GadgetError, Unavailable, error_from_response
from gadget_api.protocol import API_PREFIX

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class ApiClient:
    def __init__(self, server: str, token: str | None) -> None:
        self.server = server
        self.token = token
        headers = {"User-Agent": f"gadget-code/{version('gadget-code')} on {socket.gethostname()}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._http = httpx.AsyncClient(base_url=server + API_PREFIX, headers=headers, timeout=_TIMEOUT)
        except (httpx.InvalidURL, ValueError) as exc:
            raise GadgetError(ErrorCode.INVALID_REQUEST, f"{server} is not the URL of a server.") from exc

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **query: Any) -> Any:
        return await self._request("GET", path, params={k: v for k, v in query.items() if v is not None})

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._request("POST", path, json=body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._request("PATCH", path, json=body)

    async def delete(self, path: str) -> None:
        await self._request("DELETE", path)

    async def items(self, path: str, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """Yields all items of a list, newest first."""
        cursor = None
        while True:
            page = await self.get(path, cursor=cursor, **query)
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    async def stream(self, path: str, **query: Any) -> AsyncIterator[str]:
        """Yields a long response as text, in pieces."""
        try:
            async with self._http.stream("GET", path, params=query) as response:
                if not response.is_success:
                    raise error_from_response(response.status_code, await response.aread(), self.server)
                async for piece in response.aiter_text():
                    yield piece
        except httpx.HTTPError as exc:
            raise Unavailable(
                ErrorCode.SERVER_UNREACHABLE, f"The response of {self.server} was interrupted; try again."
            ) from exc

    async def is_signed_in(self) -> bool:
        try:
            await self.get("/users/me")
        except GadgetError as exc:
            if exc.code is ErrorCode.NOT_AUTHENTICATED:
                return False
            raise
        return True

    async def _request(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = await self._http.request(method, path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise Unavailable(
                ErrorCode.SERVER_UNREACHABLE,
                f"No server answers at {self.server}; start one with `gadget-code up`, or name yours with --server.",
            ) from exc
        if response.is_success:
            return response.json() if response.content else None
        raise error_from_response(response.status_code, response.content, self.server)
