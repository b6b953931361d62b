"""Everything of a session together: the conversation, files, a terminal and the review, on the largest and the smallest
screen, and from sign-in to the last of them by keyboard alone."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from gadget_ai.testing.script import Script
from gadget_ai.testing.server import ScriptedServer
from tests.browser.loop import Loop
from tests.browser.test_accessible import SMALL, violations
from tests.browser.test_conversation import log_of
from tests.browser.test_files import Site, answer, editor, item, panel, set_up
from tests.browser.test_review import review_of
from tests.browser.test_terminal import plain_shell, rows_of, run
from tests.harness import Drone, User

OpenPage = Callable[..., Page]
LARGE = {"width": 3840, "height": 2160}
_OUTSIDE = """() => {
    const shown = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
    const scrolls = (element) => {
        for (let at = element.parentElement; at !== null; at = at.parentElement) {
            const {overflow} = getComputedStyle(at);
            if (/auto|scroll|hidden/.test(overflow)) return true;
        }
        return false;
    };
    return [...document.querySelectorAll("button, a, input, textarea, select, h1, h2, p")]
        .filter((element) => shown(element) && !scrolls(element) && element.closest(".skip, [inert], .xterm") === null)
        .map((element) => [element, element.getBoundingClientRect()])
        .filter(([, {left, top, right, bottom}]) =>
            left < -1 || top < -1 || right > innerWidth + 1 || bottom > innerHeight + 1)
        .map(([element]) => element.outerHTML.slice(0, 160));
}"""


@pytest.fixture
def site(
    loop: Loop,
    ada: User,
    model: Callable[[Script], ScriptedServer],
    drone_for: Callable[[User], Drone],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Site:
    plain_shell(monkeypatch, tmp_path)
    return set_up(loop, ada, model(Script(answer)), drone_for(ada), tmp_path)


def nothing_is_outside(page: Page) -> None:
    root = "document.documentElement"
    too_much = page.evaluate(f"() => [{root}.scrollWidth - innerWidth, {root}.scrollHeight - innerHeight]")
    assert max(too_much) <= 0, too_much
    assert page.evaluate(_OUTSIDE) == []


def a_change(page: Page) -> None:
    page.get_by_label("Prompt", exact=True).fill("Change it.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Review", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_large_screen_has_it_all_side_by_side(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path, viewport=LARGE)
    a_change(page)
    page.get_by_role("button", name="Files", exact=True).click()
    item(page, "app.py").click()
    page.get_by_role("button", name="Terminal", exact=True).click()
    expect(rows_of(page)).to_contain_text("$")
    expect(editor(page, "app.py")).to_be_visible()
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    nothing_is_outside(page)
    # Text is no wider than can be read.
    box = log_of(page).locator("article").first.bounding_box()
    assert box is not None
    assert box["width"] < 1000
    page.get_by_role("button", name="Review", exact=True).click()
    expect(review_of(page).get_by_role("heading", name="app.py")).to_be_visible()
    nothing_is_outside(page)
    assert violations(page) == []


def test_a_small_screen_has_one_after_the_other(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path, viewport=SMALL, has_touch=True, is_mobile=True)
    a_change(page)
    page.get_by_role("button", name="Terminal", exact=True).click()
    expect(rows_of(page)).to_contain_text("$")
    nothing_is_outside(page)
    expect(page.get_by_label("Prompt", exact=True)).to_be_in_viewport()
    page.get_by_role("button", name="Files", exact=True).click()
    item(page, "app.py").click()
    expect(editor(page, "app.py")).to_be_visible()
    nothing_is_outside(page)
    assert violations(page) == []
    page.get_by_role("button", name="Back to the conversation").click()
    page.get_by_role("button", name="Review", exact=True).click()
    expect(review_of(page).get_by_role("heading", name="app.py")).to_be_visible()
    nothing_is_outside(page)
    assert violations(page) == []


def test_from_sign_in_through_all_of_it_and_back_by_keyboard_alone(site: Site, open_page: OpenPage) -> None:
    page = open_page(None, url=site.user.url)
    expect(page.get_by_label("E-mail")).to_be_focused()
    page.keyboard.type(site.user.email)
    page.keyboard.press("Tab")
    page.keyboard.type(site.user.password)
    page.keyboard.press("Enter")
    # The newest session opens by itself; another would be chosen here.
    expect(log_of(page)).to_be_visible()
    page.keyboard.press("ControlOrMeta+K")
    expect(page.get_by_role("combobox", name=re.compile("^Type a command"))).to_be_focused()
    page.keyboard.type("the session")
    expect(page.get_by_role("option", name=re.compile("The session"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(log_of(page)).to_contain_text("Hello.")
    page.keyboard.press("ControlOrMeta+I")
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    page.keyboard.type("Change it.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Review", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    # The change is looked at, and kept.
    page.keyboard.press("Alt+R")
    review = review_of(page)
    expect(review.get_by_text("0 of 1 reviewed").first).to_be_visible()
    page.keyboard.press("F7")
    page.keyboard.press("Alt+Enter")
    expect(review.get_by_text("1 of 1 reviewed").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(review).to_be_hidden()
    # A file is opened, changed and saved.
    page.keyboard.press("ControlOrMeta+P")
    expect(page.get_by_role("combobox", name=re.compile("^Name of a file"))).to_be_focused()
    page.keyboard.type("app")
    expect(page.get_by_role("option", name=re.compile(r"^app\.py"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(editor(page, "app.py")).to_be_focused()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type("# mine")
    page.keyboard.press("ControlOrMeta+S")
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    assert site.file("app.py").endswith("# mine")
    # A command is run.
    page.keyboard.press("Control+`")
    expect(page.get_by_label(re.compile("^Terminal input"))).to_be_focused()
    expect(rows_of(page)).to_contain_text("$")
    run(page, "tail -n 1 app.py; echo do''ne")
    expect(rows_of(page)).to_contain_text("done")
    expect(rows_of(page)).to_contain_text("# mine")
    # And back.
    page.keyboard.press("Control+`")
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    page.keyboard.press("Alt+F")
    expect(panel(page)).to_be_hidden()
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
