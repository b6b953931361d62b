"""What becomes of a turn when its drone is lost, comes back, comes back without it, or is given up."""

from typing import Any

from pymongo import AsyncMongoClient

from gadget_api.ids import new_id
from gadget_api.model import utc_now
from tests.gadget_code.peers import Played, PlayedDrone, a_session, a_turn, is_processing
from tests.harness import Ide, User, until


async def waits(user: User, turn: str, waiting: str | None, timeout: float = 5.0) -> dict[str, Any]:
    async def does() -> dict[str, Any] | None:
        document: dict[str, Any] = await user.get(f"/turns/{turn}")
        return document if document["waiting"] == waiting else None

    found: dict[str, Any] = await until(does, timeout)
    return found


async def ordered(drone: PlayedDrone, turn: str, epoch: int) -> dict[str, Any]:
    payload = await drone.until("processWorkOrder", lambda p: p["workOrder"]["epoch"] == epoch)
    order: dict[str, Any] = payload["workOrder"]
    assert order["turn"]["_id"] == turn
    return order


def steers_of(drone: PlayedDrone) -> list[str]:
    """The messages the drone heard of, in the order of their coming. The sweep brings those again which wait."""
    return list(dict.fromkeys(payload["steerId"] for name, payload in drone.received if name == "steerTurn"))


