"""The first run: nothing is there, and a person gets to a turn by what the page says."""

import re
import shlex
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text, Think
from tests.harness import Process, User, clean_environment

SCRIPT = [
    Reply(Think("I look first."), Text("I read the file."), Call("read", {"path": "app.py"})),
    Reply(Call("write", {"path": "app.py", "content": "def answer():\n    return 42\n"})),
    Reply(Text("It answers **42** now.\n\n```python\nanswer()  # 42\n```\n")),
]


def answer(request: RequestView) -> Reply:
    """The step that comes next; a name for the session where one is asked for, which no tools come with."""
    if not request.tools:
        return Reply(Text("The right answer"))
    done: int = sum(message["role"] == "tool" for message in request.messages)
    return SCRIPT[done]


def test_a_newcomer_gets_to_a_turn_by_what_the_page_says(
    ada: User,
    model: Callable[[Script], Any],
    origin: Path,
    tmp_path: Path,
    peers: AsyncExitStack,
    open_page: Callable[..., Page],
) -> None:
    server = model(Script(answer))
    page = open_page(ada)
    expect(page.get_by_role("heading", name="Set up Gadget Code")).to_be_visible()

    # A model, with what the provider says it has.
    page.get_by_label("Name").first.fill("Here")
    page.get_by_label("Base URL").fill(server.openai_url)
    page.get_by_role("button", name="Save and list its models").click()
    page.get_by_role("checkbox", name="scripted").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Here · scripted")).to_be_visible()

    # A project.
    page.get_by_label("Git URL").fill(str(origin))
    expect(page.get_by_role("textbox", name="Directory")).to_have_value("origin")
    page.get_by_role("button", name="Add a project").click()
    expect(page.get_by_text(f"origin · {origin}")).to_be_visible()

    # A drone, by the command that the page shows; it appears without a reload.
    shown = page.get_by_role("group", name=re.compile("Run this")).inner_text()
    variable, program, *arguments = shlex.split(shown)
    assert program == "gadget-drone"
    name, _, token = variable.partition("=")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    drone = Process(
        [sys.executable, "-P", "-m", "gadget_drone", *arguments],
        clean_environment(**{name: token, "GADGET_ALLOW_LOCAL_GIT": "true"}),
        tmp_path / "drone.log",
        cwd=workspace,
    ).start()
    peers.callback(drone.stop)
    expect(page.get_by_text("All is ready.")).to_be_visible()

    page.get_by_role("link", name="Start a session").click()
    page.get_by_label("What should the agent do?").fill("Make it answer 42.")
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_contain_text("It answers 42 now.")
    expect(log.get_by_text("Make it answer 42.")).to_be_visible()
    expect(log.get_by_role("button", name=re.compile("^read app.py"))).to_be_visible()
    expect(log.get_by_role("group", name="Changes: app.py")).to_contain_text("return 42")
    expect(page.get_by_role("button", name="1 file changed", exact=True)).to_be_visible()
    assert (workspace / "origin" / "app.py").read_text() == "def answer():\n    return 42\n"
