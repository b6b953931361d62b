"""What a drone is given to work by: policy, fallbacks, budgets, images; and what changes while it works."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pymongo import MongoClient

from gadget_api.ids import new_id
from gadget_api.model import iso, utc_now
from gadget_code.turns.work_orders import worked_ms
from tests.gadget_code.peers import (
    Played,
    PlayedDrone,
    a_finished_turn,
    a_session,
    a_turn,
    an_inquiry,
    is_processing,
    problem,
)
from tests.harness import Ide, User, Web, until

DENY = {"decision": "deny", "capability": "read", "pattern": ".env*", "reason": "Secrets."}
ASK = {"decision": "ask", "capability": "git", "pattern": "push *", "reason": None}


async def test_a_client_without_levels_works(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    order = await drone.order(turn["_id"])
    assert order["policy"] == {"level": "full", "rules": [], "trustsRepository": False, "trust": None}
    unlimited = {"steps": None, "tokens": None, "usd": None, "minutes": None}
    assert order["turnBudget"] == order["sessionBudget"] == unlimited
    assert (order["fallbacks"], order["images"], order["traceparent"]) == ([], [], None)
    assert order["session"] == {**order["session"], "mode": "build", "wantsTitle": False, "historyVersion": 0}
    assert order["answerWithinS"] == 24 * 3600
    assert drone.count("setPolicy") == 0


async def test_mode_and_level_change_together(user: User) -> None:
    session = await a_session(user)
    path = f"/sessions/{session['_id']}"
    for changes, mode, level in (
        ({"mode": "plan"}, "plan", "plan"),
        ({"mode": "build"}, "build", "full"),
        ({"level": "autoEdit"}, "build", "autoEdit"),
        ({"mode": "build"}, "build", "autoEdit"),
        ({"level": "plan"}, "plan", "plan"),
        ({"name": "x"}, "plan", "plan"),
        ({"mode": "plan", "level": "ask"}, "build", "ask"),
    ):
        changed = (await user.http.patch(path, json=changes)).json()
        assert (changed["mode"], changed["level"]) == (mode, level), changes
    await user.http.patch("/users/me", json={"level": "ask"})
    for fields, mode, level in (
        ({}, "build", "ask"),
        ({"mode": "plan"}, "plan", "plan"),
        ({"level": "full"}, "build", "full"),
    ):
        made = await a_session(user, **fields)
        assert (made["mode"], made["level"]) == (mode, level), fields


async def test_the_effort_of_a_prompt_is_the_sessions_when_it_was_sent(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user, effort="low")
    assert session["effort"] == "low"
    first = await a_turn(user, session)
    path = f"/sessions/{session['_id']}"
    assert (await user.http.patch(path, json={"effort": "high"})).json()["effort"] == "high"
    second = await a_turn(user, session)
    assert (await user.http.patch(path, json={"effort": None})).json()["effort"] is None
    third = await a_turn(user, session)
    for turn, effort in ((first, "low"), (second, "high"), (third, None)):
        assert turn["effort"] == effort
        order = await drone.order(turn["_id"])
        assert order["provider"]["params"]["effort"] == effort
        await drone.send(Played(turn, epoch=order["epoch"]).complete())
        await drone.acked(turn["_id"], 1)
        await drone.report("available")


async def test_the_first_turn_names_a_session_unless_its_user_does(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user, name=None)
    assert (session["name"], session["wantsTitle"]) == ("New session", True)
    turn = await a_turn(user, session)
    order = await drone.order(turn["_id"])
    assert order["session"]["wantsTitle"]
    played = Played(turn)
    async with Ide(user) as ide:
        await drone.send(played.event("titled", title="  Mend \u001b[31m the\n sum "))
        _, updated = await ide.until(lambda name, p: name == "sessionUpdated" and not p["session"]["wantsTitle"])
    assert updated["session"]["name"] == "Mend [31m the sum"
    await drone.send(played.event("titled", title="Another"))
    await drone.acked(turn["_id"], 2)
    assert (await user.get(f"/sessions/{session['_id']}"))["name"] == "Mend [31m the sum"
    own = await a_session(user, name=None)
    changed = (await user.http.patch(f"/sessions/{own['_id']}", json={"name": "Mine"})).json()
    assert (changed["name"], changed["wantsTitle"]) == ("Mine", False)


async def test_the_rules_of_every_scope_are_in_the_order_and_reach_a_running_turn(
    user: User, drone: PlayedDrone
) -> None:
    session = await a_session(user, level="ask", rules=[ASK])
    await user.http.patch("/users/me", json={"rules": [DENY]})
    await user.http.patch(f"/projects/{session['project']}", json={"rules": [ASK], "trusted": True})
    turn = await a_turn(user, session)
    policy = (await drone.order(turn["_id"]))["policy"]
    assert policy["level"] == "ask"
    assert policy["trustsRepository"]
    scoped = [{**DENY, "scope": "user"}, {**ASK, "scope": "project"}, {**ASK, "scope": "session"}]
    assert policy["rules"] == scoped
    await is_processing(user, turn["_id"])
    for path, changes, expected in (
        (f"/sessions/{session['_id']}", {"level": "plan"}, {"level": "plan"}),
        (f"/sessions/{session['_id']}", {"mode": "build"}, {"level": "full"}),
        (f"/sessions/{session['_id']}", {"rules": []}, {"rules": scoped[:2]}),
        ("/users/me", {"rules": []}, {"rules": scoped[1:2]}),
        (f"/projects/{session['project']}", {"rules": []}, {"rules": []}),
        (f"/projects/{session['project']}", {"trusted": False}, {"trustsRepository": False}),
    ):
        assert (await user.http.patch(path, json=changes)).status_code == 200
        await drone.until("setPolicy", partial(_says, expected))


def _says(expected: dict[str, Any], push: dict[str, Any]) -> bool:
    return bool(push["policy"].items() >= expected.items())


async def test_a_drone_that_reconnects_gets_the_current_policy(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await drone.disconnect()
    await user.http.patch(f"/sessions/{turn['session']}", json={"level": "plan"})
    assert drone.count("setPolicy") == 0
    await drone.connect()
    await drone.report("busy")
    assert (await drone.until("setPolicy"))["policy"]["level"] == "plan"


async def test_a_drone_that_begins_gets_a_policy_that_has_changed_since_its_order(
    web: Web, mongodb_url: str, user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    order = await drone.order(turn["_id"])
    # By a process that died before it told anybody.
    with MongoClient[dict[str, Any]](mongodb_url) as client:
        sessions = client[web.env["GADGET_DATABASE"]].sessions
        assert sessions.update_one({"_id": turn["session"]}, {"$set": {"level": "plan"}}).modified_count == 1
    begin = {"turnId": turn["_id"], "epoch": order["epoch"]}
    assert (await drone.call("beginTurn", begin))["ok"]
    assert (await drone.until("setPolicy"))["policy"]["level"] == "plan"


async def test_the_rules_of_the_install_apply_to_all_users_at_once(
    admin: User, user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    assert await admin.get("/permissions/install") == {"rules": []}
    try:
        put = await admin.http.put("/permissions/install", json={"rules": [DENY]})
        assert put.json() == {"rules": [DENY]}
        await drone.until("setPolicy", partial(_says, {"rules": [{**DENY, "scope": "install"}]}))
        bad = await admin.http.put("/permissions/install", json={"rules": [DENY] * 201})
        problem(bad, 422, "invalidRequest")
    finally:
        await admin.http.put("/permissions/install", json={"rules": []})
    await drone.until("setPolicy", partial(_says, {"rules": []}))


async def test_only_administrators_change_the_rules_of_the_install(user: User) -> None:
    for method in ("GET", "PUT"):
        answer = await user.http.request(
            method, "/permissions/install", json={"rules": []} if method == "PUT" else None
        )
        problem(answer, 403, "notAllowed")


async def test_fallbacks_come_with_their_keys_and_budgets_with_what_was_spent(user: User, drone: PlayedDrone) -> None:
    other = await user.provider("http://127.0.0.1:9/v2", model="cheap", key="sk-0123456789abcdef", seesImages=True)
    fallbacks = [{"provider": other["_id"], "model": "cheap"}, {"provider": other["_id"], "model": "unlisted"}]
    session = await a_session(user, fallbacks=fallbacks, budget={"usd": 1.5}, turnBudget={"steps": 10})
    first = await a_turn(user, session)
    order = await drone.order(first["_id"])
    assert [(f["modelId"], f["apiKey"], f["seesImages"]) for f in order["fallbacks"]] == [
        ("cheap", "sk-0123456789abcdef", True),
        ("unlisted", "sk-0123456789abcdef", False),
    ]
    assert (order["turnBudget"]["steps"], order["sessionBudget"]["usd"]) == (10, 1.5)
    assert order["sessionSpent"] == {"steps": 0, "tokens": 0, "usd": 0.0, "minutes": 0.0}
    played = Played(first)
    await drone.send(played.step(inputTokens=100, responseTokens=10))
    await drone.send(played.complete())
    await drone.acked(first["_id"], 2)
    await drone.report("available")
    second = await a_turn(user, session)
    spent = (await drone.order(second["_id"]))["sessionSpent"]
    assert spent == {"steps": 1, "tokens": 110, "usd": 0.0002, "minutes": 125 / 60}
    stranger = [{"provider": new_id(), "model": "x"}]
    problem(await user.http.patch(f"/sessions/{session['_id']}", json={"fallbacks": stranger}), 404, "notFound")


async def test_unusual_usage_is_relative_to_the_sessions_or_the_users_turns(user: User, drone: PlayedDrone) -> None:
    """Steps, money, minutes: 100, $2 and 30 at least."""

    async def unusual(session: dict[str, Any]) -> tuple[int, float, float]:
        turn = await a_turn(user, session)
        order = await drone.order(turn["_id"])
        played = Played(turn, epoch=order["epoch"])
        await drone.send(played.complete(status="error"))  # what fails is no measure
        await drone.acked(turn["_id"], played.seq)
        await drone.report("available")
        said = order["unusual"]
        assert said["tokens"] is None
        return said["steps"], said["usd"], said["minutes"]

    large, small = await a_session(user), await a_session(user)
    assert await unusual(large) == (100, 2.0, 30.0)
    step = Played({"_id": "", "session": ""}).step(inputTokens=200_000)
    used = [{name: step[name] for name in ("type", "index", "message", "usage", "finishReason", "model")}] * 29
    await a_finished_turn(user, drone, large, "one", *used)
    steps, usd, minutes = await unusual(large)
    assert (steps, minutes) == (150, 30.0)
    assert usd == pytest.approx(5 * 29 * 0.2, rel=0.01)
    assert (await unusual(small))[0] == 150  # it has no turns of its own yet
    for n in range(3):
        await a_finished_turn(user, drone, small, str(n))
    assert (await unusual(small))[0] == 100


async def test_a_step_of_a_fallback_has_the_price_of_its_model(user: User, drone: PlayedDrone) -> None:
    other = await user.provider("http://127.0.0.1:9/v2", model="dear", price={"input": 1000.0, "output": 0})
    session = await a_session(user, fallbacks=[{"provider": other["_id"], "model": "dear"}])
    turn = await a_turn(user, session)
    await drone.order(turn["_id"])
    played = Played(turn)
    await drone.send({**played.step(inputTokens=1_000_000), "model": "dear"})
    await drone.acked(turn["_id"], 1)
    assert (await user.get(f"/turns/{turn['_id']}"))["stats"]["cost"] == 1000.0


async def test_the_first_and_the_last_checkpoint_of_a_turn_are_stored(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    ids = [letter * 40 for letter in "abc"]
    await drone.send(played.event("checkpoint", checkpoint={"checkpointId": ids[0]}))
    await drone.send(played.event("checkpoint", checkpoint={"checkpointId": ids[1], "parent": ids[0], "fileCount": 1}))
    await drone.send(played.event("checkpoint", checkpoint={"checkpointId": ids[2], "parent": ids[1], "fileCount": 2}))
    await drone.acked(turn["_id"], 3)
    document = await user.get(f"/turns/{turn['_id']}")
    assert (document["checkpoint"], document["lastCheckpoint"]) == (ids[0], ids[2])
    ask = {"workspaceId": drone.workspace_id, "turnId": turn["_id"], "chatSessionId": turn["session"], "lastSeq": 3}
    await drone.call("requestCrashRecovery", ask)
    assert (await drone.until("crashRecoveryResponse"))["workOrder"]["resume"]["lastCheckpoint"] == ids[2]


async def test_a_slash_command_is_no_message_to_the_model(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    for content in ("/compact keep the plan", "Go on."):
        turn = await a_turn(user, session, content)
        await drone.order(turn["_id"])
        if content == "Go on.":
            break
        played = Played(turn)
        mark = {"kept": 0, "summary": "The plan."}
        await drone.send(played.event("compacted", compaction=mark, tokensBefore=10, tokensAfter=2))
        await drone.send(played.complete())
        await drone.acked(turn["_id"], 2)
        await drone.report("available")
    headers = {"Authorization": f"Bearer {drone.token}"}

    async def page() -> Any:
        answer = await user.http.get(f"/sessions/{session['_id']}/context", headers=headers)
        return answer.json() if answer.is_success else None

    items = (await until(page))["items"]
    assert [[message["role"] for message in item["messages"]] for item in items] == [["compaction"], ["user"]]
    assert items[0]["messages"][0]["summary"] == "The plan."


async def test_the_working_time_of_a_resumed_turn_excludes_waits(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    now = utc_now()
    at = {seconds: iso(now + timedelta(seconds=seconds)) for seconds in (-100, -90, -30)}
    await drone.send({**played.step(), "at": at[-100]})
    inquiry = an_inquiry(turn, createdAt=at[-90])
    await drone.send({**played.event("inquiryAsked", inquiry=inquiry), "at": at[-90]})
    await drone.acked(turn["_id"], 2)

    async def worked_ms() -> int:
        played.epoch += 1
        ask = {"workspaceId": drone.workspace_id, "turnId": turn["_id"], "chatSessionId": turn["session"]}
        await drone.call("requestCrashRecovery", {**ask, "lastSeq": played.seq})
        back = await drone.until("crashRecoveryResponse", lambda p: p["epoch"] == played.epoch)
        return int(back["workOrder"]["resume"]["workedMs"])

    assert await worked_ms() == 10_000  # what nobody saw it do is no work, and its wait is none
    said = {"inquiryId": inquiry["_id"], "status": "answered", "answer": {"choice": "once", "text": None}}
    await user.post(f"/inquiries/{inquiry['_id']}/answer", {"choice": "once"})
    await drone.send({**played.event("inquiryAnswered", answer=said), "at": at[-30]})
    await drone.acked(turn["_id"], 3)
    assert await worked_ms() == 10_000
    await drone.send({**played.response(), "at": iso(now + timedelta(seconds=1000))})
    await drone.acked(turn["_id"], 4)
    open_s = 90 + (
        datetime.fromisoformat((await user.get(f"/inquiries/{inquiry['_id']}"))["answeredAt"]) - now
    ) / timedelta(seconds=1)
    assert abs(await worked_ms() - (1100 - open_s) * 1000) <= 1


def test_overlapping_waits_count_once_and_working_time_is_never_negative() -> None:
    zero = utc_now()

    def waits(*pairs: tuple[float, float | None]) -> int:
        def moment(seconds: float) -> datetime:
            return zero + timedelta(seconds=seconds)

        spans = [(moment(begin), None if end is None else moment(end)) for begin, end in pairs]
        return worked_ms(zero, moment(100), spans)

    assert waits() == 100_000
    assert waits((10, 30), (20, 40)) == waits((20, 40), (10, 30)) == waits((10, 40), (20, 30)) == 70_000
    assert waits((90, None)) == waits((90, 500)) == 90_000
    assert waits((-50, 10)) == 90_000
    assert waits((-50, -10), (200, 300)) == 100_000
    assert waits((-50, 500), (10, 20)) == 0
    assert worked_ms(zero, zero - timedelta(seconds=5), []) == 0
