"""How heavy the page is, and how it keeps up."""

import gzip
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from gadget_code.ide_files import STATIC
from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage
from tests.gadget_code.peers import PlayedDrone
from tests.harness import User

FIRST_LOAD_BYTES = 100_000
CONVERSATION_BYTES = 125_000
DELTAS = 5_000
LONG_SHARE = 0.1
"""Of the time, in tasks of more than 50 ms."""


def gzipped(name: str) -> int:
    return len(gzip.compress((STATIC / name).read_bytes(), 9))


def test_the_first_load_is_small() -> None:
    page = (STATIC / "index.html").read_text()
    named = set(re.findall(r"/(assets/[^\"]+\.(?:js|css))", page))
    assert named, page
    assert sum(map(gzipped, named)) < FIRST_LOAD_BYTES


def test_a_conversation_fetches_little_and_nothing_from_elsewhere(stage: Stage, open_page: Callable[..., Page]) -> None:
    page = open_page(stage.user, "about:blank")
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    assert all(url.startswith(stage.user.url) for url in fetched)
    assets = {url.partition("/assets/")[2] for url in fetched if re.search(r"/assets/.*\.(js|css)$", url)}
    assert sum(gzipped(f"assets/{name}") for name in assets) < CONVERSATION_BYTES


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name="The session")))


def test_thousands_of_deltas_are_shown_with_hardly_a_long_task(stage: Stage, open_page: Callable[..., Page]) -> None:
    """As fast as the service takes them, which is faster than a model that says 200 a second. So one frame has more to
    do than it ever will, and other processes of the test are on the same cores: a small share may be long."""
    page = open_page(stage.user, stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.evaluate("""() => {
        window.long = [];
        new PerformanceObserver((list) => long.push(...list.getEntries().map((e) => e.duration)))
            .observe({type: "longtask"});
        window.begun = performance.now();
    }""")
    played = stage.turn("Talk.")
    words = [f"word{n} " + ("\n\n" if n % 40 == 39 else "") for n in range(DELTAS)]
    for at in range(0, DELTAS, 1000):
        stage.send(*(played.response(word) for word in words[at : at + 1000]))
    stage.loop.run(stage.drone.acked(played.turn, played.seq))
    page.wait_for_function(
        "(last) => document.querySelector('.items')?.textContent.includes(last)", arg=f"word{DELTAS - 1} "
    )
    took_ms, long = page.evaluate("() => [performance.now() - begun, long]")
    assert sum(long) < took_ms * LONG_SHARE, (took_ms, long)
    stage.send(played.step(content="".join(words)))
    stage.end(played)
    expect(page.get_by_role("button", name="Copy answer")).to_be_attached()
    shown = page.evaluate("() => document.querySelector('.items > .markdown').textContent")
    assert shown.split() == "".join(words).split()
