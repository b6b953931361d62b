"""The web service, as a drone asks it over REST. With aiohttp, which the socket needs anyway: a second HTTP library
would be 9 MB and 0.1 s of every drone."""

import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from yarl import URL

from gadget_api.drones import DroneRegistration, NewRegistration, Registered
from gadget_api.errors import ErrorCode, GadgetError, Unavailable, error_from_response
from gadget_api.history import HistoryPage, TurnHistory
from gadget_api.protocol import API_PREFIX
from gadget_api.users import SignedIn

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=60.0)
_HEALTH_TIMEOUT = aiohttp.ClientTimeout(total=5.0)
_BROKEN = (aiohttp.ClientError, OSError, ValueError)
"""What aiohttp raises when nobody answers, or something that is no HTTP server."""
BLOB_PART_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Health:
    date: datetime | None
    """The server's clock, to the second; None: it does not say."""


class Server:
    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.token = token
        try:
            if not URL(self.url).host:
                raise ValueError("no host")
        except ValueError as exc:
            raise GadgetError(ErrorCode.INVALID_REQUEST, f"{url} is not the URL of a server; mend --server.") from exc
        self._session: aiohttp.ClientSession | None = None

    @property
    def _http(self) -> aiohttp.ClientSession:
        """Made when it is first used: it belongs to the event loop that runs then."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def sign_in(self, email: str, password: str) -> None:
        """Signs in as a user; the token lasts until `register` gives the drone its own."""
        answer = await self._request("POST", "/auth/login", json={"email": email, "password": password})
        self.token = SignedIn.model_validate(answer).token

    async def register(self, new: NewRegistration) -> Registered:
        registered = Registered.model_validate(await self._request("POST", "/drones/registrations", json=new.to_wire()))
        self.token = registered.token
        return registered

    async def registration(self) -> DroneRegistration:
        """The one that our token belongs to."""
        return DroneRegistration.model_validate(await self._request("GET", "/drones/me"))

    async def registration_at(self, hostname: str, workspace_dir: str) -> DroneRegistration | None:
        """The user's newest drone of this place; None where there is none. Needs the user's token."""
        query: dict[str, str] = {}
        while True:
            page = await self._request("GET", "/drones", params=query)
            for drone in map(DroneRegistration.model_validate, page["items"]):
                if (drone.hostname, drone.workspace_dir) == (hostname, workspace_dir):
                    return drone
            if page["nextCursor"] is None:
                return None
            query = {"cursor": page["nextCursor"]}

    async def history(
        self, session: str, *, after_turn: str | None, on_page: Callable[[tuple[TurnHistory, ...]], Awaitable[None]]
    ) -> None:
        """The session's turns after one and up to the running one, a page at a time, oldest first."""
        while True:
            query = {"afterTurn": after_turn} if after_turn is not None else {}
            answer = await self._request("GET", f"/sessions/{session}/context", params=query)
            page = HistoryPage.model_validate(answer)
            await on_page(page.items)
            if page.next_cursor is None:
                return
            after_turn = page.next_cursor

    async def put_blob(self, turn: str, blob: str, path: Path) -> None:
        """Uploads a file in parts; beginning again after a break is safe."""
        with path.open("rb") as file:
            offset = 0
            while part := file.read(BLOB_PART_BYTES):
                await self._request("PUT", f"/turns/{turn}/blobs/{blob}", params={"offset": offset}, content=part)
                offset += len(part)

    async def put_image(self, media_type: str, data: bytes) -> None:
        """The same bytes again are the same image."""
        await self._request("POST", "/images", content=data, headers={"Content-Type": media_type})

    async def image(self, image: str) -> bytes:
        """Raises NotFound when the server has it no more."""
        answer: bytes = await self._request("GET", f"/images/{image}", raw=True)
        return answer

    async def health(self) -> "Health | None":
        """None when no server answers."""
        try:
            async with self._http.get(f"{self.url}/health/live", timeout=_HEALTH_TIMEOUT) as answer:
                if not answer.ok:
                    return None
                said = answer.headers
        except _BROKEN:
            return None
        try:
            date = parsedate_to_datetime(said["Date"])
        except (KeyError, ValueError):
            date = None
        return Health(date)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        raw: bool = False,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
    ) -> Any:
        headers = dict(headers or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if json is not None:
            headers["Content-Type"], content = "application/json", orjson.dumps(json)
        try:
            async with self._http.request(
                method,
                self.url + API_PREFIX + path,
                params=params,
                headers=headers,
                data=io.BytesIO(content) if content is not None else None,  # sent in pieces: bytes would be at once
                allow_redirects=False,
            ) as response:
                status, body = response.status, await response.read()
        except _BROKEN as exc:
            raise Unavailable(
                ErrorCode.SERVER_UNREACHABLE, f"No server answers at {self.url}; start it, or mend --server."
            ) from exc
        if 200 <= status < 300:
            if raw:
                return body
            try:
                return orjson.loads(body) if body else None
            except ValueError:
                pass  # a page of something that stands before the server, or instead of it
        raise error_from_response(status, body, self.url)
