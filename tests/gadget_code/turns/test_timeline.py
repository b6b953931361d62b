"""What a turn spent its time on, and what all turns used."""

from datetime import datetime, timedelta
from typing import Any

from gadget_api.model import iso, utc_now
from tests.gadget_code.peers import Played, PlayedDrone, a_finished_turn, a_session, an_inquiry, problem
from tests.harness import User, Web


async def spans(user: User, turn: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await user.get(f"/turns/{turn}/timeline"))["items"]
    return items


async def test_a_timeline_has_a_span_for_each_step_tool_and_wait(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    begin = utc_now()

    def at(seconds: float) -> str:
        return iso(begin + timedelta(seconds=seconds))

    played = Played(turn)
    inquiry = an_inquiry(turn)
    answer = {"inquiryId": inquiry["_id"], "status": "answered", "answer": {"choice": "once"}}
    for seconds, event in (
        (0, played.event("notice", level="info", code="cloning", message="Cloning\nnow")),
        (1, played.response("Hel")),
        (3, played.step(inputTokens=1000, responseTokens=100)),
        (3.5, played.event("inquiryAsked", inquiry=inquiry)),
        (63.5, played.event("inquiryAnswered", answer=answer)),
        (64, played.event("toolStarted", callId="c1", name="shell", params={})),
        (66, {**played.tool_call("c1"), "durationMs": 1900, "isError": True}),
        (70, played.step(2)),
        (70, played.complete()),
    ):
        await drone.send({**event, "at": at(seconds)})
    await drone.acked(turn["_id"], 9)
    found = await spans(user, turn["_id"])
    assert [(s["kind"], s["seq"], s["durationMs"]) for s in found] == [
        ("notice", 1, 0),
        ("step", 3, 0),  # when its call began, no event says
        ("inquiry", 5, 60_000),
        ("tool", 7, 1900),
        ("step", 8, 4_000),
        ("end", 9, 0),
    ]
    step, waited, tool = found[1], found[2], found[3]
    assert (step["label"], step["usage"]["inputTokens"], step["cost"]) == ("scripted", 1000, 0.002)
    assert (waited["label"], waited["inquiry"], waited["callId"]) == ("Run a command", inquiry["_id"], "c1")
    assert (tool["label"], tool["isError"], datetime.fromisoformat(tool["beganAt"])) == (
        "read",
        True,
        datetime.fromisoformat(at(64)),
    )
    assert found[0]["label"] == "Cloning now"
    # A page at a time, it is the same.
    pages, after = [], 0
    while after is not None:
        page = await user.get(f"/turns/{turn['_id']}/timeline", limit=2, after=after)
        pages += page["items"]
        after = page["nextCursor"]
    assert pages == found


async def test_a_clock_that_is_set_back_gives_no_negative_span(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    await drone.send(played.step())
    await drone.send({**played.step(2), "at": iso(utc_now() - timedelta(days=1))})
    await drone.send({**played.tool_call(), "durationMs": 2**53 - 1})
    await drone.acked(turn["_id"], 3)
    assert [span["kind"] for span in await spans(user, turn["_id"])] == ["step", "step", "tool"]


async def test_usage_sums_up_only_the_callers_turns(user: User, drone: PlayedDrone, web: Web) -> None:
    first, second = await a_session(user), await a_session(user)
    turns = [await a_finished_turn(user, drone, session) for session in (first, first, second)]
    forked = await user.post(f"/sessions/{first['_id']}/fork", {})
    days = sorted({turn["createdAt"][:10] for turn in turns})
    used = {
        "turns": 3,
        "steps": 3,
        "toolCalls": 0,
        "inputTokens": 300,
        "cachedInputTokens": 0,
        "responseTokens": 30,
        "thinkingTokens": 0,
        "cost": 0.0006,
        "durationMs": 375_000,
    }
    for by, keys in (("day", days), ("model", ["scripted"])):
        rows = (await user.get("/usage", by=by))["items"]
        assert sorted(row["key"] for row in rows) == keys
        assert {name: round(sum(row[name] for row in rows), 9) for name in used} == used
        assert all(row.keys() == {"key", *used} for row in rows)
    rows = (await user.get("/usage", by="project"))["items"]
    assert [(r["key"], r["turns"]) for r in rows] == [(first["project"], 2), (second["project"], 1)]
    assert forked["project"] == first["project"]
    async with await web.user("eve") as eve:
        assert (await eve.get("/usage"))["items"] == []
    before = iso(datetime.fromisoformat(first["createdAt"]) - timedelta(seconds=1))
    assert (await user.get("/usage", to=before))["items"] == []


async def test_an_invalid_period_is_refused(user: User) -> None:
    now = utc_now()
    for params in (
        {"from": iso(now), "to": iso(now - timedelta(days=1))},
        {"from": iso(now - timedelta(days=400)), "to": iso(now)},
        {"from": "yesterday"},
        {"from": "2026-01-01T00:00:00"},
        {"by": "user"},
        {"to": "0001-01-01T00:00:00Z"},
        {"to": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59-14:00"},
    ):
        problem(await user.http.get("/usage", params=params), 422, "invalidRequest")
