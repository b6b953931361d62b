"""A conversation as it streams: reloads, a killed service, two tabs, stop, queue and steer, older turns, drafts.

The drone is played: each event comes when the test sends it.
"""

import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.gadget_code.peers import Played, PlayedDrone, a_finished_turn, a_turn, an_inquiry
from tests.harness import User, Web

OpenPage = Callable[..., Page]
NOWHERE = ("https://example.org/a.git", "http://127.0.0.1:9/v1")
TRIES = 4
"""To connect, that fail: two seconds or more pass before a page tries again by itself."""


class Stage:
    """One session, a drone that the test plays, and what it sends."""

    def __init__(self, loop: Loop, user: User, drone: PlayedDrone, session: dict[str, Any]) -> None:
        self.loop = loop
        self.user = user
        self.drone = drone
        self.session = session

    @property
    def path(self) -> str:
        return f"/s/{self.session['_id']}"

    def turn(self, content: str = "Go on.") -> Played:
        """A turn that its drone has accepted."""
        return self.loop.run(self._turn(content))

    async def _turn(self, content: str) -> Played:
        turn = await a_turn(self.user, self.session, content)
        return await self._accepted(turn["_id"])

    def accepted(self) -> Played:
        """The turn that a page has begun."""
        return self.loop.run(self._newest())

    async def _newest(self) -> Played:
        offered = await self.drone.until("processWorkOrder")
        return await self._accepted(offered["workOrder"]["turn"]["_id"])

    async def _accepted(self, turn: str) -> Played:
        order = await self.drone.order(turn)
        reply = await self.drone.call("beginTurn", {"turnId": turn, "epoch": order["epoch"]})
        assert reply["ok"], reply
        return Played({"_id": turn, "session": self.session["_id"]}, epoch=order["epoch"])

    def send(self, *events: dict[str, Any]) -> None:
        self.loop.run(self._send(events))

    async def _send(self, events: tuple[dict[str, Any], ...]) -> None:
        for event in events:
            await self.drone.send(event)

    def end(self, played: Played) -> None:
        self.send(played.complete())
        self.loop.run(self.drone.acked(played.turn, played.seq))
        self.loop.run(self.drone.report("available"))


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    drone = played_for(ada)
    return Stage(loop, ada, drone, loop.run(a_session(ada, *NOWHERE, name="The session")))


