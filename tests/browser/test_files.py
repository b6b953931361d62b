"""Files in the browser, of a real drone: looked at, edited, saved, merged, and kept from whoever else writes them."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text
from gadget_ai.testing.server import ScriptedServer
from gadget_api.ids import new_id
from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_accessible import SMALL, is_too_wide, violations
from tests.harness import Drone, Ide, User, repository

OpenPage = Callable[..., Page]
FILES = {
    "README.md": "# A project\n\nText with `code`.\n",
    "app.py": "def answer():\n    return 41\n\n\ndef main():\n    print(answer())\n\n\nmain()\n",
    "src/deep/inner.ts": "export const inner = 1;\n",
    "src/other.ts": "export const other = 2;\n",
    "windows.txt": "one\r\ntwo\r\n",
    ".gitignore": "build/\n",
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PROMPTS: dict[str, list[Reply]] = {
    "Wait for me.": [Reply(Call("ask_user", {"question": "Go on?"}))],
    "Change it.": [
        Reply(Call("read", {"path": "app.py"})),
        Reply(Call("write", {"path": "app.py", "content": "def answer():\n    return 42\n"})),
    ],
}
"""What the model does for each, before it says that it is done."""


@dataclass
class Site:
    """A session whose project is in a drone's workspace."""

    loop: Loop
    user: User
    drone: Drone
    session: dict[str, Any]
    root: Path

    @property
    def path(self) -> str:
        return f"/s/{self.session['_id']}"

    def file(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def put(self, path: str, text: str) -> None:
        """As somebody else on the drone's machine would."""
        (self.root / path).write_bytes(text.encode())


def answer(request: RequestView) -> Reply:
    """What comes next of what the prompt makes it do."""
    if not request.tools:
        return Reply(Text("A name"))
    asked = max(n for n, message in enumerate(request.messages) if message["role"] == "user")
    done: int = sum(message["role"] == "tool" for message in request.messages[asked:])
    return [*PROMPTS.get(str(request.messages[asked]["content"]), []), Reply(Text("Done: see `app.py:2`."))][done]


def set_up(loop: Loop, user: User, server: ScriptedServer, drone: Drone, tmp_path: Path) -> Site:
    """A session of one turn, and files in its project that git does not know."""
    origin = repository(tmp_path / "project", FILES)

    async def started() -> dict[str, Any]:
        session = await a_session(user, str(origin), server.openai_url, name="The session", level="full")
        async with Ide(user) as ide:
            turn = await ide.submit(session["_id"], "Hello.", new_id())
        await user.until_over(turn["_id"])
        await drone.until_available()
        return session

    session = loop.run(started())
    project = loop.run(user.get(f"/projects/{session['project']}"))
    root = drone.workspace / project["slug"]
    (root / "build").mkdir()
    (root / "build" / "out.bin").write_bytes(bytes(range(256)))
    (root / "pixel.png").write_bytes(PIXEL)
    return Site(loop, user, drone, session, root)


@pytest.fixture
def site(
    loop: Loop,
    ada: User,
    model: Callable[[Script], ScriptedServer],
    drone_for: Callable[[User], Drone],
    tmp_path: Path,
) -> Site:
    return set_up(loop, ada, model(Script(answer)), drone_for(ada), tmp_path)


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Files")


def item(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem", name=re.compile(rf"^{re.escape(name)}\b"))


def editor(page: Page, path: str) -> Locator:
    return page.get_by_role("textbox", name=f"Text of {path}")


def opened(site: Site, open_page: OpenPage, path: str | None = None, **options: Any) -> Page:
    page = open_page(site.user, site.path, **options)
    page.get_by_role("button", name="Files", exact=True).click()
    expect(item(page, "app.py")).to_be_visible()
    if path is not None:
        item(page, path).click()
        expect(editor(page, path)).to_be_visible()
    return page


def typed(page: Page, path: str, text: str) -> None:
    """In the place of all there is."""
    editor(page, path).click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(text)


def test_the_tree_is_walked_by_keyboard_and_a_file_opens(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.get_by_label("Prompt", exact=True).fill("A draft.")
    page.keyboard.press("Alt+F")
    expect(item(page, "src")).to_be_visible()
    tree = page.get_by_role("tree")
    tree.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(item(page, "src")).to_have_attribute("aria-expanded", "true")
    expect(item(page, "other.ts")).to_be_visible()
    expect(item(page, "build")).to_have_class(re.compile("ignored"))
    page.keyboard.press("o")
    expect(item(page, "other.ts")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(editor(page, "src/other.ts")).to_have_text("export const other = 2;")
    expect(page.get_by_role("tab", name="other.ts")).to_have_attribute("aria-selected", "true")
    # The conversation was not begun anew.
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("A draft.")


def test_quick_open_goes_to_a_line_and_knows_what_was_opened_before(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.keyboard.press("ControlOrMeta+P")
    box = page.get_by_role("combobox", name=re.compile("^Name of a file"))
    box.fill("app:6")
    expect(page.get_by_role("option", name=re.compile(r"^app\.py"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(panel(page).get_by_text("Line 6, column 1")).to_be_visible()
    expect(editor(page, "app.py")).to_be_focused()
    page.keyboard.press("ControlOrMeta+P")
    expect(page.get_by_role("option").first).to_contain_text("opened before")
    page.keyboard.press("Escape")
    # What the agent said names a line, too.
    page.get_by_role("button", name="app.py:2").click()
    expect(panel(page).get_by_text("Line 2, column 1")).to_be_visible()


def test_what_is_edited_is_saved_on_the_drones_disk(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "windows.txt")
    expect(panel(page).get_by_text("CRLF")).to_be_visible()
    editor(page, "windows.txt").click()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type("three")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="windows.txt, not saved")).to_be_visible()
    page.keyboard.press("ControlOrMeta+S")
    expect(page.get_by_role("tab", name="windows.txt", exact=True)).to_be_visible()
    assert site.file("windows.txt") == "one\r\ntwo\r\nthree\r\n"
    # Undo goes behind the save, and what is as on disk is not dirty.
    page.keyboard.press("ControlOrMeta+Z")
    expect(page.get_by_role("tab", name="windows.txt, not saved")).to_be_visible()


def test_changes_of_both_sides_are_merged_and_saved(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    typed(page, "app.py", FILES["app.py"].replace("41", "42"))
    site.put("app.py", FILES["app.py"].replace("main()\n", "main()  # go\n", 2))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(panel(page).get_by_text("Merged with the changes on disk.")).to_be_visible()
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    merged = FILES["app.py"].replace("main()\n", "main()  # go\n", 2).replace("41", "42")
    assert site.file("app.py") == merged
    expect(editor(page, "app.py")).to_contain_text("main()  # go")
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()


def test_a_conflict_is_decided_by_the_user_and_nothing_is_lost_before(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    typed(page, "app.py", FILES["app.py"].replace("41", "42").replace("main()\n", "main()  # mine\n"))
    theirs = FILES["app.py"].replace("41", "43").replace("print(answer())", "print('theirs')")
    site.put("app.py", theirs)
    page.get_by_role("button", name="Save", exact=True).click()
    comparison = page.get_by_role("textbox", name="What differs in app.py")
    expect(comparison).to_be_visible()
    assert site.file("app.py") == theirs
    save = page.get_by_role("button", name="Save the result")
    expect(save).to_be_disabled()
    expect(panel(page).get_by_text("1 to decide")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Take the text on disk").click()
    expect(panel(page).get_by_text("Everything is decided")).to_be_visible()
    save.click()
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    expect(editor(page, "app.py")).to_contain_text("return 43")
    saved = site.file("app.py")
    assert saved == theirs.removesuffix("main()\n") + "main()  # mine\n"


def test_a_disk_that_changes_while_one_edits_says_so_and_one_that_does_not_follows(
    site: Site, open_page: OpenPage
) -> None:
    page = opened(site, open_page, "app.py")
    site.put("app.py", "changed = 1\n")
    page.get_by_role("button", name="Refresh").click()
    expect(editor(page, "app.py")).to_have_text("changed = 1")
    editor(page, "app.py").click()
    page.keyboard.type("mine")
    site.put("app.py", "changed = 2\n")
    page.get_by_role("button", name="Refresh").click()
    expect(panel(page).get_by_text("This file changed on disk while you edited it.")).to_be_visible()
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("textbox", name="What differs in app.py")).to_contain_text("mine")
    page.get_by_role("button", name="Back to the editor").click()
    page.get_by_role("button", name="Overwrite").click()
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    assert "mine" in site.file("app.py")


def test_a_draft_survives_a_reload_and_a_drone_that_is_away(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    typed(page, "app.py", "typed = True\n")
    expect(page.get_by_role("tab", name="app.py, not saved")).to_be_visible()
    site.drone.stop()
    page.reload()
    expect(editor(page, "app.py")).to_contain_text("typed = True")
    expect(panel(page).get_by_text(re.compile("^Your text of .* is back"))).to_be_visible()
    expect(panel(page).get_by_text(re.compile("is not connected. Start it again"))).to_be_visible()
    assert site.file("app.py") == FILES["app.py"]
    # The panel recovers by itself.
    site.drone.start()
    expect(item(page, "README.md")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    assert site.file("app.py") == "typed = True\n"


def test_while_the_agent_works_files_are_read_only_and_afterwards_they_are_not(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    typed(page, "app.py", "before = 1\n")
    page.get_by_label("Prompt", exact=True).fill("Wait for me.")
    page.keyboard.press("Enter")
    expect(panel(page).get_by_text("The agent works in this workspace")).to_be_visible()
    expect(page.get_by_role("button", name="Workspace: Agent works")).to_be_visible()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    editor(page, "app.py").click()
    page.keyboard.type("no")
    expect(editor(page, "app.py")).to_have_text("before = 1")
    page.get_by_label("Your answer").fill("Yes.")
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("button", name="Workspace: Free")).to_be_visible()
    expect(panel(page).get_by_text("The agent works in this workspace")).to_be_hidden()
    editor(page, "app.py").click()
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.type("# ")
    page.keyboard.press("ControlOrMeta+S")
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    assert site.file("app.py") == "# before = 1\n"


def test_the_user_takes_over_and_hands_back(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    page.get_by_label("Prompt", exact=True).fill("Wait for me.")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Workspace: Agent works").click()
    page.get_by_role("menuitem", name=re.compile("^Stop the agent and take over")).click()
    expect(page.get_by_role("button", name="Workspace: You edit")).to_be_visible()
    editor(page, "app.py").click()
    page.keyboard.type("x")
    page.keyboard.press("ControlOrMeta+S")
    expect(page.get_by_role("tab", name="app.py", exact=True)).to_be_visible()
    page.get_by_role("button", name="Workspace: You edit").click()
    page.get_by_role("menuitem", name=re.compile("^Hand back")).click()
    expect(page.get_by_role("button", name="Workspace: Free")).to_be_visible()


def test_what_the_agent_changes_shows_by_itself(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    page.get_by_label("Prompt", exact=True).fill("Change it.")
    page.keyboard.press("Enter")
    expect(editor(page, "app.py")).to_contain_text("return 42")
    panel(page).get_by_role("button", name=re.compile("^Changed")).click()
    expect(page.get_by_role("treeitem", name=re.compile(r"^app\.py.*changed"))).to_be_visible()
    page.get_by_role("button", name="Open app.py", exact=True).last.click()
    expect(editor(page, "app.py")).to_be_focused()


def test_files_are_made_renamed_and_deleted(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    item(page, "src").click(button="right")
    page.get_by_role("menuitem", name="New file").click()
    path = page.get_by_role("textbox", name="Path of the new file")
    expect(path).to_have_value("src/")
    path.fill("src/new.py")
    page.keyboard.press("Enter")
    expect(editor(page, "src/new.py")).to_be_visible()
    assert site.file("src/new.py") == ""
    item(page, "new.py").click(button="right")
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("textbox", name="New path").fill("src/named.py")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="named.py")).to_be_visible()
    expect(item(page, "named.py")).to_be_visible()
    assert {path.name for path in (site.root / "src").iterdir()} == {"deep", "other.ts", "named.py"}
    item(page, "named.py").click(button="right")
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("tab", name="named.py")).to_be_hidden()
    expect(item(page, "named.py")).to_be_hidden()
    assert not (site.root / "src" / "named.py").exists()
    item(page, "app.py").click(button="right")
    page.get_by_role("menuitem", name="Mention in the prompt").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("@app.py ")


def test_pictures_are_shown_and_other_bytes_are_not(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    item(page, "pixel.png").click()
    picture = page.get_by_role("img", name="Picture pixel.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("(image) => image.naturalWidth") == 1
    item(page, "build").click()
    item(page, "out.bin").click()
    expect(panel(page).get_by_text("This file is not UTF-8 text")).to_be_visible()
    with page.expect_download() as download:
        panel(page).get_by_role("button", name=re.compile("^Download")).last.click()
    assert Path(download.value.path()).read_bytes() == bytes(range(256))


def test_one_endless_line_stays_usable(site: Site, open_page: OpenPage) -> None:
    site.put("long.json", "[" + "1," * 700_000 + "1]")
    page = opened(site, open_page, "long.json")
    expect(page.get_by_role("button", name="Wrap lines")).to_be_disabled()
    editor(page, "long.json").click(position={"x": 60, "y": 12})
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.type("x")
    page.keyboard.press("ControlOrMeta+S")
    expect(page.get_by_role("tab", name="long.json", exact=True)).to_be_visible()
    assert site.file("long.json").startswith("x[1,")


def test_the_keyboard_leaves_the_editor_and_escape_stops_no_turn(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, "app.py")
    page.get_by_label("Prompt", exact=True).fill("Wait for me.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    editor(page, "app.py").click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor(page, "app.py")).not_to_be_focused()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
    tab = page.get_by_role("tab", name="app.py")
    tab.focus()
    page.keyboard.press("Delete")
    expect(tab).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_too_wide(site: Site, open_page: OpenPage, scheme: str) -> None:
    page = opened(site, open_page, "app.py", color_scheme=scheme)
    expect(page.locator(".tok-keyword").first).to_be_visible()
    item(page, "src").click()
    assert violations(page) == []
    editor(page, "app.py").click()
    page.keyboard.press("ControlOrMeta+F")
    expect(page.get_by_role("textbox", name="Find")).to_be_visible()
    page.keyboard.type("answer")
    assert violations(page) == []
    separator = page.get_by_role("separator", name="Width of the files")
    before = int(separator.get_attribute("aria-valuenow") or 0)
    separator.focus()
    page.keyboard.press("ArrowLeft")
    expect(separator).to_have_attribute("aria-valuenow", str(before + 2))
    page.set_viewport_size({"width": 3840, "height": 2160})
    assert not is_too_wide(page)


def test_a_small_screen_shows_one_thing_at_a_time(site: Site, open_page: OpenPage) -> None:
    page = opened(site, open_page, viewport=SMALL)
    assert not is_too_wide(page)
    assert violations(page) == []
    expect(page.get_by_label("Prompt", exact=True)).to_be_hidden()
    item(page, "app.py").click()
    expect(editor(page, "app.py")).to_be_visible()
    assert not is_too_wide(page)
    assert violations(page) == []
    page.get_by_role("button", name="Project files").click()
    expect(item(page, "README.md")).to_be_visible()
    page.get_by_role("button", name="Back to the conversation").click()
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()


def test_a_session_without_a_workspace_says_what_to_do(
    loop: Loop, ada: User, drone_for: Callable[[User], Drone], origin: Path, open_page: OpenPage
) -> None:
    session = loop.run(a_session(ada, str(origin), "http://127.0.0.1:9/v1", name="The session"))
    page = open_page(ada, f"/s/{session['_id']}")
    page.get_by_role("button", name="Files", exact=True).click()
    expect(panel(page).get_by_text("No drone is connected. Start one")).to_be_visible()
    assert violations(page) == []
    drone_for(ada)
    expect(panel(page).get_by_text(re.compile("does not have the project yet"))).to_be_visible()
