"""A server on another port of the same host: it gets the session cookie, and nothing for it."""

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.browser.test_files import PIXEL
from tests.gadget_code.peers import PlayedDrone, RawSocket
from tests.harness import User, Web
from tests.security.test_rest import OPEN, filled, routes

OpenPage = Callable[..., Page]
CLOSED = sorted(routes() - OPEN)


class Elsewhere:
    """A development server, or a preview, on a port of its own: any page, and a note of the cookies it was sent."""

    def __init__(self) -> None:
        self.cookies: list[str] = []
        noted = self.cookies

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                noted.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Preview</title><p>A preview")

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


def sign_in(page: Page, user: User) -> None:
    page.get_by_label("E-mail").fill(user.email)
    page.get_by_label("Password").fill(user.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def signed_in_page(user: User, open_page: OpenPage) -> Page:
    page = open_page(None, url=user.url)
    sign_in(page, user)
    return page


def test_the_cookie_that_another_port_gets_opens_no_route_and_no_socket(
    loop: Loop, ada: User, open_page: OpenPage, elsewhere: Elsewhere
) -> None:
    page = signed_in_page(ada, open_page)
    page.context.new_page().goto(elsewhere.url)
    cookie = next(cookie for cookie in elsewhere.cookies if cookie)
    half = cookie.partition("=")[2]
    assert cookie == f"gadget_session={half}"
    ways: list[dict[str, str]] = [
        {"Cookie": cookie},
        {"Authorization": f"Bearer {half}"},
        *({"Cookie": cookie, "X-Gadget-Page": key} for key in ("", "x", half, ".", "null")),
    ]
    with httpx.Client(base_url=ada.url, timeout=30) as http:
        for method, path in CLOSED:
            for headers in ways:
                body: dict[str, Any] | None = {} if method in ("POST", "PATCH") else None
                answer = http.request(method, filled(path), json=body, headers=headers)
                assert answer.status_code == 401, (method, path, headers, answer.text)

    async def socket(auth: dict[str, Any]) -> str:
        async with RawSocket(ada.url, headers={"Cookie": cookie}) as raw:
            return await raw.sign_in(auth)

    for auth in ({}, {"token": half}, {"page": ""}, {"page": half}, {"page": None}, {"page": ["x"]}, {"page": "x"}):
        refused = loop.run(socket(auth))
        assert refused.startswith("44"), (auth, refused)
        assert "notAuthenticated" in refused, (auth, refused)
    # It is the half of a sign-in that works.
    page.goto("/drones")
    expect(page.get_by_role("heading", name="Drones")).to_be_visible()


def test_a_page_of_another_port_gets_nothing_by_the_cookie(
    ada: User, open_page: OpenPage, elsewhere: Elsewhere, web: Web
) -> None:
    page = signed_in_page(ada, open_page)
    other = page.context.new_page()
    other.goto(elsewhere.url)
    answered: dict[tuple[str, str], int] = {}
    other.on("response", lambda r: answered.__setitem__((r.request.method, r.url.removeprefix(ada.url)), r.status))
    paths = [(method, filled(path)) for method, path in CLOSED]
    got = other.evaluate(
        """async ([base, routes]) => {
            const got = [];
            for (const [method, path] of routes) {
                for (const mode of ["cors", "no-cors"]) {
                    if (mode === "no-cors" && !["GET", "POST"].includes(method)) continue;
                    try {
                        const answer = await fetch(base + path, { method, mode, credentials: "include" });
                        const text = await answer.text();
                        if (answer.type !== "opaque" || text !== "") got.push([method, path, answer.type, text]);
                    } catch { /* the browser hands out nothing */ }
                }
            }
            return got;
        }""",
        [ada.url, paths],
    )
    assert got == []
    statuses = {key: status for key, status in answered.items() if key[1].startswith("/api/")}
    assert 403 in statuses.values()
    assert set(statuses.values()) <= {401, 403, 405}, statuses
    # Its own address is no origin of the service.
    opened = other.evaluate(
        """async (url) => await new Promise((done) => {
            const socket = new WebSocket(url);
            socket.onopen = () => socket.send("40{}");
            socket.onmessage = ({ data }) => { if (data.startsWith("4")) done(data); };
            socket.onclose = () => done("closed");
        })""",
        ada.url.replace("http", "ws", 1) + "/socket.io/?EIO=4&transport=websocket",
    )
    assert not opened.startswith("40"), opened
    # Opened as a page, an address is answered by the cookie alone: with nothing.
    answer = other.goto(f"{ada.url}/api/v1/users/me")
    assert answer is not None
    assert answer.status == 401


def test_a_picture_that_a_page_has_shown_is_not_shown_to_another_port(
    loop: Loop,
    ada: User,
    played_for: Callable[[User], PlayedDrone],
    open_page: OpenPage,
    elsewhere: Elsewhere,
) -> None:
    stage = Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))
    page = signed_in_page(ada, open_page)
    page.goto(stage.path)
    headers = {"Authorization": f"Bearer {ada.token}", "Content-Type": "image/png"}
    image = httpx.post(f"{ada.url}/api/v1/images", content=PIXEL, headers=headers).json()
    played = stage.turn()
    call: dict[str, Any] = {"callId": "c1", "name": "shot", "params": {}, "images": [image]}
    stage.send(played.event("toolCall", **call, response="One.", isError=False, durationMs=1))
    log_of(page).get_by_role("button", name=re.compile("^shot")).click()
    picture = log_of(page).locator(".tool img")
    expect(picture).to_have_attribute("src", re.compile("^blob:"))
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1
    other = page.context.new_page()
    other.goto(elsewhere.url)
    shown = other.evaluate(
        """async (url) => await new Promise((done) => {
            const image = new Image();
            image.onload = () => done("shown");
            image.onerror = () => done("refused");
            image.src = url;
        })""",
        f"{ada.url}/api/v1/images/{image['_id']}",
    )
    assert shown == "refused"


def test_a_page_whose_storage_is_lost_asks_to_sign_in_once(ada: User, open_page: OpenPage) -> None:
    page = signed_in_page(ada, open_page)
    assert page.evaluate("() => localStorage.getItem('gadget.page')")
    page.evaluate("() => localStorage.clear()")
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    page.reload()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.context.cookies()[0]["name"] == "gadget_session"
    sign_in(page, ada)
    assert len(loads) == 1
    page.reload()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def test_tabs_sign_in_and_out_together_and_signing_out_leaves_nothing(ada: User, open_page: OpenPage) -> None:
    page = signed_in_page(ada, open_page)
    other = page.context.new_page()
    other.goto("/drones")
    expect(other.get_by_role("heading", name="Drones")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Account")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    for tab in (page, other):
        expect(tab.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.evaluate("() => localStorage.getItem('gadget.page')") is None
    assert page.context.cookies() == []
    sign_in(other, ada)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