def log_of(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def test_a_reload_in_the_middle_shows_everything_once(stage: Stage, open_page: OpenPage) -> None:
    played = stage.turn("Count.")
    stage.send(*(played.response(f"word{n} ") for n in range(50)))
    page = open_page(stage.user, stage.path)
    expect(log_of(page)).to_contain_text("word49")
    page.reload()
    expect(log_of(page)).to_contain_text("word49")
    stage.send(*(played.response(f"word{n} ") for n in range(50, 100)))
    expect(log_of(page)).to_contain_text("word99")
    words = "".join(f"word{n} " for n in range(100))
    stage.send(played.step(content=words))
    stage.end(played)
    expect(page.get_by_role("button", name="Copy answer")).to_be_visible()
    said = log_of(page).locator(".markdown").last.inner_text()
    assert said.split() == words.split()


def test_two_tabs_agree_and_a_prompt_of_one_is_seen_in_the_other(stage: Stage, open_page: OpenPage) -> None:
    one, other = open_page(stage.user, stage.path), open_page(stage.user, stage.path)
    expect(other.get_by_text("Describe a task for the agent.")).to_be_visible()
    one.get_by_label("Prompt", exact=True).fill("From the first.")
    one.keyboard.press("Enter")
    played = stage.accepted()
    stage.send(played.event("thinking", content="Let me *think*."), played.response("An **answer**."))
    for page in (one, other):
        expect(log_of(page)).to_contain_text("From the first.")
        expect(log_of(page)).to_contain_text("An answer.")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
    stage.send(played.step(content="An **answer**."))
    stage.end(played)
    for page in (one, other):
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        expect(log_of(page).locator("strong")).to_have_text("answer")
        expect(log_of(page).locator(".markdown strong")).to_have_count(1)


def test_a_killed_service_shows_at_once_and_nothing_is_lost_or_twice(
    loop: Loop, peers: AsyncExitStack, mongodb_url: str, tmp_path: Path, open_page: OpenPage
) -> None:
    web = Web.at(tmp_path, mongodb_url)
    peers.callback(web.stop)
    user = loop.run(web.user())
    loop.run(peers.enter_async_context(user))
    drone = PlayedDrone(user)
    loop.run(peers.enter_async_context(drone))
    stage = Stage(loop, user, drone, loop.run(a_session(user, *NOWHERE)))
    played = stage.turn("Count.")
    first = [played.response(f"word{n} ") for n in range(20)]
    stage.send(*first)
    page = open_page(user, stage.path)
    expect(log_of(page)).to_contain_text("word19")
    web.kill()
    expect(page.get_by_text(re.compile("Connection lost"))).to_be_visible()
    expect(log_of(page)).to_contain_text("word19")
    loop.run(drone.disconnect())
    web.start()
    loop.run(drone.connect())
    loop.run(drone.report("busy"))
    # A drone sends again what nobody acknowledged.
    stage.send(*first, *(played.response(f"word{n} ") for n in range(20, 40)))
    expect(log_of(page)).to_contain_text("word39")
    expect(page.get_by_text(re.compile("Connection lost"))).to_be_hidden()
    words = "".join(f"word{n} " for n in range(40))
    stage.send(played.step(content=words))
    stage.end(played)
    expect(page.get_by_role("button", name="Copy answer")).to_be_visible()
    assert log_of(page).locator(".markdown").last.inner_text().split() == words.split()


def test_a_later_epoch_takes_the_place_of_what_was_seen_and_never_stored(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn()
    stage.send(played.response("One. "), played.response("Two. "))
    expect(log_of(page)).to_contain_text("Two.")
    failed = count(1)
    with page.expect_console_message(lambda said: "WebSocket" in said.text and next(failed) == TRIES):
        page.context.set_offline(True)
        expect(page.get_by_text(re.compile("Connection lost"))).to_be_visible()
        stage.send(played.response("Three. "))
    page.context.set_offline(False)
    page.get_by_role("button", name="Reconnect now").click()
    expect(log_of(page)).to_contain_text("One. Two. Three.")


def test_tools_show_their_target_output_and_change_and_what_failed(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn()
    call: dict[str, Any] = {"callId": "c1", "name": "shell", "params": {"command": "make test"}}
    stage.send(played.event("toolStarted", **call), played.event("toolOutput", callId="c1", content="compiling\n"))
    expect(page.get_by_role("group", name="Output")).to_have_text("compiling\n")
    ended: dict[str, Any] = {"response": "compiling\nfailed", "isError": True, "durationMs": 1500}
    stage.send(played.event("toolCall", **call, **ended))
    card = page.get_by_role("button", name=re.compile("^shell make test"))
    expect(card).to_contain_text("failed")
    expect(card).to_contain_text("1.5s")
    expect(card).to_have_attribute("aria-expanded", "false")
    card.click()
    expect(page.get_by_role("group", name="Output")).to_have_text("compiling\nfailed")
    edit: dict[str, Any] = {
        "callId": "c2",
        "name": "edit",
        "params": {"path": "a.py", "old_text": "x = 1\n", "new_text": "x = 2\n"},
    }
    stage.send(played.event("toolCall", **edit, response="Replaced 1.", isError=False, durationMs=2))
    changes = page.get_by_role("group", name="Changes: a.py")
    expect(changes.locator(".removed .text")).to_have_text("x = 1")
    expect(changes.locator(".added .text")).to_have_text("x = 2")
    items = [{"text": "Look", "status": "done"}, {"text": "Mend", "status": "inProgress"}]
    todo: dict[str, Any] = {"callId": "c3", "name": "todo", "params": {"items": items}}
    stage.send(played.event("toolCall", **todo, response="", isError=False, durationMs=1))
    expect(page.get_by_text("1 of 2")).to_be_visible()
    stage.send(played.event("notice", level="warning", code="retrying", message="The model is overloaded."))
    expect(log_of(page)).to_contain_text("The model is overloaded.")
    stage.end(played)


def test_while_it_works_enter_queues_ctrl_enter_steers_and_escape_stops(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn("First.")
    stage.send(played.response("I work."))
    expect(log_of(page)).to_contain_text("I work.")
    prompt = page.get_by_label("Prompt", exact=True)
    prompt.fill("Then this.")
    page.keyboard.press("Enter")
    queued = page.get_by_role("list", name="Queued")
    expect(queued).to_contain_text("Then this.")
    expect(prompt).to_have_value("")
    prompt.fill("But mind that.")
    page.keyboard.press("Control+Enter")
    expect(log_of(page)).to_contain_text("But mind that.")
    steer = stage.loop.run(stage.drone.until("steerTurn"))
    assert steer["content"] == "But mind that."
    stage.send(played.event("steered", steerId=steer["steerId"], content=steer["content"]))
    expect(log_of(page).get_by_text("But mind that.")).to_have_count(1)
    queued.get_by_role("button", name="Take back and edit").click()
    expect(prompt).to_have_value("Then this.")
    expect(queued).to_be_hidden()
    page.keyboard.press("Escape")
    cancelled = stage.loop.run(stage.drone.until("cancelTurn"))
    assert cancelled["turnId"] == played.turn
    expect(log_of(page)).to_contain_text("Stopping…")
    stage.send(played.complete(success=False, status="cancelled", message="Stopped."))
    expect(log_of(page)).to_contain_text("Stopped")


def test_what_is_written_while_a_prompt_is_sent_is_not_lost(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, "about:blank")
    held: list[tuple[WebSocketRoute, str | bytes]] = []

    def between(socket: WebSocketRoute) -> None:
        def take(said: str | bytes) -> None:
            if "Only this." in str(said) and str(said).startswith("43"):  # the answer to a request
                held.append((socket, said))
            else:
                socket.send(said)

        socket.connect_to_server().on_message(take)

    page.route_web_socket(re.compile("/socket.io/"), between)
    page.goto(stage.path)
    prompt = page.get_by_label("Prompt", exact=True)
    prompt.fill("Only this.")
    page.keyboard.press("Enter")
    expect(log_of(page)).to_contain_text("Only this.")
    page.keyboard.type(" And then that.")
    expect(prompt).to_have_value("Only this. And then that.")
    [(socket, answer)] = held
    socket.send(answer)
    expect(prompt).to_have_value("And then that.")


def test_a_draft_outlives_the_page_and_up_brings_back_what_was_sent(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    prompt = page.get_by_label("Prompt", exact=True)
    prompt.fill("Remember me.")
    page.keyboard.press("Enter")
    played = stage.accepted()
    stage.send(played.step(content="Yes."))
    stage.end(played)
    expect(prompt).to_have_value("")
    prompt.fill("Half a thou")
    page.wait_for_function("() => localStorage.getItem('gadget.drafts')?.includes('Half a thou')")
    page.reload()
    expect(prompt).to_have_value("Half a thou")
    prompt.press("ArrowUp")
    expect(prompt).to_have_value("Remember me.")
    prompt.press("ArrowDown")
    expect(prompt).to_have_value("Half a thou")


def test_it_stays_at_the_end_until_one_scrolls_up(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn()
    stage.send(*(played.response(f"Line {n}.\n\n") for n in range(80)))
    expect(log_of(page).get_by_text("Line 79.")).to_be_in_viewport()
    log_of(page).hover()
    page.mouse.wheel(0, -900)
    jump = page.get_by_role("button", name="Jump to latest")
    expect(jump).to_be_visible()
    stage.send(*(played.response(f"Line {n}.\n\n") for n in range(80, 120)))
    expect(log_of(page)).to_contain_text("Line 119.")
    expect(log_of(page).get_by_text("Line 119.")).not_to_be_in_viewport()
    jump.click()
    expect(log_of(page).get_by_text("Line 119.")).to_be_in_viewport()
    expect(jump).to_be_hidden()


def test_a_turn_that_uses_far_more_than_others_is_marked_until_its_user_looks(
    stage: Stage, open_page: OpenPage
) -> None:
    page = open_page(stage.user, "/usage")
    played = stage.turn()
    message = "This turn has used 100 model calls."
    stage.send(played.event("notice", level="warning", code="turnUnusual", message=message))
    sessions = page.get_by_role("navigation", name="Sessions")
    expect(sessions).to_contain_text("uses far more than other turns")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    sessions.get_by_role("link").first.click()
    expect(log_of(page)).to_contain_text(message)
    expect(sessions).not_to_contain_text("uses far more than other turns")
    expect(sessions).to_contain_text("working")


def test_an_approval_shows_exactly_what_would_run_and_is_answered_in_place(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = stage.turn()
    of = {"_id": played.turn, "session": played.session, "user": stage.user.document["_id"]}
    inquiry = an_inquiry(of)
    stage.send(played.event("inquiryAsked", inquiry=inquiry))
    card = page.get_by_role("region", name="May it do this?")
    expect(card).to_contain_text(inquiry["title"])
    exact = card.get_by_role("group", name="Exactly this:")
    assert exact.text_content() == inquiry["detail"]
    expect(page.get_by_role("navigation", name="Sessions")).to_contain_text("waits for you")
    page.reload()
    card.get_by_role("button", name="Allow once").click()
    answered = stage.loop.run(stage.drone.until("answerInquiry"))
    assert answered["answer"]["choice"] == inquiry["choices"][0]["id"]
    expect(card).to_be_hidden()
    expect(log_of(page)).to_contain_text("Answered")


def test_older_turns_are_loaded_when_asked_for_and_open_to_their_work(stage: Stage, open_page: OpenPage) -> None:
    async def finish() -> None:
        for n in range(25):
            call = {"type": "toolCall", "callId": "c", "name": "read", "params": {"path": f"file{n}.py"}}
            ended = {"response": f"content {n}", "isError": False, "durationMs": 1}
            await a_finished_turn(stage.user, stage.drone, stage.session, f"Prompt {n}.", {**call, **ended})

    stage.loop.run(finish())
    page = open_page(stage.user, stage.path)
    expect(log_of(page).get_by_text("Answer to Prompt 24.")).to_be_in_viewport()
    expect(log_of(page).get_by_text("Prompt 4.", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Load older turns").click()
    expect(log_of(page).get_by_text("Prompt 0.", exact=True)).to_have_count(1)
    expect(page.get_by_role("button", name="Load older turns")).to_be_hidden()
    first = log_of(page).get_by_role("article").first
    expect(first.get_by_text("Answer to Prompt 0.")).to_have_count(1)
    expect(first.get_by_role("button", name=re.compile("^read"))).to_have_count(0)
    first.get_by_role("button", name=re.compile("^Worked for")).click()
    first.get_by_role("button", name=re.compile("^read file0.py")).click()
    expect(first.get_by_role("group", name="Output")).to_have_text("content 0")
    page.keyboard.press("Control+f")
    page.keyboard.type("prompt 12")
    expect(page.get_by_text("2 of 2")).to_be_visible()  # the prompt, and the answer that names it
