"""A menu stays open when the press that opened it ends, and closes by a press that begins elsewhere."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.test_accessible import SMALL, violations
from tests.browser.test_files import Site, item, opened, site

OpenPage = Callable[..., Page]
__all__ = ["site"]


def menu_of(page: Page) -> Locator:
    return page.get_by_role("menu", name="Actions for app.py")


def center(row: Locator) -> dict[str, float]:
    box = row.bounding_box()
    assert box is not None
    return {"x": box["x"] + 60, "y": box["y"] + box["height"] / 2}


@pytest.mark.parametrize("held_ms", [0, 300])
def test_a_right_press_opens_the_menu_of_a_file_however_long_it_is_held(
    site: Site, open_page: OpenPage, held_ms: int
) -> None:
    page = opened(site, open_page)
    item(page, "app.py").click(button="right", delay=held_ms)
    expect(menu_of(page).get_by_role("menuitem").first).to_be_focused()
    # Some versions of Chromium close an `auto` one at the release, others do not.
    expect(menu_of(page)).to_have_attribute("popover", "manual")
    page.mouse.move(2, 2)
    expect(menu_of(page)).to_be_visible()
    assert violations(page) == []
    # Another row's menu takes its place.
    item(page, "build").click(button="right", delay=held_ms)
    expect(page.get_by_role("menu", name="Actions for build")).to_be_visible()
    expect(page.get_by_role("menu")).to_have_count(1)
    page.get_by_label("Prompt", exact=True).click()
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    item(page, "app.py").click(button="right", delay=held_ms)
    page.get_by_role("menuitem", name="Mention in the prompt").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("@app.py ")


def test_a_long_touch_opens_the_menu_of_a_file_and_its_end_leaves_it_open(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, viewport=SMALL, has_touch=True, is_mobile=True)
    touch = page.context.new_cdp_session(page)
    row, place = item(page, "app.py"), center(item(page, "app.py"))
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [place]})
    # A browser without a screen knows no long press: its event is sent as the finger is down.
    row.dispatch_event("contextmenu", {"clientX": place["x"], "clientY": place["y"], "bubbles": True})
    expect(menu_of(page)).to_be_visible()
    # No tap, which a short touch would be here: the finger slides a little.
    slid = {**place, "y": place["y"] + 40}
    touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [slid]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(menu_of(page).get_by_role("menuitem").first).to_be_focused()
    page.touchscreen.tap(300, 700)
    expect(page.get_by_role("menu")).to_have_count(0)
    item(page, "app.py").get_by_role("button", name="Actions for app.py").tap()
    expect(menu_of(page)).to_be_visible()
    menu_of(page).get_by_role("menuitem", name="Rename").tap()
    expect(page.get_by_role("textbox", name="New path")).to_have_value("app.py")


@pytest.mark.parametrize("keys", ["ContextMenu", "Shift+F10"])
def test_a_key_opens_the_menu_of_a_file_and_escape_closes_it(site: Site, open_page: OpenPage, keys: str) -> None:
    page = opened(site, open_page)
    page.get_by_label("Prompt", exact=True).fill("Wait for me.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    item(page, "app.py").click()
    page.get_by_role("tree").focus()
    page.keyboard.press(keys)
    expect(menu_of(page).get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("End")
    expect(menu_of(page).get_by_role("menuitem").last).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(menu_of(page).get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(page.get_by_role("tree")).to_be_focused()
    # It closed the menu, and stopped no turn.
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
    page.keyboard.press(keys)
    page.keyboard.press("Tab")
    expect(page.get_by_role("menu")).to_have_count(0)


@pytest.mark.parametrize("way", ["mouse", "held", "touch", "keyboard"])
def test_the_menu_of_a_button_opens_chooses_and_closes(site: Site, open_page: OpenPage, way: str) -> None:
    page = opened(site, open_page, has_touch=True)

    def press(where: Locator) -> None:
        if way == "touch":
            where.tap()
        elif way == "keyboard":
            where.focus()
            page.keyboard.press("Enter")
        else:
            where.click(delay=300 if way == "held" else 0)

    for name in ("Permissions:", "Model:", "Effort:", "Drone:", "Account", "Group by", "Actions for The session"):
        button = page.get_by_role("button", name=re.compile(f"^{name}"))
        press(button)
        expect(button).to_have_attribute("aria-expanded", "true")
        expect(page.get_by_role("menu").locator(":focus")).to_have_count(1)
        # The button that opened it closes it.
        if way == "keyboard":
            page.keyboard.press("Escape")
        else:
            press(button)
        expect(button).to_have_attribute("aria-expanded", "false")
        expect(page.get_by_role("menu")).to_have_count(0)
        expect(button).to_be_focused()
    press(page.get_by_role("button", name=re.compile("^Permissions:")))
    press(page.get_by_role("menuitemradio", name=re.compile("^Plan")))
    expect(page.get_by_role("button", name="Permissions: Plan")).to_be_focused()
