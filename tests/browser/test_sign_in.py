"""Signing in, by password and by the link that `gadget-code up` prints; and what the demo opens on."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS
from tests.harness import DEMO_S, START_S, STOP_S, Process, User, Web, clean_environment, wait_for_sync

OpenPage = Callable[..., Page]


def test_a_person_signs_in_by_password_and_out_again(ada: User, open_page: OpenPage) -> None:
    page = open_page(None, url=ada.url)
    expect(page).to_have_title(re.compile("Sign in"))
    expect(page.get_by_label("E-mail")).to_be_focused()
    page.keyboard.type(ada.email)
    page.keyboard.press("Tab")
    page.keyboard.type("not the password")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.get_by_label("Password").fill(ada.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Account")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_token_that_is_revoked_ends_at_the_sign_in_page(ada: User, open_page: OpenPage) -> None:
    page = open_page(ada, "/drones")
    expect(page.get_by_role("heading", name="Drones")).to_be_visible()
    httpx.post(f"{ada.url}/api/v1/auth/logout", headers={"Authorization": f"Bearer {ada.token}"}).raise_for_status()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()  # its socket is closed within five seconds


def test_assets_are_kept_for_ever_the_page_is_not_and_what_is_missing_is_missing(web: Web) -> None:
    with httpx.Client(base_url=web.url) as http:
        page = http.get("/s/some-session")
        assert page.status_code == 200
        assert page.headers["cache-control"] == "no-cache"
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "unsafe-eval" not in page.headers["content-security-policy"]
        script = re.search(r'src="(/assets/[^"]+\.js)"', page.text)
        assert script is not None
        assert "immutable" in http.get(script[1]).headers["cache-control"]
        for path in ("/assets/gone.js", "/api/v1/nothing", "/nothing.txt", "/.sources", "/.manifest.json", "/health/x"):
            answer = http.get(path)
            assert answer.status_code == 404, path
            assert "<!doctype" not in answer.text.lower(), path


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Process]:
    env = clean_environment(GADGET_DATA_DIR=str(tmp_path / "data"), XDG_CONFIG_HOME=str(tmp_path / "config"))
    command = [sys.executable, "-P", "-m", "gadget_code", "up", "--demo", "--port", "0", "--no-browser"]
    process = Process(command, env, tmp_path / "up.log").start()
    yield process
    assert process.stop() == 0, process.output


@pytest.mark.timeout(2 * START_S + DEMO_S + 8 * WAIT_MS / 1000 + STOP_S)  # more than all that is waited for
def test_the_demo_opens_on_a_turn_that_works_and_its_link_is_good_once(demo: Process, open_page: OpenPage) -> None:
    link = wait_for_sync(
        lambda: re.search(r"(http://\S+)/(#sign-in=\S+)", demo.output), lambda: demo.has_ended, demo.log
    )
    wait_for_sync(lambda: re.search(r"\$ gadget-code prompt", demo.output), lambda: demo.has_ended, demo.log)
    page = open_page(None, f"/{link[2]}", url=link[1])
    # Nobody reads anything: the page goes to the session that is at work.
    expect(page).to_have_url(re.compile(r"/s/\w+$"))
    log = page.get_by_role("log")
    expect(log).to_contain_text("The tests pass now.", timeout=DEMO_S * 1000)
    expect(page.get_by_role("button", name=re.compile("1 file changed"))).to_be_visible()
    page.goto("/users")
    expect(page.get_by_role("row", name=re.compile("^owner@localhost"))).to_be_visible()
    again = open_page(None, f"/{link[2]}", url=link[1])
    expect(again.get_by_role("status").filter(has_text="used already")).to_be_visible()