async def test_a_turn_reports_that_its_drone_is_lost_and_has_reconnected(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await drone.disconnect()
    lost = await waits(user, turn["_id"], "droneLost")
    assert lost["status"] == "processing"
    assert "cancel it, or continue on another drone" in lost["statusReason"]
    await drone.connect()
    await drone.report("busy")
    back = await waits(user, turn["_id"], None)
    assert (back["statusReason"], back["epoch"]) == (None, 1)


async def test_a_lost_drones_turn_continues_on_another_drone_with_a_note(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    await drone.send(played.step(inputTokens=7))
    await drone.acked(turn["_id"], 1)
    async with PlayedDrone(user, "other") as other:
        busy = await user.http.post(f"/turns/{turn['_id']}/continue", json={})
        assert (busy.status_code, busy.json()["code"]) == (409, "droneBusy")
        await drone.disconnect()
        await waits(user, turn["_id"], "droneLost")
        await user.post(f"/turns/{turn['_id']}/continue", {})
        order = await ordered(other, turn["_id"], 3)
        assert order["resume"] == {**order["resume"], "ackedSeq": 1}
        assert order["resume"]["stats"]["inputTokens"] == 7
        [note] = order["steers"]
        assert note["origin"] == "service"
        assert "another workspace" in note["content"]
        on = Played(turn, epoch=3, seq=1)
        await other.send(on.event("steered", steerId=note["steerId"], content=note["content"], origin="service"))
        await other.acked(turn["_id"], 2)
        # The one that was lost comes back, and is told that it is not its turn any more.
        await drone.connect()
        await drone.send(played.response("late"))
        assert (await drone.until("turnRevoked"))["turnId"] == turn["_id"]
        ask = {
            "workspaceId": drone.workspace_id,
            "turnId": turn["_id"],
            "chatSessionId": turn["session"],
            "lastSeq": 2,
        }
        assert (await drone.call("requestCrashRecovery", ask))["ok"]
        assert (await drone.until("crashRecoveryResponse"))["action"] == "discard"
        await other.send(on.complete())
        over = await user.until_over(turn["_id"])
    assert (over["status"], over["drone"], over["workspaceId"], over["steers"]) == (
        "finished",
        other.id,
        other.workspace_id,
        [],
    )
    assert (await user.get(f"/sessions/{turn['session']}"))["workspaceId"] == other.workspace_id


async def test_a_turn_continues_on_the_chosen_drone(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    session = turn["session"]
    async with PlayedDrone(user, "b") as b, PlayedDrone(user, "c") as c, Ide(user) as ide:
        lock = {"chatSessionId": session, "droneId": drone.id}
        assert (await ide.call("requestSessionLock", lock))["ok"]
        await drone.disconnect()
        await waits(user, turn["_id"], "droneLost")
        to_itself = await ide.call("continueTurn", {"turnId": turn["_id"], "droneId": drone.id})
        assert to_itself["error"]["code"] == "invalidRequest"
        to_nobody = await ide.call("continueTurn", {"turnId": turn["_id"], "droneId": new_id()})
        assert to_nobody["error"]["code"] == "notFound"
        assert (await ide.call("continueTurn", {"turnId": turn["_id"], "droneId": c.id}))["ok"]
        await ordered(c, turn["_id"], 3)
        document = await user.get(f"/sessions/{session}")
        assert (document["drone"], document["lock"]) == (c.id, None)
        again = await ide.call("continueTurn", {"turnId": turn["_id"], "droneId": b.id})
        assert again["error"]["code"] == "droneBusy"
        assert b.count("processWorkOrder") == 0


async def test_a_turn_that_waits_or_is_over_is_not_moved(user: User) -> None:
    waiting = await a_turn(user, await a_session(user))
    answer = await user.http.post(f"/turns/{waiting['_id']}/continue", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "turnNotRunning")
    await user.post(f"/turns/{waiting['_id']}/cancel", {})
    answer = await user.http.post(f"/turns/{waiting['_id']}/continue", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "turnOver")


async def test_a_drone_that_reconnects_without_its_turn_gets_it_again(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await drone.send(Played(turn).step())
    await drone.acked(turn["_id"], 1)
    await drone.disconnect()
    await drone.connect()
    await drone.report("available")
    order = await ordered(drone, turn["_id"], 3)
    assert order["resume"]["ackedSeq"] == 1


async def test_an_idle_workspace_is_reported_in_any_order_of_reports(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    begin = {"turnId": turn["_id"], "epoch": 1}
    assert (await drone.call("beginTurn", begin))["ok"]
    await drone.send(Played(turn).complete())
    await user.until_over(turn["_id"])
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        await drone.report("available")
        assert (await drone.call("requestWorkspaceMode", {"mode": "idle"}))["ok"]
        await ide.until(lambda name, p: name == "droneStatus" and p["drone"]["workspaceMode"] == "idle")


async def test_a_drone_that_took_an_offer_too_late_may_not_begin(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    begin = {"turnId": turn["_id"], "epoch": 1}
    assert (await drone.call("beginTurn", begin))["ok"]
    late = await drone.call("beginTurn", {**begin, "epoch": 2})
    assert late["error"]["code"] == "staleEpoch"
    async with PlayedDrone(user, "other") as other:
        assert (await other.call("beginTurn", begin))["error"]["code"] == "staleEpoch"
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "Briefly.", "steerId": "s"})
    drone.received.clear()
    assert (await drone.call("beginTurn", begin))["ok"]
    assert (await drone.until("steerTurn"))["content"] == "Briefly."
    await user.post(f"/turns/{turn['_id']}/cancel", {})
    await user.until_over(turn["_id"], 10)
    assert (await drone.call("beginTurn", begin))["error"]["code"] == "staleEpoch"


async def test_an_offer_that_was_lost_with_its_connection_is_repeated_at_once(user: User, drone: PlayedDrone) -> None:
    drone.answers["processWorkOrder"] = None
    turn = await a_turn(user, await a_session(user))
    await drone.order(turn["_id"])
    await drone.disconnect()
    del drone.answers["processWorkOrder"]
    await drone.connect()
    await drone.report("available")
    await is_processing(user, turn["_id"])
    await until(lambda: _count(drone, "processWorkOrder", 2), 12)


async def _count(drone: PlayedDrone, event: str, least: int) -> bool | None:
    return True if drone.count(event) >= least else None


async def _heard(drone: PlayedDrone, least: int) -> bool | None:
    return True if len(steers_of(drone)) >= least else None


async def test_the_service_ends_a_cancelled_turn_that_its_drone_does_not_end(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        await user.post(f"/turns/{turn['_id']}/cancel", {})
        assert (await user.get(f"/turns/{turn['_id']}"))["waiting"] == "cancel"
        end = await ide.until_complete(turn["_id"], 10)
    assert (end["status"], end["epoch"]) == ("cancelled", 2)
    await drone.send(Played(turn).complete())
    assert (await drone.until("turnRevoked"))["code"] == "turnOver"
    assert await user.events(turn["_id"]) == [end]


async def test_a_steer_is_sent_after_each_reconnect_until_the_model_has_it(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    for steer in ("s1", "s2", "s1"):
        await user.post(f"/turns/{turn['_id']}/steer", {"content": f"Say {steer}.", "steerId": steer})
    await until(lambda: _heard(drone, 2))
    assert steers_of(drone) == ["s1", "s2"]
    await drone.send(played.event("steered", steerId="s1", content="Say s1."))
    await drone.acked(turn["_id"], 1)
    await drone.disconnect()
    drone.received.clear()
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "Say s3.", "steerId": "s3"})
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "Say s1.", "steerId": "s1"})
    await drone.connect()
    await drone.report("busy")
    await until(lambda: _heard(drone, 2))
    assert steers_of(drone) == ["s2", "s3"]
    assert [steer["steerId"] for steer in (await user.get(f"/turns/{turn['_id']}"))["steers"]] == ["s2", "s3"]
    drone.received.clear()
    ask = {"workspaceId": drone.workspace_id, "turnId": turn["_id"], "chatSessionId": turn["session"], "lastSeq": 1}
    assert (await drone.call("requestCrashRecovery", ask))["ok"]
    answer = await drone.until("crashRecoveryResponse")
    assert [steer["steerId"] for steer in answer["workOrder"]["steers"]] == ["s2", "s3"]


async def test_a_steer_after_the_last_step_becomes_the_next_prompt(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    drone.answers["steerTurn"] = {"ok": False, "error": {"code": "notFound", "message": "Over.", "retryable": False}}
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "And in French?", "steerId": "late"})
    await drone.send(Played(turn).complete())
    await user.until_over(turn["_id"])

    async def following() -> dict[str, Any] | None:
        turns = (await user.get(f"/sessions/{turn['session']}/turns"))["items"]
        return turns[0] if len(turns) == 2 else None

    found = await until(following)
    assert found["prompts"]["user"] == "And in French?"

    async def has_left_the_turn() -> bool | None:  # a write or two after the prompt is there
        return (await user.get(f"/turns/{turn['_id']}"))["steers"] == [] or None

    await until(has_left_the_turn)
    # Who did not hear that it was accepted and says it again, says nothing new.
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "And in French?", "steerId": "late"})
    assert len((await user.get(f"/sessions/{turn['session']}/turns"))["items"]) == 2


