"""The review of what the agent changed: on a real drone's disk, changes are kept, undone and brought back, lines are
commented on, and files are named in a prompt."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_accessible import SMALL, is_too_wide, violations
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone, a_checkpoint, an_inquiry
from tests.harness import Drone, User, repository

OpenPage = Callable[..., Page]
BEFORE = "".join(f"def number_{n}():\n    return {n}\n\n\n" for n in range(40))
AFTER = BEFORE.replace("return 3\n", "return 3 + 0  # three\n").replace("return 30\n", "return 300\n")
COMMAND = (
    "sed -i 's/return 3$/return 3 + 0  # three/; s/return 30$/return 300/' app.py; printf 'fresh\\n' > sub/new.py; "
    "rm gone.txt; git mv name.txt other.txt; printf '\\0\\1' > data.bin; sed -i 's/^/  /' space.txt"
)
FILES = {
    "app.py": BEFORE,
    "gone.txt": "one\r\ntwo",
    "name.txt": "kept\n" * 20,
    "space.txt": "a\nb\n",
    "sub/keep.txt": "",
}


def answer(request: RequestView) -> Reply:
    if not request.tools:
        return Reply(Text("Some changes"))
    if request.messages[-1]["role"] == "tool":
        return Reply(Text("Changed."))
    last = str(request.messages[-1]["content"])
    return Reply(Call("shell", {"command": COMMAND})) if "Change things" in last else Reply(Text("Read."))


@dataclass
class Site:
    """A session whose one turn has changed files of a real project."""

    user: User
    loop: Loop
    drone: Drone
    model: ScriptedServer
    session: dict[str, Any]
    project: Path

    @property
    def path(self) -> str:
        return f"/s/{self.session['_id']}"

    def text(self, path: str) -> str:
        return (self.project / path).read_bytes().decode()


@pytest.fixture
def site(
    loop: Loop, ada: User, model: Callable[[Script], ScriptedServer], drone_for: Callable[[User], Drone], tmp_path: Path
) -> Site:
    server = model(Script(answer))
    origin = repository(tmp_path / "origin", FILES)
    drone = drone_for(ada)
    session = loop.run(a_session(ada, str(origin), server.openai_url, name="The session"))

    async def changed() -> Path:
        body = {"content": "Change things.", "promptId": "p1"}
        turn = await ada.post(f"/sessions/{session['_id']}/turns", body)
        assert (await ada.until_over(turn["_id"]))["status"] == "finished"
        await drone.until_available()
        return next(path.parent for path in drone.workspace.glob("*/app.py"))

    return Site(ada, loop, drone, server, session, loop.run(changed()))


def review_of(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Review changes")


def opened(site: Site, open_page: OpenPage, **options: Any) -> tuple[Page, Locator]:
    page = open_page(site.user, site.path, **options)
    page.get_by_role("button", name="Review", exact=True).click()
    review = review_of(page)
    expect(review.get_by_role("heading", name="app.py")).to_be_visible()
    return page, review


def file_button(review: Locator, path: str) -> Locator:
    return review.get_by_role("navigation", name="Changed files").get_by_role("button").filter(has_text=path)


def test_a_change_is_undone_on_the_disk_and_brought_back(site: Site, open_page: OpenPage) -> None:
    changed = site.text("app.py")
    assert changed == AFTER
    _, review = opened(site, open_page)
    expect(review.get_by_text("0 of 7 reviewed")).to_be_visible()
    review.get_by_role("button", name="Undo: change 2 of 2").click()
    expect(review.get_by_role("status")).to_contain_text("Undone in app.py.")
    assert site.text("app.py") == AFTER.replace("return 300\n", "return 30\n")
    # The turn's own diff shows what the turn did, and that this is not there any more.
    expect(review.get_by_role("group", name=re.compile("^change 2 of 2"))).to_contain_text("Undone")
    review.get_by_role("status").get_by_role("button", name="Bring back").click()
    expect(review.get_by_role("status")).to_contain_text("Brought back.")
    assert site.text("app.py") == AFTER
    # Of the session, what was undone is no change any more.
    review.get_by_label("Changes of").select_option("Session")
    review.get_by_role("button", name="Undo: change 1 of 2").click()
    expect(review.get_by_role("group", name=re.compile("^change 1 of 1"))).to_be_visible()
    assert site.text("app.py") == AFTER.replace("return 3 + 0  # three\n", "return 3\n")


def test_every_kind_of_file_is_shown_for_what_it_is_and_undone_as_one(site: Site, open_page: OpenPage) -> None:
    _, review = opened(site, open_page)
    file_button(review, "data.bin").click()
    expect(review.get_by_text("The file is binary. It has no lines to show.")).to_be_visible()
    file_button(review, "other.txt").click()
    expect(review.get_by_text("Only its name changed.")).to_be_visible()
    review.get_by_role("button", name="Undo file").click()
    expect(review.get_by_role("status")).to_contain_text("Undone: 1 file.")
    assert site.text("name.txt") == FILES["name.txt"]
    assert not (site.project / "other.txt").exists()
    file_button(review, "gone.txt").click()
    expect(review.get_by_text("no line break at the end")).to_be_visible()
    review.get_by_role("button", name="Undo: change 1 of 1").click()
    expect(review.get_by_role("status")).to_contain_text("Undone in gone.txt.")
    assert site.text("gone.txt") == FILES["gone.txt"]
    review.get_by_role("button", name="Undo all").click()
    expect(review.get_by_role("status")).to_contain_text("data.bin is not a text that can be changed here")
    assert site.text("app.py") == BEFORE
    assert site.text("space.txt") == FILES["space.txt"]
    assert not (site.project / "sub" / "new.py").exists()
    assert (site.project / "data.bin").read_bytes() == b"\0\1"
    review.get_by_role("status").get_by_role("button", name="Bring back").click()
    expect(review.get_by_role("status")).to_contain_text("Brought back.")
    assert site.text("app.py") == AFTER
    assert site.text("sub/new.py") == "fresh\n"


def test_a_change_whose_surroundings_are_others_is_refused_and_hand_edits_stay(site: Site, open_page: OpenPage) -> None:
    _, review = opened(site, open_page)
    own = "# mine\n" + AFTER.replace("return 300\n", "return 32\n")
    (site.project / "app.py").write_text(own)
    review.get_by_role("button", name="Undo: change 2 of 2").click()
    expect(review.get_by_role("status")).to_contain_text("app.py is no longer as it is shown here")
    assert site.text("app.py") == own
    # The other one moved by a line, and is found by its text.
    review.get_by_role("button", name="Undo: change 1 of 2").click()
    expect(review.get_by_role("status")).to_contain_text("Undone in app.py.")
    assert site.text("app.py") == own.replace("return 3 + 0  # three\n", "return 3\n")


def test_kept_changes_fold_count_and_stay_so_until_they_change_again(site: Site, open_page: OpenPage) -> None:
    page, review = opened(site, open_page)
    review.get_by_role("button", name="Keep: change 1 of 2").click()
    expect(review.get_by_text("1 of 7 reviewed")).to_be_visible()
    expect(review.get_by_text("# three")).to_be_hidden()
    page.reload()
    page.get_by_role("button", name="Review", exact=True).click()
    expect(review.get_by_text("1 of 7 reviewed")).to_be_visible()
    review.get_by_role("button", name="Keep all").click()
    expect(review.get_by_text("7 of 7 reviewed")).to_be_visible()
    (site.project / "app.py").write_text(AFTER.replace("return 300\n", "return 33\n"))
    review.get_by_label("Changes of").select_option("Session")
    expect(review.get_by_text("6 of 7 reviewed")).to_be_visible()
    expect(review.get_by_text("return 33")).to_be_visible()


def test_white_space_is_left_out_lines_between_are_shown_and_columns_stand_side_by_side(
    site: Site, open_page: OpenPage
) -> None:
    _, review = opened(site, open_page)
    review.get_by_role("button", name="Show 10 unchanged lines").click()
    expect(review.get_by_text("def number_0():")).to_be_visible()
    review.get_by_label("Side by side").check()
    row = review.get_by_role("group", name=re.compile("^change 2 of 2")).get_by_role("option")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(re.compile("return 30.*return 300", re.DOTALL))
    review.get_by_label("Side by side").uncheck()
    file_button(review, "space.txt").click()
    options = review.get_by_role("listbox").get_by_role("option")
    expect(options).to_have_count(4)
    review.get_by_label("Ignore white space").check()
    expect(review.get_by_text("White space only")).to_be_visible()
    expect(options).to_have_count(0)


def test_comments_on_lines_survive_a_reload_and_go_with_the_next_prompt(site: Site, open_page: OpenPage) -> None:
    page, review = opened(site, open_page)
    lines = review.get_by_role("group", name=re.compile("^change 1 of 2"))
    lines.get_by_role("listbox").focus()
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    expect(review.get_by_role("textbox", name="Comment on app.py:14")).to_be_focused()
    page.keyboard.type("Say why.")
    page.keyboard.press("Control+Enter")
    expect(lines.get_by_role("listbox").first).to_be_focused()
    file_button(review, "gone.txt").click()
    review.locator(".number").first.click()
    page.keyboard.type("Needed")
    page.keyboard.press("Escape")
    expect(review).to_be_visible()
    review.locator(".number").first.click()
    page.keyboard.type("I need this.")
    review.get_by_role("button", name="Comment", exact=True).click()
    page.keyboard.press("Escape")
    expect(review).to_be_hidden()
    page.reload()
    page.get_by_text("2 comments").click()
    page.get_by_role("button", name="Edit the comment on app.py:14").click()
    page.get_by_role("textbox", name="Comment on app.py:14").fill("Say why, please.")
    page.keyboard.press("Control+Enter")
    page.get_by_label("Prompt", exact=True).fill("Mend this:")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 comments")).to_be_hidden()
    expect(log_of(page)).to_contain_text("Read.")
    turns = site.loop.run(site.user.get(f"/sessions/{site.session['_id']}/turns"))["items"]
    assert turns[0]["prompts"]["user"] == (
        "Mend this:\n\n"
        "app.py:14\n>     return 3\n> +    return 3 + 0  # three\n\nSay why, please.\n\n"
        "gone.txt:1 (before the change)\n> -one\n\nI need this."
    ).replace(">     return 3\n", "> -    return 3\n")


OF_THE_DISK = re.compile(r"/files/content\?path=app\.py$")
OF_THE_TURN = re.compile(r"/turns/\w+/diff$")


def test_who_writes_a_comment_keeps_the_keys_whatever_comes_meanwhile(site: Site, open_page: OpenPage) -> None:
    page, review = opened(site, open_page)
    held: list[Route] = []
    written = review.get_by_role("textbox", name=re.compile("^Comment on app.py"))

    def comment(nth: int) -> None:
        review.locator(f"[data-change='{nth}'] .number").nth(1).click()
        page.keyboard.type("Say ")

    def released(path: re.Pattern[str]) -> None:
        held.pop().continue_()
        page.unroute(path)

    file_button(review, "data.bin").click()
    page.route(OF_THE_DISK, lambda route: held.append(route))
    file_button(review, "app.py").click()
    expect(review.get_by_role("heading", name="app.py")).to_be_visible()
    comment(1)
    released(OF_THE_DISK)
    expect(review.get_by_role("button", name="Show 10 unchanged lines")).to_be_visible()  # so it has come
    page.keyboard.type("why.")
    expect(written).to_have_value("Say why.")
    page.keyboard.press("Escape")
    page.route(OF_THE_TURN, lambda route: held.append(route))
    page.keyboard.press("Alt+Backspace")
    expect(review.get_by_role("status")).to_contain_text("Undone in app.py.")
    comment(0)
    released(OF_THE_TURN)
    expect(review.get_by_role("group", name=re.compile("^change 2 of 2"))).to_contain_text("Undone")
    page.keyboard.type("why.")
    expect(written).to_have_value("Say why.")


def test_a_file_is_named_by_an_at_sign(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    prompt = page.get_by_label("Prompt", exact=True)
    prompt.press_sequentially("Look at @spa")
    option = page.get_by_role("option", name="space.txt")
    expect(option).to_have_attribute("aria-selected", "true")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(prompt).to_have_value("Look at @space.txt ")
    page.keyboard.type("and @sub")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Files")).to_be_hidden()
    expect(prompt).to_have_value("Look at @space.txt and @sub")
    page.keyboard.type(" now")
    page.keyboard.press("Enter")
    expect(log_of(page)).to_contain_text("Read.")
    assert "`@path`" in str(site.model.requests[-1].messages[0]["content"])


def test_a_review_by_keyboard_alone(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    expect(page.get_by_role("button", name="Review", exact=True)).to_be_visible()
    page.keyboard.press("Alt+r")
    review = review_of(page)
    expect(review.get_by_role("heading", name="app.py")).to_be_visible()
    page.keyboard.press("Alt+Enter")
    expect(review.get_by_text("1 of 7 reviewed")).to_be_visible()
    expect(review.get_by_role("group", name=re.compile("^change 2 of 2")).get_by_role("listbox")).to_be_focused()
    page.keyboard.press("Alt+Backspace")
    expect(review.get_by_role("status")).to_contain_text("Undone in app.py.")
    assert site.text("app.py") == AFTER.replace("return 300\n", "return 30\n")
    page.keyboard.press("F7")
    expect(review.get_by_role("heading", name="data.bin")).to_be_visible()
    page.keyboard.press("Alt+PageDown")
    expect(review.get_by_role("heading", name="gone.txt")).to_be_visible()
    page.keyboard.press("Shift+F7")
    page.keyboard.press("Shift+F7")
    expect(review.get_by_role("group", name=re.compile("^change 2 of 2"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(review).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_review(site: Site, open_page: OpenPage, scheme: str) -> None:
    page, review = opened(site, open_page, color_scheme=scheme)
    expect(review.locator(".tok-keyword").first).to_be_visible()
    review.locator("[data-change='1'] .number").nth(1).click()
    assert violations(page) == []
    page.keyboard.type("Why?")
    page.keyboard.press("Control+Enter")
    review.get_by_role("button", name="Keep: change 1 of 2").click()
    review.get_by_label("Side by side").check()
    review.get_by_role("button", name="Undo: change 2 of 2").click()
    expect(review.get_by_role("status")).to_contain_text("Undone in app.py.")
    assert violations(page) == []


def test_a_review_fits_a_small_screen(site: Site, open_page: OpenPage) -> None:
    page, review = opened(site, open_page, viewport=SMALL, has_touch=True, is_mobile=True)
    assert not is_too_wide(page)
    assert not page.evaluate("() => [...document.querySelectorAll('dialog *')].some((e) => e.scrollWidth > innerWidth)")
    review.locator("[data-change='0'] .number").nth(1).tap()
    page.keyboard.type("Why?")
    review.get_by_role("button", name="Comment", exact=True).tap()
    expect(review.get_by_text("Why?")).to_be_visible()
    assert violations(page) == []


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


PATCH = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
CHANGED = {"path": "a", "status": "modified", "added": 1, "removed": 1}


def a_changed_file(stage: Stage) -> Any:
    """A running turn that has changed one file."""
    diff = {"files": [{**CHANGED, "diff": PATCH}], "fileCount": 1}
    stage.drone.answers["readDiff"] = {"ok": True, "diff": diff}
    played = stage.turn()
    taken = a_checkpoint("b", "a", 1)
    taken["checkpoint"]["files"] = [CHANGED]
    stage.send(played.event(**a_checkpoint("a")), played.event(**taken))
    return played


def test_while_the_agent_works_nothing_is_undone(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = a_changed_file(stage)
    page.get_by_role("button", name="Review", exact=True).click()
    review = review_of(page)
    review.get_by_role("button", name="Undo: change 1 of 1").click()
    expect(review.get_by_role("status")).to_contain_text("The agent works in these files")
    assert stage.drone.count("writeFile") == 0
    stage.send(played.event(**a_checkpoint("c", "b")))
    stage.end(played)


def test_comments_steer_the_work_that_runs(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = a_changed_file(stage)
    page.get_by_role("button", name="Review", exact=True).click()
    review_of(page).locator(".number").nth(1).click()
    page.keyboard.type("No.")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Steer").click()
    steered = stage.loop.run(stage.drone.until("steerTurn"))
    assert steered["content"] == "a:1 (before the change)\n> -x\n\nNo."
    expect(page.get_by_text("1 comment")).to_be_hidden()
    stage.end(played)


def test_without_files_an_at_sign_says_why(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    page.get_by_label("Prompt", exact=True).press_sequentially("@a")
    expect(page.get_by_text(re.compile("^No files to choose from: "))).to_be_visible()
    page.keyboard.press("Enter")
    assert stage.loop.run(stage.drone.until("processWorkOrder"))["workOrder"]["prompt"] == "@a"


def test_what_a_revert_leaves_alone_is_shown(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    played = a_changed_file(stage)
    stage.end(played)
    left = [{"path": "large.bin", "reason": "It is larger than is kept."}]
    stage.drone.answers["restoreFiles"] = {"ok": True, "files": [CHANGED], "fileCount": 1, "leftAlone": left}
    page.get_by_role("button", name="Go back to before this prompt").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("These files would stay unchanged:")
    dialog.get_by_role("button", name="Go back", exact=True).click()
    dialog = page.get_by_role("dialog", name="You went back")
    expect(dialog).to_contain_text("The files were changed back, except for 1 file:")
    expect(dialog).to_contain_text("large.bin It is larger than is kept.")
    assert violations(page) == []


def test_an_old_turn_shows_its_notices_questions_and_changes(stage: Stage, open_page: OpenPage) -> None:
    played = a_changed_file(stage)
    from_there = {"_id": played.turn, "session": played.session, "user": stage.user.document["_id"]}
    asked = an_inquiry(from_there)
    answered = {"inquiryId": asked["_id"], "status": "answered", "answer": {"choice": "once"}}
    stage.send(
        played.event("notice", level="warning", code="x", message="The model was slow."),
        played.event("inquiryAsked", inquiry=asked),
        played.event("inquiryAnswered", answer=answered),
        played.event("inquiryAsked", inquiry=an_inquiry(from_there)),
        played.step(content="Done."),
    )
    stage.end(played)
    fetched: list[str] = []
    page = open_page(stage.user, "/drones")
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(stage.path)
    expect(log_of(page)).to_contain_text("The model was slow.")
    expect(log_of(page)).to_contain_text("Answered")
    expect(log_of(page)).to_contain_text("The question was withdrawn")
    expect(page.get_by_role("button", name="1 file changed").first).to_be_visible()
    assert sum(f"/turns/{played.turn}/" in url for url in fetched) == 1
