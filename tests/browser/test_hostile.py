"""What a model says is hostile: nothing of it runs, and nothing of it is fetched."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import a_session
from tests.browser.loop import Loop
from tests.browser.test_conversation import NOWHERE, Stage, log_of
from tests.gadget_code.peers import PlayedDrone
from tests.harness import User

HOSTILE = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "![pixel](https://evil.example/pixel.png)",
    "![data](data:text/html;base64,PHNjcmlwdD4=)",
    "[click](javascript:window.owned=1)",
    "[click](JaVaScRiPt:window.owned=1 'title')",
    "[click](data:text/html,<script>window.owned=1</script>)",
    "[ref]\n\n[ref]: javascript:window.owned=1",
    "<svg onload='window.owned = 1'><a href='javascript:window.owned=1'>x</a></svg>",
    "<iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "<style>body { display: none }</style>",
    "<form action='https://evil.example'><button>Sign in</button></form>",
    '<https://evil.example/"onmouseover=window.owned=1>',
    "```html\n<script>window.owned = 1</script>\n```",
    '```"><img src=x onerror=window.owned=1>\ncode\n```',
    "| <img src=x onerror=window.owned=1> | b |\n|---|---|\n| `<script>` | <b onclick=window.owned=1>c</b> |",
    "<a href='https://evil.example' target=_top onclick='window.owned=1'>text</a>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.owned=1&gt;'>",
    "<base href='https://evil.example/'><link rel=stylesheet href='https://evil.example/x.css'>",
    "<div id='app' class='tool' style='position:fixed;inset:0;background:url(https://evil.example/b)'>x</div>",
    "a\u202etxt.exe\u202c \x1b[31mred\x1b[0m",
]


@pytest.fixture
def stage(loop: Loop, ada: User, played_for: Callable[[User], PlayedDrone]) -> Stage:
    name = "<img src=x onerror=window.owned=1>"
    return Stage(loop, ada, played_for(ada), loop.run(a_session(ada, *NOWHERE, name=name)))


@pytest.mark.parametrize("way", ["streamed", "whole"])
def test_nothing_that_a_model_says_runs_or_is_fetched(stage: Stage, open_page: Callable[..., Page], way: str) -> None:
    page = open_page(stage.user, stage.path)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    text = "\n\n".join(HOSTILE)
    played = stage.turn(text)
    if way == "streamed":
        stage.send(played.event("thinking", content=text))
        # Cut anywhere: no state in between may be worse than the whole.
        stage.send(*(played.response(text[at : at + 7]) for at in range(0, len(text), 7)))
    call: dict[str, Any] = {
        "callId": "<b>",
        "name": "<img src=x onerror=window.owned=1>",
        "params": {"path": HOSTILE[1]},
    }
    stage.send(played.step(content=text + "\n\nThe end."))
    stage.send(played.event("toolCall", **call, response=text, isError=False, durationMs=1))
    stage.send(played.event("notice", level="info", code="x", message=text))
    stage.end(played)
    log = log_of(page)
    expect(log.get_by_text("The end.")).to_be_visible()
    card = log.get_by_role("button", name=re.compile("^<img src=x onerror"))
    card.click()
    expect(card).to_have_attribute("aria-expanded", "true")
    expect(log.get_by_role("group", name="Output")).to_contain_text("<script>window.owned = 1</script>")
    log.locator("summary").filter(has_text="Thought").click()
    for link in log.get_by_role("link").all():
        assert re.match(r"(https?:|mailto:)", link.get_attribute("href") or ""), link.get_attribute("href")
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert page.evaluate("() => window.owned") is None
    foreign = [url for url in fetched if not url.startswith((stage.user.url, "blob:"))]
    assert foreign == []
    inside = "script, iframe, style, form, object, embed, base, link, math, svg[onload], [onclick], [onerror], [style]"
    assert log.locator(".markdown").locator(inside).count() == 0
    assert log.locator(".markdown img").count() == 0


def test_the_policy_refuses_what_gets_into_the_page_all_the_same(
    stage: Stage, open_page: Callable[..., Page], faults: list[str]
) -> None:
    page = open_page(stage.user, stage.path)
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.owned = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.owned = 1'>");
        const image = new Image();
        image.src = "https://evil.example/pixel.png";
    }""")
    page.wait_for_function("() => true")
    expect(page.locator("img[onerror]")).to_be_attached()
    assert page.evaluate("() => window.owned") is None
    assert any("Content Security Policy" in fault for fault in faults)
    faults.clear()