async def test_a_steer_with_the_id_of_a_prompt_is_not_lost(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "Another.", "steerId": turn["promptId"]})
    failed = {"success": False, "status": "error", "error": {"code": "modelAuth", "message": "No.", "retryable": False}}
    await drone.send(Played(turn).complete(**failed))

    async def following() -> bool | None:
        turns = (await user.get(f"/sessions/{turn['session']}/turns"))["items"]
        return True if [found["prompts"]["user"] for found in turns] == ["Another.", "Go on."] else None

    await until(following)


async def test_the_number_of_queued_prompts_is_limited(user: User) -> None:
    session = await a_session(user)
    path = f"/sessions/{session['_id']}/turns"
    for n in range(100):
        await user.post(path, {"content": "x", "promptId": f"p{n}"})
    refused = await user.http.post(path, json={"content": "x", "promptId": "one more"})
    assert (refused.status_code, refused.json()["code"]) == (429, "rateLimited")
    assert (await user.http.post(path, json={"content": "x", "promptId": "p7"})).is_success


async def test_the_drone_of_a_turn_that_is_ended_is_told(
    user: User, drone: PlayedDrone, turn: dict[str, Any], mongodb_url: str
) -> None:
    """As after an outage of the database: its lease has run out, and its connection stands."""
    client: AsyncMongoClient[dict[str, Any]]
    async with AsyncMongoClient(mongodb_url) as client:
        for name in {*await client.list_database_names()} - {"admin", "config", "local"}:
            await client[name].drones.update_one({"_id": drone.id}, {"$set": {"store.leaseUntil": utc_now()}})
        await user.post(f"/turns/{turn['_id']}/cancel", {})
    revoked = await drone.until("turnRevoked")
    assert (revoked["turnId"], revoked["code"]) == (turn["_id"], "turnOver")
    assert (await user.get(f"/turns/{turn['_id']}"))["status"] == "cancelled"


async def test_a_steer_to_a_queued_turn_is_in_its_first_order(user: User, drone: PlayedDrone) -> None:
    await drone.report("busy")
    turn = await a_turn(user, await a_session(user))
    await user.post(f"/turns/{turn['_id']}/steer", {"content": "Briefly.", "steerId": "s"})
    await drone.report("available")
    order = await drone.order(turn["_id"])
    assert [(steer["steerId"], steer["content"]) for steer in order["steers"]] == [("s", "Briefly.")]


async def test_too_many_and_too_large_steers_are_refused(user: User, drone: PlayedDrone, turn: dict[str, Any]) -> None:
    path = f"/turns/{turn['_id']}/steer"
    large = await user.http.post(path, json={"content": "x" * 32_001})
    assert (large.status_code, large.json()["code"]) == (413, "tooLarge")
    codes = [(await user.http.post(path, json={"content": "x"})).status_code for _ in range(17)]
    assert codes == [200] * 16 + [429]
