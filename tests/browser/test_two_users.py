"""Two users of one service, each in a browser of their own: neither sees, hears or reaches what is the other's."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone
from tests.harness import User, Web


@pytest.fixture
def bob(web: Web, loop: Loop, peers: AsyncExitStack) -> User:
    async def entered() -> User:
        return await peers.enter_async_context(await web.user("bob"))

    return loop.run(entered())


@pytest.fixture
def stages(loop: Loop, ada: User, bob: User, played_for: Callable[[User], PlayedDrone]) -> tuple[Stage, Stage]:
    def stage(user: User, name: str) -> Stage:
        return Stage(loop, user, played_for(user), loop.run(a_session(user, *NOWHERE, name=name)))

    return stage(ada, "The work of Ada"), stage(bob, "The work of Bob")


def test_neither_sees_the_others_sessions_turns_files_or_drones(
    stages: tuple[Stage, Stage], open_page: Callable[..., Page]
) -> None:
    of_ada, of_bob = stages
    pages = {stage.user.email: open_page(stage.user, stage.path) for stage in stages}
    for stage, other in ((of_ada, of_bob), (of_bob, of_ada)):
        page = pages[stage.user.email]
        played = stage.turn(f"A prompt of {stage.user.email}")
        stage.send(played.response(f"An answer for {stage.user.email}"))
        expect(log_of(page)).to_contain_text(f"An answer for {stage.user.email}")
        other_page = pages[other.user.email]
        expect(other_page.get_by_label("Prompt", exact=True)).to_be_visible()
        stage.send(played.step(content=f"An answer for {stage.user.email}"))
        stage.end(played)
        expect(page.get_by_role("button", name="Copy answer")).to_be_visible()
        assert stage.user.email not in other_page.locator("body").inner_text()
    for stage, other in ((of_ada, of_bob), (of_bob, of_ada)):
        page = pages[stage.user.email]
        expect(page.get_by_role("link", name=stage.session["name"])).to_be_visible()
        expect(page.get_by_text(other.session["name"])).to_have_count(0)
        page.goto(other.path)
        expect(page.get_by_role("alert").first).to_be_visible()
        assert f"An answer for {other.user.email}" not in page.locator("body").inner_text()
        headers = {"X-Gadget-Page": stage.user.token.split(".")[1]}
        for path in ("", "/turns", "/files", "/diff", "/queue"):
            answer = page.request.get(f"/api/v1/sessions/{other.session['_id']}{path}", headers=headers)
            assert answer.status == 404, (path, answer.status)
        page.goto("/drones")
        expect(page.get_by_text(f"/{stage.drone.name}").first).to_be_visible()
        drones = page.request.get("/api/v1/drones", headers=headers).json()["items"]
        assert [drone["_id"] for drone in drones] == [stage.drone.id]
