"""A session as a document to keep."""

import json

import httpx
import pytest

from tests.gadget_code.peers import PlayedDrone, a_finished_turn, a_session, problem
from tests.harness import User, Web

CALL = {
    "type": "toolCall",
    "callId": "c1",
    "name": "shell",
    "params": {"command": "ls"},
    "response": "a\n```\n# not a heading\n````\n",
    "isError": True,
    "durationMs": 5,
}


async def exported(user: User, session: str, format: str) -> httpx.Response:
    answer = await user.http.get(f"/sessions/{session}/export", params={"format": format})
    assert answer.status_code == 200, answer.text
    return answer


async def test_a_session_is_exported_without_reverted_turns_and_keys(user: User, drone: PlayedDrone) -> None:
    key = "sk-0123456789abcdef"
    project = await user.project("https://example.org/a.git")
    session = await user.session(project, await user.provider("http://127.0.0.1:9", key=key), name="Mend\nit # now")
    await a_finished_turn(user, drone, session, "one\n# two", CALL)
    gone = await a_finished_turn(user, drone, session, "forget this")
    await user.post(f"/sessions/{session['_id']}/revert", {"turn": gone["_id"], "scope": "conversation"})
    text = (await exported(user, session["_id"], "markdown")).text
    assert text.startswith("# Mend it # now\n")
    assert "> one\n> # two\n" in text
    assert "`````\na\n```\n# not a heading\n````\n`````\n" in text
    assert "**shell** (failed)" in text
    assert "Answer to one" in text
    document = (await exported(user, session["_id"], "json")).json()
    assert document["session"]["_id"] == session["_id"]
    [turn] = document["turns"]
    assert turn["turn"]["prompts"]["user"] == "one\n# two"
    assert [event["type"] for event in turn["events"]] == ["toolCall", "step"]
    for content in (text, json.dumps(document)):
        assert "forget this" not in content
        assert key not in content
        assert user.token not in content


NAMES = [
    'x"; filename="evil.exe',
    "a\r\nSet-Cookie: x=1",
    "../../etc/passwd",
    "漢字 größer",
    "....",
    "%00%0a",
    "a" * 200,
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_session_name_becomes_a_safe_file_name(user: User, name: str) -> None:
    session = await a_session(user, name=name)
    answer = await exported(user, session["_id"], "markdown")
    header = answer.headers["content-disposition"]
    assert header.startswith('attachment; filename="')
    plain = header.split('"')[1]
    assert plain.endswith(".md")
    assert not set(plain) & set("/\\\r\n;%")
    assert not plain.startswith(".")
    assert header.count('"') == 2
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_another_users_session_cannot_be_exported_forked_or_reverted(user: User, web: Web) -> None:
    session = await a_session(user)
    async with await web.user("eve") as eve:
        path = f"/sessions/{session['_id']}"
        problem(await eve.http.get(f"{path}/export"), 404, "notFound")
        problem(await eve.http.get(f"{path}/diff"), 404, "notFound")
        problem(await eve.http.post(f"{path}/fork", json={}), 404, "notFound")
        problem(await eve.http.post(f"{path}/revert", json={"turn": "x"}), 404, "notFound")
        problem(await eve.http.post(f"{path}/redo"), 404, "notFound")
    problem(await user.http.get(f"/sessions/{session['_id']}/export?format=pdf"), 422, "invalidRequest")
