"""Search in one's own sessions, whatever is typed."""

import pytest

from gadget_code.store.search import snippet
from tests.gadget_code.peers import PlayedDrone, a_finished_turn, a_session, problem
from tests.harness import User, Web


async def test_words_are_found_in_names_prompts_and_answers(user: User, drone: PlayedDrone) -> None:
    named = await a_session(user, name="Mend the Zeppelin parser")
    session = await a_session(user, name="other")
    first = await a_finished_turn(user, drone, session, "Why does the zeppelin_parser in src/a.py leak the memory?")
    second = await a_finished_turn(user, drone, session, "The zeppelin again: größer, 漢字")
    page = await user.get("/sessions/search", q="ZEPPELIN")
    assert [(hit["session"], hit["turn"]) for hit in page["items"]] == [
        (named["_id"], None),
        (session["_id"], second["_id"]),
    ]
    assert page["items"][1]["sessionName"] == "other"
    assert "The zeppelin again" in page["items"][1]["snippet"]
    for query, turn in (("zeppelin_parser leak", first), ("größer zeppelin", second), ("answer again", second)):
        hits = (await user.get("/sessions/search", q=query))["items"]
        assert [hit["turn"] for hit in hits] == [turn["_id"]], query
    assert (await user.get("/sessions/search", q="zeppelin nowhere"))["items"] == []
    assert (await user.get("/sessions/search", q="zeppelin", project=session["project"]))["items"][0]["turn"]
    one = await user.get("/sessions/search", q="the", limit=1)
    assert one["nextCursor"] == second["_id"]
    two = await user.get("/sessions/search", q="the", limit=1, cursor=one["nextCursor"])
    assert ([hit["turn"] for hit in two["items"]], two["nextCursor"]) == ([first["_id"]], None)


async def test_reverted_turns_and_other_users_are_not_found(user: User, drone: PlayedDrone, web: Web) -> None:
    session = await a_session(user, name="quokka")
    turn = await a_finished_turn(user, drone, session, "quokka")
    async with await web.user("eve") as eve:
        assert (await eve.get("/sessions/search", q="quokka"))["items"] == []
        for query in ({"project": session["project"]}, {"cursor": "~"}):
            assert (await eve.get("/sessions/search", q="quokka", **query))["items"] == []
    await user.post(f"/sessions/{session['_id']}/revert", {"turn": turn["_id"], "scope": "conversation"})
    assert [hit["turn"] for hit in (await user.get("/sessions/search", q="quokka"))["items"]] == [None]


@pytest.mark.parametrize(
    "query", ['"', "-quokka", '"quokka" -quokka', "a" * 500, ".*", "(a+)+$", "$where", '{"$gt": ""}', "\0x", "x " * 250]
)
async def test_any_query_is_a_list_of_words(user: User, drone: PlayedDrone, query: str) -> None:
    answer = await user.http.get("/sessions/search", params={"q": query})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        assert answer.json()["items"] == []


async def test_an_empty_and_a_too_long_query_are_refused(user: User) -> None:
    for query in ("", "  ", "!?", "a" * 501):
        problem(await user.http.get("/sessions/search", params={"q": query}), 422, "invalidRequest")


def test_a_snippet_is_one_line_around_the_first_word() -> None:
    assert snippet("find\nme here", ["me"]) == "find me here"
    long = snippet("x" * 500 + " needle " + "y" * 500, ["needle", "absent"])
    assert "needle" in long
    assert long.startswith("… ")
    assert long.endswith(" …")
    assert len(long) < 200
    assert snippet("abc", ["nowhere"]) == "abc"
