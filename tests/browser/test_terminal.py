"""A terminal in the browser: typed into, reloaded, seen by two, resized, lost and found; real drones, real shells."""

import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_accessible import SMALL, is_too_wide, violations
from tests.browser.test_conversation import NOWHERE
from tests.harness import Drone, User, Web

OpenPage = Callable[..., Page]


@pytest.fixture
def session(loop: Loop, ada: User) -> dict[str, Any]:
    return loop.run(a_session(ada, *NOWHERE, name="The session"))


def plain_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What terminals of drones that are started from now on run."""
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\nPS1='$ ' exec /bin/sh -i\n")
    plain.chmod(0o755)
    monkeypatch.setenv("SHELL", str(plain))


@pytest.fixture
def drone(ada: User, drone_for: Callable[[User], Drone], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Drone:
    plain_shell(monkeypatch, tmp_path)
    return drone_for(ada)


def rows_of(page: Page) -> Locator:
    """What is on the terminal that is shown."""
    return page.get_by_role("tabpanel").locator(".xterm-rows").locator("visible=true")


def said(page: Page) -> str:
    return "\n".join(line.rstrip("\xa0 ") for line in rows_of(page).locator("> div").all_inner_texts()).rstrip()


def a_terminal(page: Page) -> None:
    """Opened by key, and ready to be typed into."""
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("Control+`")
    expect(rows_of(page)).to_contain_text("$")
    expect(page.get_by_label(re.compile("^Terminal input"))).to_be_focused()


def point_at(page: Page, line: str, clicks: int = 1) -> None:
    """Clicks on the beginning of the line that begins so."""
    box = rows_of(page).locator("> div").filter(has_text=re.compile(f"^{line}")).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 12, box["y"] + 8)
    page.mouse.click(box["x"] + 12, box["y"] + 8, click_count=clicks)


def run(page: Page, command: str) -> None:
    page.keyboard.type(command)
    page.keyboard.press("Enter")


def test_a_command_is_typed_and_after_a_reload_all_is_there_once(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}")
    a_terminal(page)
    run(page, "echo fir''st; seq 1 3 | paste -sd+; printf 'caf\\303\\251 \\342\\234\\223\\n'")
    expect(rows_of(page)).to_contain_text("1+2+3")
    all_of_it = re.compile(r"café ✓\s*\$\s*$")
    expect(rows_of(page)).to_have_text(all_of_it)
    before = said(page)
    page.reload()
    expect(rows_of(page)).to_have_text(all_of_it)
    assert said(page) == before
    page.get_by_label(re.compile("^Terminal input")).focus()
    run(page, "echo aft''er")
    expect(rows_of(page)).to_contain_text("after")
    assert said(page).count("1+2+3") == 1
    # By key it goes, by button it comes: the same one.
    page.keyboard.press("Control+`")
    expect(page.get_by_role("region", name="Terminal")).to_be_hidden()
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    page.get_by_role("button", name="Terminal", exact=True).click()
    expect(rows_of(page)).to_contain_text("after")
    expect(page.get_by_role("tab")).to_have_count(1)


def test_two_browsers_see_the_same_and_the_last_size_counts(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    one = open_page(ada, f"/s/{session['_id']}")
    a_terminal(one)
    run(one, "echo fr''om one")
    expect(rows_of(one)).to_contain_text("from one")
    other = open_page(ada, f"/s/{session['_id']}", viewport={"width": 900, "height": 700})
    a_terminal(other)
    expect(rows_of(other)).to_contain_text("from one")
    run(other, "echo fr''om other; stty size")
    for page in (one, other):
        expect(rows_of(page)).to_contain_text("from other")
        expect(rows_of(page)).to_contain_text(re.compile(r"\d+ \d+"))
    wide = re.findall(r"^\d+ (\d+)$", said(other), re.M)
    other.set_viewport_size({"width": 640, "height": 700})
    expect(other.locator(".xterm-rows > div").first).to_be_visible()

    def columns() -> int:
        return int(other.evaluate("() => document.querySelector('.xterm-screen').clientWidth"))

    before = columns()
    run(other, "while :; do case $(stty size) in *' " + wide[0] + "') ;; *) stty size; break;; esac; sleep 0.1; done")
    expect(rows_of(other)).to_contain_text(re.compile(r"\d+ (?!" + wide[0] + r")\d+\s*\$"), use_inner_text=True)
    assert columns() <= before
    narrow = re.findall(r"^\d+ (\d+)$", said(other), re.M)[-1]
    assert int(narrow) < int(wide[0])
    assert said(one).count("from other") == said(other).count("from other") == 1


def test_tabs_are_opened_walked_and_ended(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}")
    a_terminal(page)
    run(page, "echo in the fir''st")
    expect(rows_of(page)).to_contain_text("in the first")
    page.get_by_role("button", name="New terminal").click()
    expect(page.get_by_role("tab")).to_have_count(2)
    expect(page.get_by_role("tab", name="plain 2")).to_have_attribute("aria-selected", "true")
    expect(rows_of(page)).to_have_text(re.compile(r"^\s*\$\s*$"))
    run(page, "exit 3")
    expect(page.get_by_text("The shell exited with 3. Press Enter to close.")).to_be_visible()
    expect(page.get_by_role("tab", name="plain 2")).to_contain_text("exit 3")
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_text("The shell exited with 3. Press Enter to close.")).to_be_hidden()
    expect(page.get_by_role("tab")).to_have_count(2)
    expect(rows_of(page)).to_have_text(re.compile(r"^\s*\$\s*$"))
    run(page, "exit")
    expect(page.get_by_text("The shell exited with 0. Press Enter to close.")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(rows_of(page)).to_contain_text("in the first")
    page.get_by_role("button", name="New terminal").click()
    expect(page.get_by_role("tab", name="plain 2")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="plain 2").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="plain", exact=True)).to_be_focused()
    expect(rows_of(page)).to_contain_text("in the first")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="plain 2")).to_be_focused()
    page.get_by_role("button", name="End plain 2").click()
    expect(page.get_by_role("tab")).to_have_count(1)
    page.get_by_role("button", name="End plain").click()
    expect(page.get_by_role("region", name="Terminal")).to_be_hidden()


def test_keys_belong_to_the_shell_but_f6_leads_out(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}")
    a_terminal(page)
    run(page, "cat -v")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.press("Tab")
    page.keyboard.type("?")
    page.keyboard.press("Enter")
    expect(rows_of(page)).to_contain_text("^[^K")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Control+c")
    page.keyboard.press("F6")
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_label("Prompt", exact=True).fill("")
    page.get_by_role("log", name="Conversation").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("In a terminal: back to the prompt")


def test_what_is_pasted_is_bracketed_and_what_is_selected_is_copied(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}", permissions=["clipboard-read", "clipboard-write"])
    a_terminal(page)
    run(page, "stty -echo; printf '\\033[?2004hsel\\145cted\\n'; cat -v")
    expect(rows_of(page)).to_contain_text("selected")
    page.evaluate("() => navigator.clipboard.writeText('one\\ntwo')")
    page.keyboard.press("Control+Shift+v")
    page.keyboard.press("Enter")
    expect(rows_of(page)).to_contain_text("^[[200~one")
    expect(rows_of(page)).to_contain_text("two^[[201~")
    point_at(page, "selected", clicks=2)
    page.keyboard.press("Control+Shift+c")
    page.wait_for_function("async () => (await navigator.clipboard.readText()) === 'selected'")


def test_what_a_program_says_opens_copies_and_names_nothing(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}", permissions=["clipboard-read", "clipboard-write"])
    a_terminal(page)
    page.evaluate("() => navigator.clipboard.writeText('mine')")
    expect(page).to_have_title(re.compile("The session"))
    title = page.title()
    clipboard, title_of, link = "]52;c;ZXZpbA==\\007", "]0;evil\\007", "]8;;javascript:alert(1)\\007link\\033]8;;\\007"
    run(page, f"printf '\\033{clipboard}\\033{title_of}\\033{link} <b>x</b>\\n'")
    expect(rows_of(page)).to_contain_text("link <b>x</b>")
    point_at(page, "link")
    assert page.title() == title
    assert page.evaluate("() => navigator.clipboard.readText()") == "mine"
    assert len(page.context.pages) == 1


def test_a_lost_service_shows_at_once_and_nothing_is_shown_twice(
    loop: Loop,
    peers: AsyncExitStack,
    mongodb_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_page: OpenPage,
) -> None:
    web = Web.at(tmp_path / "web", mongodb_url)
    peers.callback(web.stop)
    user = loop.run(web.user())
    loop.run(peers.enter_async_context(user))
    monkeypatch.setenv("SHELL", "/bin/sh")
    drone = loop.run(Drone.at(tmp_path, user))
    peers.callback(drone.stop)
    page = open_page(user, f"/s/{loop.run(a_session(user, *NOWHERE))['_id']}")
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("Control+`")
    expect(rows_of(page)).to_contain_text(re.compile("[#$]"))
    run(page, "echo befo''re; while [ ! -e go ]; do sleep 0.1; done; echo mean''while; touch done")
    expect(rows_of(page)).to_contain_text("before")
    web.kill()
    expect(page.get_by_text("Connection lost. Programs here keep running.")).to_be_visible()
    page.keyboard.type("LOST")
    (drone.workspace / "go").touch()
    web.start()
    expect(rows_of(page)).to_contain_text("meanwhile")
    expect(page.get_by_text("Connection lost. Programs here keep running.")).to_be_hidden()
    page.get_by_label(re.compile("^Terminal input")).focus()
    run(page, "echo aga''in")
    expect(rows_of(page)).to_contain_text("again")
    text = said(page)
    assert [text.count(word) for word in ("before", "meanwhile", "again", "LOST")] == [1, 1, 1, 0]


def test_a_drone_that_is_gone_is_said_to_be(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage
) -> None:
    page = open_page(ada, f"/s/{session['_id']}")
    a_terminal(page)
    drone.signal(signal.SIGKILL)
    drone.wait()
    expect(page.get_by_text(re.compile("is not connected. Its programs run"))).to_be_visible()
    drone.start()
    # Its terminals went with it; another can be had.
    expect(page.get_by_text("No terminal is open.")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="New terminal").click()
    expect(rows_of(page)).to_contain_text("$")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_with_the_terminal_open(
    drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage, scheme: str
) -> None:
    page = open_page(ada, f"/s/{session['_id']}", color_scheme=scheme)
    a_terminal(page)
    run(page, 'for n in 0 1 2 3 4 5 6 7; do printf "\\033[3${n}mcolour $n \\033[9${n}mbright\\033[0m\\n"; done')
    expect(rows_of(page)).to_contain_text("colour 7 bright")
    assert violations(page) == []
    page.get_by_role("button", name="Screen reader mode").click()
    expect(page.locator(".xterm-accessibility")).to_contain_text("colour 7 bright")
    assert violations(page) == []
    page.get_by_role("tabpanel").locator(".xterm-helper-textarea").focus()
    run(page, "exit 1")
    expect(page.get_by_text("The shell exited with 1.")).to_be_visible()
    assert violations(page) == []


def test_it_fits_on_a_small_screen(drone: Drone, ada: User, session: dict[str, Any], open_page: OpenPage) -> None:
    page = open_page(ada, f"/s/{session['_id']}", viewport=SMALL, has_touch=True, is_mobile=True)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.get_by_role("button", name="Terminal", exact=True).click()
    expect(rows_of(page)).to_contain_text("$")
    expect(page.get_by_label(re.compile("^Terminal input"))).to_be_focused()
    run(page, "stty size; echo 'a line that is longer than what such a small screen can show in one'")
    expect(rows_of(page)).to_contain_text("in one")
    assert not is_too_wide(page)
    assert violations(page) == []
