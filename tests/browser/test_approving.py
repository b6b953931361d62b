"""An approval allows what is shown, or nothing: words that ask for something else go with a denial alone."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_accessible import violations
from tests.browser.test_conversation import NOWHERE, Stage
from tests.gadget_code.peers import Played, PlayedDrone, an_inquiry
from tests.harness import User

OpenPage = Callable[..., Page]


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


def asked(stage: Stage, played: Played, **fields: Any) -> dict[str, Any]:
    of = {"_id": played.turn, "session": played.session, "user": stage.user.document["_id"]}
    inquiry = an_inquiry(of, **fields)
    stage.send(played.event("inquiryAsked", inquiry=inquiry))
    return inquiry


def card_of(page: Page) -> Locator:
    return page.get_by_role("region", name="May it do this?")


def taken(stage: Stage, inquiry: dict[str, Any]) -> dict[str, Any]:
    """What the drone was told."""
    put = stage.loop.run(stage.drone.until("answerInquiry", lambda p: p["inquiryId"] == inquiry["_id"]))
    answer: dict[str, Any] = put["answer"]
    return answer


def test_what_is_typed_denies_and_nothing_that_allows_is_in_reach_of_it(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    inquiry = asked(stage, stage.turn())
    card = card_of(page)
    expect(card.get_by_role("button")).to_have_text(["Allow once", "Always…", "Deny", "Deny with instructions"])
    expect(card.get_by_role("textbox")).to_have_count(0)
    card.get_by_role("button", name="Deny with instructions").click()
    field = card.get_by_label("What the agent should do instead")
    expect(field).to_be_focused()
    expect(card.get_by_role("button")).to_have_text(["Deny with instructions", "Back"])
    assert violations(page) == []
    # Nothing typed: nothing is sent.
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.keyboard.type("Use yarn,")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("please.")
    expect(field).to_have_value("Use yarn,\nplease.")
    page.keyboard.press("Enter")
    assert taken(stage, inquiry) == {"choice": "deny", "text": "Use yarn,\nplease."}
    expect(card).to_be_hidden()


@pytest.mark.parametrize("keys", ["Control+Enter", "Enter", "Alt+Enter", "Meta+Enter"])
def test_no_key_that_sends_a_text_allows(stage: Stage, open_page: OpenPage, keys: str) -> None:
    page = open_page(stage.user, stage.path)
    inquiry = asked(stage, stage.turn())
    card_of(page).get_by_role("button", name="Deny with instructions").click()
    page.keyboard.type("allow once")
    page.keyboard.press(keys)
    assert taken(stage, inquiry) == {"choice": "deny", "text": "allow once"}


def test_words_that_are_put_away_go_with_nothing_and_escape_stops_no_turn(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn()
    inquiry = asked(stage, played)
    card = card_of(page)
    card.get_by_role("button", name="Deny with instructions").click()
    page.keyboard.type("Use yarn.")
    page.keyboard.press("Escape")
    expect(card.get_by_role("button", name="Deny with instructions")).to_be_focused()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
    page.keyboard.press("Enter")
    expect(card.get_by_label("What the agent should do instead")).to_have_value("")
    card.get_by_role("button", name="Back").click()
    card.get_by_role("button", name="Allow once").click()
    assert taken(stage, inquiry) == {"choice": "once", "text": None}


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_what_is_always_allowed_is_named_before_it_is_chosen(stage: Stage, open_page: OpenPage, way: str) -> None:
    page = open_page(stage.user, stage.path)
    inquiry = asked(stage, stage.turn())
    card = card_of(page)
    always = card.get_by_role("button", name="Always…")
    if way == "mouse":
        always.click()
        page.get_by_role("menuitem", name="session").click()
    else:
        always.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="session")).to_be_focused()
        page.keyboard.press("Enter")
    assert taken(stage, inquiry) == {"choice": "session", "text": None}


def test_a_denial_without_words_is_one_press(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    inquiry = asked(stage, stage.turn())
    card_of(page).get_by_role("button", name="Deny", exact=True).click()
    assert taken(stage, inquiry) == {"choice": "deny", "text": None}
