"""Two of the same name: a label names nothing, and a page with equal labels works."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect

from gadget_ai.testing.script import Script
from gadget_ai.testing.server import ScriptedServer
from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.browser.test_files import PIXEL, Site, answer, item, opened, set_up
from tests.gadget_code.peers import PlayedDrone
from tests.harness import Drone, User

OpenPage = Callable[..., Page]


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


async def twins(stage: Stage) -> dict[str, Any]:
    """A second provider with a model of the same name, a second project and session; answers the provider. The first
    provider lists its model twice."""
    user, session = stage.user, stage.session
    first = next(p for p in (await user.get("/providers"))["items"] if p["_id"] == session["provider"])
    second = {"name": "Second", "apiType": "openai", "baseUrl": NOWHERE[1], "models": first["models"]}
    provider: dict[str, Any] = await user.post("/providers", second)
    answered = await user.http.patch(f"/providers/{first['_id']}", json={"models": first["models"] * 2})
    answered.raise_for_status()
    project = await user.project(NOWHERE[0], slug="other")
    await user.session(project, provider, name="The session")
    return provider


def test_two_providers_drones_projects_and_sessions_of_one_name_are_told_apart(
    stage: Stage, played_for: Callable[[User], PlayedDrone], open_page: OpenPage
) -> None:
    provider = stage.loop.run(twins(stage))
    other = played_for(stage.user)
    assert other.id != stage.drone.id
    page = open_page(stage.user, stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.get_by_role("button", name=re.compile("^Model:")).click()
    expect(page.get_by_role("menuitemradio", name=re.compile("^scripted"))).to_have_count(3)
    page.get_by_role("menuitemradio", name="scripted Second").click()
    page.get_by_role("button", name=re.compile("^Drone:")).click()
    expect(page.get_by_role("menuitemradio", name=re.compile("^played"))).to_have_count(2)
    page.get_by_role("menuitemradio", name=re.compile("^played")).last.click()
    expect(page.get_by_role("button", name="Drone: played")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Drone:")).click()
    expect(page.get_by_role("menuitemradio", name=re.compile("^played"), checked=True)).to_have_count(1)
    page.keyboard.press("Escape")
    chosen = stage.loop.run(stage.user.get(f"/sessions/{stage.session['_id']}"))
    assert chosen["provider"] == provider["_id"]
    assert chosen["drone"] in (stage.drone.id, other.id)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", name=re.compile("^The session"))).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    for path in ("/new", "/drones", "/providers", "/usage", "/rules", "/account"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("This part of the page failed")).to_have_count(0)
    page.goto("/providers")
    page.get_by_role("button", name="Edit").first.click()
    expect(page.get_by_label("Base URL")).to_be_visible()
    expect(page.get_by_text("This part of the page failed")).to_have_count(0)


def test_one_picture_twice_is_shown_twice(stage: Stage, open_page: OpenPage) -> None:
    page = open_page(stage.user, stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    chosen = FilePayload(name="pixel.png", mimeType="image/png", buffer=PIXEL)
    page.locator("input[type=file]").set_input_files([chosen] * 2)
    expect(page.get_by_role("button", name="Remove pixel.png")).to_have_count(2)
    played = stage.turn()
    kept = httpx.post(
        f"{stage.user.url}/api/v1/images",
        content=PIXEL,
        headers={"Authorization": f"Bearer {stage.user.token}", "Content-Type": "image/png"},
    ).json()
    call: dict[str, Any] = {"callId": "c1", "name": "shot", "params": {}, "images": [kept, kept]}
    stage.send(played.event("toolCall", **call, response="Two.", isError=False, durationMs=1))
    log_of(page).get_by_role("button", name=re.compile("^shot")).click()
    expect(log_of(page).locator(".tool img")).to_have_count(2)
    expect(page.get_by_text("This part of the page failed")).to_have_count(0)


def test_files_whose_names_are_no_text_are_listed_side_by_side(
    loop: Loop,
    ada: User,
    model: Callable[[Script], ScriptedServer],
    drone_for: Callable[[User], Drone],
    tmp_path: Path,
    open_page: OpenPage,
) -> None:
    site: Site = set_up(loop, ada, model(Script(answer)), drone_for(ada), tmp_path)
    for name in (b"\xff", b"\xfe"):
        Path(os.fsdecode(os.fsencode(site.root) + b"/" + name)).write_bytes(b"")
    page = opened(site, open_page)
    expect(item(page, "README.md")).to_be_visible()
    expect(page.get_by_role("treeitem", name="\ufffd")).to_have_count(2)
    page.get_by_role("button", name=re.compile("^Changed")).click()
    expect(page.get_by_text("This part of the page failed")).to_have_count(0)
