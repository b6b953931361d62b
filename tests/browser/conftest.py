"""A browser before a real web service. Its own pytest process (`scripts/test` starts it): playwright's event loop and
pytest-asyncio's do not share one.

Every page that a test opens must have said nothing wrong when the test ends: no error of a script, nothing that the
Content-Security-Policy refused.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    StorageState,
    StorageStateCookie,
    expect,
    sync_playwright,
)

from gadget_ai.testing.script import Script
from gadget_ai.testing.server import ScriptedServer
from gadget_api.ids import new_id
from gadget_code.http.ide_files import STATIC
from tests.browser.chromium import chromium_path
from tests.browser.loop import Loop
from tests.gadget_code.peers import PlayedDrone
from tests.harness import Drone, User, Web, repository

WAIT_MS = 20_000
_HOW = (
    "No browser for the tests: install one (`playwright install chromium`, or `apt install chromium`), "
    "or name one in GADGET_TEST_BROWSER."
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only where these tests are asked for by name."""
    return None if any("tests/browser" in str(given) for given in config.args) else True


def _browser(playwright: Playwright) -> Browser:
    path = chromium_path(playwright)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(_HOW)
        pytest.skip(_HOW)
    # The sandbox of Chromium needs what a container's root does not have; the pages are our own.
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert (STATIC / "index.html").is_file(), "the IDE is not built: python ide/build.py"
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = _browser(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.fixture
def peers(loop: Loop) -> Iterator[AsyncExitStack]:
    """What a test opened in the loop, ended with it."""
    stack = AsyncExitStack()
    yield stack
    loop.run(stack.aclose())


@pytest.fixture
def ada(web: Web, loop: Loop, peers: AsyncExitStack) -> User:
    """A fresh account."""

    async def entered() -> User:
        return await peers.enter_async_context(await web.user())

    return loop.run(entered())


@pytest.fixture
def model(loop: Loop, peers: AsyncExitStack) -> Callable[[Script], ScriptedServer]:
    """Starts a scripted model."""

    def start(script: Script) -> ScriptedServer:
        server: ScriptedServer = loop.run(peers.enter_async_context(ScriptedServer(script)))
        return server

    return start


@pytest.fixture
def drone_for(loop: Loop, peers: AsyncExitStack, tmp_path: Path) -> Callable[[User], Drone]:
    """Starts a real drone."""

    def start(user: User) -> Drone:
        drone = loop.run(Drone.at(tmp_path, user))
        peers.callback(drone.stop)
        return drone

    return start


@pytest.fixture
def played_for(loop: Loop, peers: AsyncExitStack) -> Callable[[User], PlayedDrone]:
    """Connects a drone that the test plays."""

    def start(user: User) -> PlayedDrone:
        drone: PlayedDrone = loop.run(peers.enter_async_context(PlayedDrone(user)))
        return drone

    return start


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A small project's repository."""
    return repository(tmp_path / "origin", {"README.md": "# A project\n", "app.py": "def answer():\n    return 41\n"})


@pytest.fixture
def faults() -> list[str]:
    """What pages said that they must not. A test that expects some takes them out."""
    return []


@pytest.fixture
def open_page(browser: Browser, faults: list[str]) -> Iterator[Callable[..., Page]]:
    """Opens a page in a browser context of its own: `open_page(user, path="/", **context options)`."""
    contexts: list[BrowserContext] = []

    def open_(user: User | None, path: str = "/", url: str | None = None, **options: Any) -> Page:
        base = url or (user.url if user is not None else "")
        state = None if user is None else signed_in(user, base)
        options = {"viewport": {"width": 1280, "height": 800}, "storage_state": state, **options}
        context = browser.new_context(base_url=base, **options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        listen(page, faults)
        page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def signed_in(user: User, base: str) -> StorageState:
    """What a browser keeps of a sign-in at `base`: half of the token as its cookie, half in the page's storage."""
    half, key = user.token.split(".")
    cookie: StorageStateCookie = {
        **{"name": "gadget_session", "value": half, "domain": urlsplit(base).hostname or "", "path": "/"},
        **{"expires": -1, "httpOnly": True, "secure": False, "sameSite": "Strict"},
    }
    return {"cookies": [cookie], "origins": [{"origin": base, "localStorage": [{"name": "gadget.page", "value": key}]}]}


def listen(page: Page, faults: list[str]) -> None:
    """Notes errors of scripts, and whatever the Content-Security-Policy refused."""

    def said(message: ConsoleMessage) -> None:
        if (
            message.type == "error"
            and "Failed to load resource" not in message.text
            and "WebSocket" not in message.text
        ):
            faults.append(message.text)

    def failed(error: Error) -> None:
        faults.append(str(error))

    page.on("console", said)
    page.on("pageerror", failed)


async def a_session(user: User, git_url: str, base_url: str, **fields: Any) -> dict[str, Any]:
    """A session of `user`, with a project and a provider for it."""
    project = await user.project(git_url, slug=f"p{new_id()}")
    provider = await user.provider(
        base_url, price={"input": 1.0, "cachedInput": 0.5, "output": 10.0}, contextWindow=32768
    )
    return await user.session(project, provider, **fields)
