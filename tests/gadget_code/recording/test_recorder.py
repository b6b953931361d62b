"""Taking a drone's events: each once, in order, from the drone that has the turn, under its present epoch."""

import asyncio
from typing import Any

from gadget_api.ids import new_id
from tests.gadget_code.peers import Played, PlayedDrone, a_session, a_turn, is_processing
from tests.harness import Ide, User


async def test_a_work_order_has_all_that_a_drone_needs(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    order = await drone.order(turn["_id"])
    project = await user.get(f"/projects/{turn['project']}")
    assert order["epoch"] == turn["epoch"] == 1
    assert order["project"] == {key: project[key] for key in ("_id", "name", "slug", "gitUrl")}
    assert order["provider"]["modelId"] == "scripted"
    assert order["provider"]["price"] == {"input": 1.0, "cachedInput": 0.5, "output": 10.0}
    assert (order["prompt"], order["afterTurn"], order["resume"]) == ("Go on.", None, None)


async def test_events_of_a_drone_are_stored_relayed_and_acknowledged(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        events = [
            played.response("Hé\u0000llo €\U0001f600\u2028"),
            played.tool_call(),
            played.step(inputTokens=100, cachedInputTokens=40, responseTokens=10, thinkingTokenCount=4),
            played.complete(),
        ]
        for event in events:
            await drone.send(event)
        await ide.until_complete(turn["_id"])
        assert ide.events(turn["_id"]) == events
    await drone.acked(turn["_id"], 4)
    assert await user.events(turn["_id"]) == events
    document = await user.until_over(turn["_id"])
    assert document["stats"] == {
        "stepCount": 1,
        "toolCallCount": 1,
        "inputTokens": 100,
        "cachedInputTokens": 40,
        "thinkingTokenCount": 4,
        "responseTokens": 10,
        "cost": 0.00018,
        "durationMs": 125_000,
        "durationLabel": "2m 05s",
    }
    assert (document["thinking"], document["response"], document["status"]) == ("hm", "Hello.", "finished")
    assert document["lastSeq"] == 4
    steps = (await user.get(f"/turns/{turn['_id']}/steps"))["items"]
    assert steps == events[1:3]


async def test_a_repeat_is_dropped_and_acknowledged(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    played = Played(turn)
    first = played.response("first")
    await drone.send(first)
    await drone.acked(turn["_id"], 1)
    acks = drone.count("turnAck")
    await drone.send({**first, "content": "another"})
    await drone.send(played.response("second"))
    await drone.acked(turn["_id"], 2)
    assert drone.count("turnAck") == acks + 2
    assert [event["content"] for event in await user.events(turn["_id"])] == ["first", "second"]


async def test_a_gap_is_requested_once_and_later_events_wait(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    events = [played.response(str(n)) for n in range(6)]
    for event in (events[0], *events[3:]):
        await drone.send(event)
    resend = await drone.until("turnResend")
    assert resend == {"turnId": turn["_id"], "afterSeq": 1}
    for event in events[1:]:
        await drone.send(event)
    await drone.acked(turn["_id"], 6)
    assert drone.count("turnResend") == 1
    assert await user.events(turn["_id"]) == events


async def test_events_of_an_older_epoch_are_revoked(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    await drone.send(Played(turn).response("old"))
    await drone.acked(turn["_id"], 1)
    ask = {
        "workspaceId": drone.workspace_id,
        "turnId": turn["_id"],
        "chatSessionId": turn["session"],
        "lastSeq": 1,
    }
    assert (await drone.call("requestCrashRecovery", ask))["ok"]
    answer = await drone.until("crashRecoveryResponse")
    assert (answer["action"], answer["epoch"], answer["ackedSeq"]) == ("resume", 2, 1)
    assert answer["workOrder"]["resume"]["ackedSeq"] == 1
    await drone.send(Played(turn, epoch=1, seq=1).response("late"))
    revoked = await drone.until("turnRevoked")
    assert (revoked["turnId"], revoked["code"]) == (turn["_id"], "staleEpoch")
    await drone.send(Played(turn, epoch=2, seq=1).response("new"))
    await drone.acked(turn["_id"], 2)
    assert [(e["epoch"], e["content"]) for e in await user.events(turn["_id"])] == [(1, "old"), (2, "new")]


async def test_an_unknown_epoch_is_revoked_without_harm_to_the_stream(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    first, second = played.response("first"), played.response("second")
    await drone.send(first)
    await drone.send(Played(turn, epoch=9, seq=1).response("from the future"))
    await drone.until("turnRevoked")
    await drone.send(second)
    await drone.acked(turn["_id"], 2)
    assert await user.events(turn["_id"]) == [first, second]


async def test_another_drones_turn_is_revoked_and_stays_untouched(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    async with PlayedDrone(user, "other") as other:
        await other.send(Played(turn).response("not mine"))
        assert (await other.until("turnRevoked"))["code"] == "notFound"
        await drone.send(Played(turn).response("mine"))
        await drone.acked(turn["_id"], 1)
        await other.send(Played(turn, seq=1).response("not mine"))
        await other.until("turnRevoked")
    assert [event["content"] for event in await user.events(turn["_id"])] == ["mine"]


async def test_an_unknown_turn_and_a_wrong_session_are_revoked(drone: PlayedDrone, turn: dict[str, Any]) -> None:
    await drone.send(Played({**turn, "_id": new_id()}).response())
    await drone.send(Played({**turn, "session": new_id()}).response())
    await drone.until("turnRevoked", lambda p: p["turnId"] == turn["_id"])
    assert drone.count("turnRevoked") == 2


async def test_an_end_that_is_sent_again_is_acknowledged_again(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    end = Played(turn).complete()
    await drone.send(end)
    await drone.acked(turn["_id"], 1)
    await user.until_over(turn["_id"])
    await drone.disconnect()
    drone.received.clear()
    await drone.connect()
    await drone.send(end)
    await drone.acked(turn["_id"], 1)
    assert await user.events(turn["_id"]) == [end]
    # But nothing comes after an end.
    await drone.send(Played(turn, seq=1).response("more"))
    assert (await drone.until("turnRevoked"))["code"] == "turnOver"


async def test_a_watcher_sees_one_end_however_often_it_is_sent(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    end = played.complete()
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        for _ in range(3):
            await drone.send(end)
            await drone.acked(turn["_id"], 1)
            drone.received.clear()
        following = await a_turn(user, {"_id": turn["session"]})
        await drone.report("available")
        await is_processing(user, following["_id"])
        await drone.send(Played(following).complete())
        await ide.until_complete(following["_id"])  # what was relayed before it has come
        assert ide.events(turn["_id"]) == [end]


async def test_an_invalid_event_is_refused_and_the_stream_continues(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    good = played.response()
    for bad in (
        {**good, "seq": 0},
        {**good, "content": None},
        {**good, "extra": 1},
        {**good, "type": "step"},
        {key: value for key, value in good.items() if key != "turnId"},
        "text",
        [good],
    ):
        reply = await drone.call("response", bad)
        assert reply["error"]["code"] == "invalidRequest", bad
    too_many = {"inputTokens": 2**60}
    reply = await drone.call("step", {**Played(turn).step(), "usage": too_many})
    assert reply["ok"] is False
    await drone.send(good)
    await drone.acked(turn["_id"], 1)
    assert await user.events(turn["_id"]) == [good]


async def test_a_turn_shows_its_lost_drone_and_continues_when_it_reconnects(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        await drone.disconnect()
        _, lost = await ide.until(lambda n, p: n == "turnStatus" and "lost" in (p["turn"]["statusReason"] or ""))
        assert lost["turn"]["status"] == "processing"
        _, gone = await ide.until(lambda n, p: n == "droneStatus" and p["drone"]["status"] == "offline")
        assert gone["drone"]["_id"] == drone.id
        await drone.connect()
        await drone.report("busy")
        played = Played(turn)
        await drone.send(played.response())
        await drone.send(played.complete())
        await ide.until_complete(turn["_id"])
    assert (await user.until_over(turn["_id"]))["status"] == "finished"


async def test_cancelling_a_turn_twice_succeeds(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    drone.answers["cancelTurn"] = None
    await asyncio.gather(*(user.post(f"/turns/{turn['_id']}/cancel", {}) for _ in range(3)))
    assert (await user.get(f"/turns/{turn['_id']}"))["status"] == "cancelled"
    assert [event["type"] for event in await user.events(turn["_id"])] == ["workOrderComplete"]


async def test_a_turn_that_waits_is_cancelled_with_one_last_event(user: User) -> None:
    session = await a_session(user)
    turn = await a_turn(user, session)
    async with Ide(user) as ide:
        await ide.select(session["_id"])
        assert (await ide.call("cancelTurn", {"turnId": turn["_id"]}))["ok"]
        end = await ide.until_complete(turn["_id"])
        again = await ide.call("cancelTurn", {"turnId": turn["_id"]})
    assert again["error"]["code"] == "turnOver"
    assert (end["status"], end["seq"]) == ("cancelled", 1)
    assert await user.events(turn["_id"]) == [end]
    document = await user.get(f"/turns/{turn['_id']}")
    assert (document["status"], document["lastSeq"], document["epoch"]) == ("cancelled", 1, end["epoch"])
    assert document["stats"]["durationLabel"] != "pending"


async def test_a_turn_of_an_offline_drone_is_cancelled_at_once(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await drone.send(Played(turn).response())
    await drone.acked(turn["_id"], 1)
    await drone.disconnect()
    await drone.until_offline()
    async with asyncio.timeout(2):
        await user.post(f"/turns/{turn['_id']}/cancel", {})
    events = await user.events(turn["_id"])
    assert [event["type"] for event in events] == ["response", "workOrderComplete"]
    assert [event["seq"] for event in events] == [1, 2]
    # The drone that comes back late is told, and changes nothing.
    await drone.connect()
    await drone.send(Played(turn, seq=1).response("late"))
    assert (await drone.until("turnRevoked"))["turnId"] == turn["_id"]
    assert await user.events(turn["_id"]) == events


async def test_cancelling_during_a_stream_leaves_one_end_and_no_gap(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    """The drone says it knows no such turn and streams on all the same."""
    drone.answers["cancelTurn"] = {
        "ok": False,
        "error": {"code": "notFound", "message": "There is no such turn.", "retryable": False},
    }
    played = Played(turn)

    async def stream() -> None:
        while not drone.count("turnRevoked"):
            await drone.send(played.response("x" * 100))
            await drone.acked_or_revoked(turn["_id"], played.seq - 50)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(stream())
        await drone.acked(turn["_id"], 20)
        await user.post(f"/turns/{turn['_id']}/cancel", {})
    document = await user.until_over(turn["_id"])
    events = await user.events(turn["_id"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events].count("workOrderComplete") == 1
    assert events[-1]["type"] == "workOrderComplete"
    assert document["status"] == "cancelled"


async def test_turns_of_a_session_are_dispatched_one_after_the_other(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    turns = [await a_turn(user, session, f"Turn {n}.") for n in range(3)]
    for turn in turns:
        order = await drone.order(turn["_id"])
        assert drone.count("processWorkOrder") == turns.index(turn) + 1
        await drone.send(Played(turn, epoch=order["epoch"]).complete())
        await drone.acked(turn["_id"], 1)
        await drone.report("available")
    orders = [payload["workOrder"] for name, payload in drone.received if name == "processWorkOrder"]
    assert [order["afterTurn"] for order in orders] == [None, turns[0]["_id"], turns[1]["_id"]]


async def test_an_event_that_stays_invalid_ends_its_turn(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    played = Played(turn)
    await drone.send(played.response())
    await drone.acked(turn["_id"], 1)
    bad = played.response(unheard="of")
    await drone.call("response", bad)
    assert (await drone.until("turnResend"))["afterSeq"] == 1
    await drone.call("response", bad)
    assert (await drone.until("turnRevoked"))["code"] == "turnOver"
    over = await user.until_over(turn["_id"])
    assert (over["status"], over["error"]["code"], over["lastSeq"]) == ("error", "invalidRequest", 2)
    assert [event["type"] for event in await user.events(turn["_id"])] == ["response", "workOrderComplete"]


async def test_a_drone_that_refuses_gets_the_turn_again_when_it_is_free(user: User, drone: PlayedDrone) -> None:
    drone.answers["processWorkOrder"] = {
        "ok": False,
        "error": {"code": "droneBusy", "message": "It works on something.", "retryable": True},
    }
    session = await a_session(user)
    async with Ide(user) as ide:
        await ide.select(session["_id"])
        turn = await a_turn(user, session)
        await ide.until(lambda n, p: n == "turnStatus" and "works on something" in (p["turn"]["statusReason"] or ""))
    del drone.answers["processWorkOrder"]
    await drone.report("available")
    running = await is_processing(user, turn["_id"])
    order = await drone.until("processWorkOrder", lambda p: p["workOrder"]["epoch"] == running["epoch"])
    assert order["workOrder"]["workOrderId"] == (await drone.order(turn["_id"]))["workOrderId"]
