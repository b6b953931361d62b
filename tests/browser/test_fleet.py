"""The pages around a fleet: what is signed in, accounts, drones. Pinned sessions, the queue's order, the effort."""

import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from pymongo import MongoClient

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_accessible import SMALL, is_too_wide, violations
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone, a_turn
from tests.harness import User, Web

OpenPage = Callable[..., Page]


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


def kept(stage: Stage, path: str) -> dict[str, Any]:
    """What the service has now."""
    found: dict[str, Any] = stage.loop.run(stage.user.get(path))
    return found


def rows(queue: Locator) -> list[str]:
    return [text.split("\n")[1] for text in queue.get_by_role("listitem").all_inner_texts()]


def test_the_list_is_one_request_however_many_sessions_there_are(stage: Stage, open_page: OpenPage) -> None:
    project, provider = kept(stage, "/projects")["items"][0], kept(stage, "/providers")["items"][0]
    for n in range(12):
        made = stage.loop.run(stage.user.session(project, provider, name=f"Session {n}"))
        stage.loop.run(stage.user.post(f"/sessions/{made['_id']}/turns", {"content": "x", "promptId": f"p{n}"}))
    page = open_page(None, url=stage.user.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1")[2]))
    half, key = stage.user.token.split(".")
    page.context.add_cookies([{"name": "gadget_session", "value": half, "url": stage.user.url}])
    page.evaluate("(key) => localStorage.setItem('gadget.page', key)", key)
    page.goto("/drones")
    # The first of them runs at the drone, the others wait: all that is known without a request for each.
    expect(page.get_by_role("link", name=re.compile("^Session .*, (queued|working)"))).to_have_count(12)
    assert not [path for path in asked if re.match("/sessions/[0-9a-f]+/turns", path)]
    assert len([path for path in asked if path.startswith("/sessions")]) == 2


def test_a_pinned_session_is_on_top_in_every_tab(stage: Stage, open_page: OpenPage) -> None:
    project, provider = kept(stage, "/projects")["items"][0], kept(stage, "/providers")["items"][0]
    stage.loop.run(stage.user.session(project, provider, name="A newer one"))
    page, other = open_page(stage.user, "/drones"), open_page(stage.user, "/drones")
    for tab in (page, other):
        expect(tab.get_by_role("link", name=re.compile("^The session"))).to_be_visible()
    page.get_by_role("button", name="Actions for The session").click()
    page.get_by_role("menuitem", name="Pin to the top").click()
    for tab in (page, other):
        sessions = tab.get_by_role("navigation", name="Sessions")
        expect(sessions.get_by_role("heading").first).to_have_text("Pinned")
        expect(sessions.get_by_role("link").first).to_contain_text("The session")
        assert violations(tab) == []
    page.reload()
    expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
    page.get_by_role("link", name=re.compile("^The session")).click()
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("^Type a command"))).to_be_focused()
    page.keyboard.type("unpin")
    expect(page.get_by_role("option").first).to_have_text(re.compile("Pin or unpin this session"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Pinned")).to_be_hidden()
    expect(other.get_by_role("heading", name="Pinned")).to_be_hidden()


def test_the_queue_is_put_in_order_by_keyboard_and_the_drone_takes_it(stage: Stage, open_page: OpenPage) -> None:
    running = stage.turn("First.")
    for content in ("one", "two", "three"):
        stage.loop.run(a_turn(stage.user, stage.session, content))
    page, other = open_page(stage.user, stage.path), open_page(stage.user, stage.path)
    queue, seen = (tab.get_by_role("list", name="Queued") for tab in (page, other))
    expect(queue.get_by_role("listitem")).to_have_count(3)
    expect(seen.get_by_role("listitem")).to_have_count(3)
    remove = queue.get_by_role("listitem").nth(2).get_by_role("button", name="Remove from the queue")
    remove.focus()
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowUp")
    expect(page.get_by_role("status").filter(has_text="Now 1 of 3 in the queue.")).to_be_attached()
    assert rows(queue) == ["three", "one", "two"]
    # Where it was, on the row that was moved.
    focused = "() => document.activeElement.closest('li')?.innerText.includes('three')"
    assert page.evaluate(focused)
    expect(seen.get_by_role("listitem").first).to_contain_text("three")
    queue.get_by_role("listitem").first.get_by_role("button", name=re.compile("^Move down")).click()
    expect(page.get_by_role("status").filter(has_text="Now 2 of 3 in the queue.")).to_be_attached()
    expect(seen.get_by_role("listitem").nth(1)).to_contain_text("three")
    assert rows(seen) == ["one", "three", "two"]
    assert violations(page) == []
    page.reload()
    expect(queue.get_by_role("listitem")).to_have_count(3)
    assert rows(queue) == ["one", "three", "two"]
    stage.end(running)
    offered = stage.loop.run(
        stage.drone.until("processWorkOrder", lambda p: p["workOrder"]["turn"]["_id"] != running.turn)
    )
    assert offered["workOrder"]["prompt"] == "one"
    expect(queue.get_by_role("listitem")).to_have_count(2)
    expect(log_of(page).get_by_text("three")).to_have_count(0)


def test_send_now_stops_what_runs_and_goes_before_the_rest(stage: Stage, open_page: OpenPage) -> None:
    running = stage.turn("First.")
    for content in ("one", "two"):
        stage.loop.run(a_turn(stage.user, stage.session, content))
    page = open_page(stage.user, stage.path, viewport=SMALL)
    queue = page.get_by_role("list", name="Queued")
    expect(queue.get_by_role("listitem")).to_have_count(2)
    assert not is_too_wide(page)
    queue.get_by_role("listitem").nth(1).get_by_role("button", name="Stop the turn and send this now").click()
    assert stage.loop.run(stage.drone.until("cancelTurn"))["turnId"] == running.turn
    expect(queue.get_by_role("listitem").first).to_contain_text("two")
    stage.send(running.complete(status="cancelled", success=False))
    stage.loop.run(stage.drone.acked(running.turn, running.seq))
    stage.loop.run(stage.drone.report("available"))
    offered = stage.loop.run(
        stage.drone.until("processWorkOrder", lambda p: p["workOrder"]["turn"]["_id"] != running.turn)
    )
    assert offered["workOrder"]["prompt"] == "two"


def test_the_effort_is_chosen_and_is_in_the_next_order(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    page.get_by_role("button", name="Effort: Default").click()
    assert violations(page) == []
    page.get_by_role("menuitemradio", name=re.compile("^High")).click()
    expect(page.get_by_role("button", name="Effort: High")).to_be_visible()
    page.get_by_label("Prompt", exact=True).fill("Think.")
    page.keyboard.press("Enter")
    offered = stage.loop.run(stage.drone.until("processWorkOrder"))
    assert offered["workOrder"]["provider"]["params"]["effort"] == "high"


@pytest.fixture
def elsewhere(stage: Stage, peers: AsyncExitStack) -> User:
    """The same account, signed in once more."""
    user = stage.user

    async def signed_in() -> User:
        answer = await user.post("/auth/login", {"email": user.email, "password": user.password})
        other = User(user.url, user.email, user.password, answer["token"], user.document)
        return await peers.enter_async_context(other)

    return stage.loop.run(signed_in())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tokens_are_listed_named_and_revoked(stage: Stage, elsewhere: User, open_page: OpenPage, scheme: str) -> None:
    page = open_page(stage.user, "/account", color_scheme=scheme)
    table = page.get_by_role("group", name="Sign-ins and tokens")
    expect(table.get_by_role("row")).to_have_count(4)
    expect(table.get_by_role("row", name=re.compile("played.*Drone"))).to_be_visible()
    expect(table.get_by_role("row", name=re.compile("this one"))).to_have_count(1)
    other = table.get_by_role("row", name=re.compile("Sign-in")).filter(has_not_text="this one")
    other.get_by_role("button", name=re.compile("^Actions for")).click()
    page.get_by_role("menuitem", name="Name it").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("Kitchen")
    page.keyboard.press("Enter")
    expect(table.get_by_role("row", name=re.compile("Kitchen"))).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Actions for Kitchen").click()
    page.get_by_role("menuitem", name="Revoke").click()
    assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(table.get_by_role("row", name=re.compile("Kitchen"))).to_be_hidden()
    assert stage.loop.run(elsewhere.http.get("/users/me")).status_code == 401
    page.set_viewport_size({"width": 360, "height": 740})
    assert not is_too_wide(page)


def test_signing_out_everywhere_else_leaves_this_page(stage: Stage, elsewhere: User, open_page: OpenPage) -> None:
    page, other = open_page(stage.user, "/account"), open_page(elsewhere, "/drones")
    expect(other.get_by_role("heading", name="Drones")).to_be_visible()
    page.get_by_role("button", name="Sign out everywhere else").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere else").click()
    expect(page.get_by_text("Everything else is signed out.")).to_be_visible()
    # Its socket closes within five seconds, and it finds that nobody is signed in.
    expect(other.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out everywhere else")).to_be_disabled()


@pytest.fixture
def root(ada: User, web: Web, mongodb_url: str) -> User:
    """The account `ada`, an administrator's."""
    with MongoClient[Any](mongodb_url) as client:
        users = client[web.env["GADGET_DATABASE"]].users
        users.update_one({"_id": ada.document["_id"]}, {"$set": {"isAdmin": True}})
    return ada


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_administrator_makes_changes_and_removes_an_account(root: User, open_page: OpenPage, scheme: str) -> None:
    page = open_page(root, "/users", color_scheme=scheme)
    email = f"grace-{root.document['_id']}@example.org"
    page.get_by_role("button", name="Add an account").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("E-mail").fill(root.email)
    dialog.get_by_role("button", name="Create the account").click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is already an account")
    dialog.get_by_label("E-mail").fill(email)
    assert violations(page) == []
    dialog.get_by_role("button", name="Create the account").click()
    link = page.get_by_role("dialog", name=f"{email} has an account").get_by_label("New sign-in link").input_value()
    assert violations(page) == []
    page.keyboard.press("Escape")
    row = page.get_by_role("row", name=re.compile(email))
    expect(row).to_be_visible()
    actions = page.get_by_role("button", name=f"Actions for {email}")
    actions.click()
    page.get_by_role("menuitem", name="Make administrator").click()
    expect(row.get_by_role("cell", name="Yes")).to_be_visible()
    actions.click()
    page.get_by_role("menuitem", name="Revoke administrator rights").click()
    expect(row.get_by_role("cell", name="Yes")).to_be_hidden()
    assert violations(page) == []
    grace = open_page(None, "/", url=root.url)
    grace.goto(link)
    expect(grace.get_by_role("button", name=re.compile("^Account: grace-"))).to_be_visible()
    actions.click()
    page.get_by_role("menuitem", name="Remove").click()
    expect(dialog).to_contain_text("Its sessions stay in the database")
    dialog.get_by_role("button", name="Remove").click()
    expect(row).to_be_hidden()
    expect(grace.get_by_role("button", name="Sign in")).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 740})
    assert not is_too_wide(page)


def test_who_is_no_administrator_has_no_such_page(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "/users")
    expect(page.get_by_role("alert")).to_contain_text("Only an administrator")
    page.get_by_role("button", name=re.compile("^Account:")).click()
    expect(page.get_by_role("menuitem", name="Setup guide")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Users")).to_have_count(0)


def test_a_drone_shows_what_it_works_on_and_that_its_version_is_another(stage: Stage, open_page: OpenPage) -> None:
    async def outdated() -> None:
        body = {"hostname": "old", "workspaceDir": "/old", "workspaceId": "w" * 24, "name": "old", "version": "0.0.1"}
        await stage.user.post("/drones/registrations", body)

    stage.loop.run(outdated())
    stage.turn("Go on.")
    page = open_page(stage.user, "/drones")
    row = page.get_by_role("row", name=re.compile("^played"))
    expect(row).to_contain_text("Busy")
    expect(row).to_contain_text("since now")
    expect(row).to_contain_text("0 projects cloned")
    old = page.get_by_role("row", name=re.compile("^old"))
    expect(old).to_contain_text("nothing")
    expect(old).to_contain_text(re.compile(r"0\.0\.1\s+The server is \d+\.\d+"))
    assert violations(page) == []
    row.get_by_role("link", name="The session").click()
    expect(log_of(page)).to_contain_text("Go on.")
