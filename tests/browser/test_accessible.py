"""Every page: nothing that axe finds, in light and in dark; nothing wider than a small screen; by keyboard alone."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone, an_inquiry
from tests.harness import User

OpenPage = Callable[..., Page]
AXE = Path(__file__).parents[2] / "ide" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = {
    "/new": "What should the agent do?",
    "/welcome": "Set up Gadget Code",
    "/drones": "Drones",
    "/providers": "Providers",
    "/usage": "Usage",
    "/rules": "Permissions",
    "/account": "Account",
}
TEXT = """\
## A heading

Text with `code`, a [link](https://example.org) and

```python
def f(x):  # why
    return x + 1
```

| a | b |
|---|---|
| 1 | 2 |

> quoted
"""
SMALL = {"width": 360, "height": 740}


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


def violations(page: Page) -> list[str]:
    """What axe finds, each with the elements that it is about."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate(
        "async (tags) => await axe.run(document, {runOnly: {type: 'tag', values: tags}})", TAGS
    )
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:4]]}"
        for one in found["violations"]
    ]


def is_too_wide(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(stage: Stage, open_page: OpenPage, scheme: str) -> None:
    page = open_page(None, url=stage.user.url, color_scheme=scheme)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert violations(page) == []
    page = open_page(stage.user, color_scheme=scheme)
    for path, heading in PAGES.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("^The session"))).to_be_visible()
        assert violations(page) == [], path


def a_full_conversation(stage: Stage, page: Page) -> None:
    """One of everything."""
    played = stage.turn("# Do\nall of it")
    of = {"_id": played.turn, "session": played.session, "user": stage.user.document["_id"]}
    shell: dict[str, Any] = {"callId": "c1", "name": "shell", "params": {"command": "make test"}}
    edit: dict[str, Any] = {
        "callId": "c2",
        "name": "edit",
        "params": {"path": "a.py", "old_text": "x = 1\n", "new_text": "x = 2\n"},
    }
    items = [{"text": "Look", "status": "done"}, {"text": "Mend", "status": "inProgress"}]
    ended: dict[str, Any] = {"response": "", "isError": False, "durationMs": 1}
    stage.send(
        played.event("thinking", content="I think about it."),
        played.response(TEXT),
        played.step(content=TEXT),
        played.event("toolStarted", **shell),
        played.event("toolOutput", callId="c1", content="out\n" * 40),
        played.event("toolCall", **shell, response="out\n" * 40, isError=True, durationMs=10),
        played.event("toolCall", **edit, response="Replaced.", isError=False, durationMs=1),
        played.event("toolCall", callId="c3", name="todo", params={"items": items}, **ended),
        played.event("notice", level="warning", code="x", message="A warning."),
        played.event("notice", level="error", code="x", message="An error."),
        played.event("inquiryAsked", inquiry=an_inquiry(of)),
    )
    expect(page.get_by_role("region", name="May it do this?")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_conversation_with_everything_in_it(
    stage: Stage, open_page: OpenPage, scheme: str
) -> None:
    page = open_page(stage.user, stage.path, color_scheme=scheme)
    a_full_conversation(stage, page)
    page.get_by_role("button", name=re.compile("^shell make test")).click()
    page.locator("summary").filter(has_text="Thought").click()
    page.get_by_role("button", name=re.compile("1 file changed")).click()
    page.get_by_text("To do", exact=True).click()
    expect(page.locator(".tok-keyword").first).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Command palette")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("^Model:")).click()
    expect(page.get_by_role("menuitemradio", name=re.compile("scripted"))).to_be_focused()
    assert violations(page) == []


def test_nothing_is_wider_than_a_small_screen(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(None, url=stage.user.url, viewport=SMALL)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert not is_too_wide(page)
    page = open_page(stage.user, stage.path, viewport=SMALL, has_touch=True, is_mobile=True)
    a_full_conversation(stage, page)
    assert not is_too_wide(page)
    assert violations(page) == []
    for path, heading in PAGES.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        assert not is_too_wide(page), path
    page.get_by_role("button", name="Open navigation").click()
    page.get_by_role("link", name=re.compile("^The session")).click()
    expect(log_of(page)).to_contain_text("all of it")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_a_turn_is_begun_watched_and_stopped_by_keyboard_alone(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "/drones")
    expect(page.get_by_role("heading", name="Drones")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("^Type a command"))).to_be_focused()
    page.keyboard.type("the session")
    expect(page.get_by_role("option", name=re.compile("The session"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("Control+i")
    page.keyboard.type("/as")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Permissions: Ask")).to_be_visible()
    page.keyboard.type("Do it.")
    page.keyboard.press("Enter")
    played = stage.accepted()
    stage.send(played.response("I do."))
    expect(log_of(page)).to_contain_text("I do.")
    of = {"_id": played.turn, "session": played.session, "user": stage.user.document["_id"]}
    stage.send(played.event("inquiryAsked", inquiry=an_inquiry(of)))
    expect(page.get_by_role("region", name="May it do this?")).to_be_visible()
    # Back from the prompt, past its own buttons and docks, to the choices.
    for _ in range(20):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("() => document.activeElement.textContent.trim()") == "Deny":
            break
    page.keyboard.press("Enter")
    answered = stage.loop.run(stage.drone.until("answerInquiry"))
    assert answered["answer"]["choice"] == "deny"
    page.keyboard.press("Escape")
    assert stage.loop.run(stage.drone.until("cancelTurn"))["turnId"] == played.turn


def test_a_question_mark_lists_every_shortcut(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    for says in ("New session", "Find in the conversation", "Stop the turn", "Jump to the previous prompt"):
        expect(dialog).to_contain_text(says)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
