"""The pages around the conversation: sessions, drones, rules, usage, account, and the limits of a session."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone, a_finished_turn
from tests.harness import User

OpenPage = Callable[..., Page]


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


def kept(stage: Stage, path: str) -> dict[str, Any]:
    """What the service has now."""
    found: dict[str, Any] = stage.loop.run(stage.user.get(path))
    return found


def test_a_session_is_renamed_found_archived_and_deleted(stage: Stage, open_page: OpenPage) -> None:
    stage.loop.run(a_finished_turn(stage.user, stage.drone, stage.session, "Look for the zebra."))
    page = open_page(stage.user, stage.path)
    sessions = page.get_by_role("navigation", name="Sessions")
    actions = page.get_by_role("button", name="Actions for The session")
    actions.click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("textbox", name="Name").fill("Another name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Another name")).to_be_visible()
    search = page.get_by_role("searchbox", name="Search sessions")
    search.fill("anme")
    expect(sessions.get_by_role("link", name=re.compile("^Another name"))).to_be_visible()
    search.fill("zebra")
    expect(sessions).to_contain_text("Found in conversations")
    expect(sessions).to_contain_text("Look for the zebra.")
    search.fill("")
    page.get_by_role("button", name="Actions for Another name").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(sessions).to_contain_text("No sessions yet.")
    page.get_by_role("button", name="Group by").click()
    page.get_by_role("menuitemradio", name="Archived").click()
    page.get_by_role("button", name="Actions for Another name").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="What should the agent do?")).to_be_visible()
    assert stage.loop.run(stage.user.http.get(f"/sessions/{stage.session['_id']}")).status_code == 404


def test_a_session_is_forked_exported_and_marked_when_something_happened(stage: Stage, open_page: OpenPage) -> None:
    stage.loop.run(a_finished_turn(stage.user, stage.drone, stage.session, "First."))
    page = open_page(stage.user, stage.path)
    expect(log_of(page)).to_contain_text("Answer to First.")
    page.get_by_role("button", name="Actions for The session").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as Markdown").click()
    assert "Answer to First." in download.value.path().read_text()
    page.get_by_role("button", name="Actions for The session").click()
    page.get_by_role("menuitem", name="Fork").click()
    expect(page).not_to_have_url(re.compile(stage.path))
    expect(log_of(page)).to_contain_text("Answer to First.")
    # What ends where nobody looks is unread, until somebody does.
    stage.loop.run(a_finished_turn(stage.user, stage.drone, stage.session, "Second."))
    unread = page.get_by_role("link", name=re.compile("The session.*unread"))
    unread.click()
    expect(log_of(page)).to_contain_text("Answer to Second.")
    expect(unread).to_have_count(0)


def test_rules_and_limits_are_kept(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "/rules")
    page.get_by_role("radio", name=re.compile("^Ask")).check()
    form = page.locator("form").first
    form.get_by_label("Decision").select_option("Deny")
    form.get_by_label("Pattern").fill("rm *")
    form.get_by_role("button", name="Add a rule").click()
    expect(page.get_by_role("cell", name="rm *", exact=True)).to_be_visible()
    me = kept(stage, "/users/me")
    assert me["level"] == "ask"
    assert [(rule["decision"], rule["pattern"]) for rule in me["rules"]] == [("deny", "rm *")]
    page.get_by_role("button", name="Remove the rule for rm *").click()
    expect(page.get_by_role("cell", name="rm *", exact=True)).to_be_hidden()
    page.goto(stage.path)
    page.get_by_role("button", name="Session details").click()
    page.get_by_role("group", name="Budget of each turn").get_by_label("Steps").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert kept(stage, f"/sessions/{stage.session['_id']}")["turnBudget"]["steps"] == 7
    page.goto("/account")
    page.get_by_role("group", name="Of each turn").get_by_label("Minutes of work").fill("1.5")
    page.get_by_role("group", name="Of each session").get_by_label("US dollars").fill("20")
    page.get_by_role("button", name="Set budgets").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    me = kept(stage, "/users/me")
    assert (me["turnBudget"]["minutes"], me["sessionBudget"]["usd"], me["turnBudget"]["steps"]) == (1.5, 20, None)


def test_a_drone_is_renamed_seen_to_go_and_revoked(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "/drones")
    row = page.get_by_role("row", name=re.compile("played"))
    expect(row).to_contain_text("Available")
    page.get_by_role("button", name="Actions for played").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Name").fill("laptop")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="laptop", exact=True)).to_be_visible()
    stage.loop.run(stage.drone.disconnect())
    expect(page.get_by_role("row", name=re.compile("laptop"))).to_contain_text("Offline")
    page.get_by_role("button", name="Actions for laptop").click()
    page.get_by_role("menuitem", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No drone has registered yet.")).to_be_visible()


def test_usage_adds_up_by_day_model_and_project(stage: Stage, open_page: OpenPage) -> None:
    turns = [stage.loop.run(a_finished_turn(stage.user, stage.drone, stage.session, f"Prompt {n}.")) for n in range(3)]
    days = Counter(turn["endedAt"][:10] for turn in turns)  # two, at midnight
    page = open_page(stage.user, "/usage")
    expect(page.get_by_text("Outputs and images")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^0 B of 5(\.\d)? G"))).to_be_visible()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(1 + len(days))
    for n, day in enumerate(sorted(days, reverse=True), 1):
        expect(rows.nth(n)).to_contain_text(f"{100 * days[day]}")
    page.get_by_role("button", name="Model").click()
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("scripted")
    expect(rows.nth(1)).to_contain_text("300")
    page.get_by_role("button", name="Project").click()
    expect(page.get_by_role("cell", name=re.compile("^p[0-9a-f]{24}$"))).to_be_visible()


def test_an_account_chooses_its_name_and_how_this_browser_looks(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "/account")
    page.get_by_label("Display name").fill("Ada Lovelace")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Account: Ada Lovelace")).to_be_visible()
    page.get_by_label("Appearance").select_option("Dark")
    page.reload()
    expect(page.get_by_label("Appearance")).to_have_value("dark")
    assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(227, 232, 231)"
