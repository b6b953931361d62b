"""A watcher gets everything after the event it names, in order and once, whenever it comes."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from tests.gadget_code.peers import Played, PlayedDrone, RawSocket, a_session, a_turn
from tests.harness import WAIT_S, Ide, User, Web, until

STREAM_S = 4 * WAIT_S


async def _finished(user: User, drone: PlayedDrone, turn: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The events of a turn that was played to its end."""
    played = Played(turn)
    for n in range(count):
        await drone.send(played.response(str(n)))
    await drone.send(played.complete())
    await drone.acked(turn["_id"], count + 1)
    await user.until_over(turn["_id"])
    await drone.report("available")
    return await user.events(turn["_id"])


async def test_a_stored_turn_is_replayed_from_every_cursor(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    stored = await _finished(user, drone, turn, 12)
    async with Ide(user) as ide:
        for seq in range(len(stored)):
            ide.received.clear()
            await ide.select(turn["session"], after=(turn["_id"], seq))
            await ide.until_complete(turn["_id"])
            assert ide.events(turn["_id"]) == stored[seq:]


async def test_a_watcher_that_is_up_to_date_gets_only_new_events(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    stored = await _finished(user, drone, turn, 3)
    async with Ide(user) as knows, Ide(user) as new, Ide(user) as odd:
        await knows.select(turn["session"], after=(turn["_id"], len(stored)))
        await new.select(turn["session"])
        # A cursor that nothing is behind: no error, no endless search, and the next turn is seen.
        await odd.select(turn["session"], after=("f" * 24, 7))
        second = await a_turn(user, {"_id": turn["session"]})
        order = await drone.order(second["_id"])
        await drone.send(Played(second, epoch=order["epoch"]).complete())
        for ide in (knows, new, odd):
            end = await ide.until_complete(second["_id"])
            assert ide.events(turn["_id"]) == []
            assert ide.events(second["_id"]) == [end]


async def test_the_reply_comes_before_the_replay(
    web: Web, user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await _finished(user, drone, turn, 5)
    async with RawSocket(web.url) as raw:
        await raw.sign_in({"token": user.token})
        for id in range(10, 30):
            raw.frames.clear()
            select = {"chatSessionId": turn["session"], "after": {"turnId": turn["_id"], "seq": 0}}
            reply = await raw.call("selectSession", select, id=id)
            assert reply["turns"][0]["_id"] == turn["_id"]
            await raw.until(lambda frame: '"workOrderComplete"' in frame)
            relevant = [frame for frame in raw.frames if not frame.startswith('42["droneStatus"')]
            assert relevant[0].startswith("43")


async def test_the_running_turn_is_seen_from_its_first_event(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    played = Played(turn)
    await drone.send(played.response("before"))
    await drone.acked(turn["_id"], 1)
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        await drone.send(played.complete())
        await ide.until_complete(turn["_id"])
        assert [event["seq"] for event in ide.events(turn["_id"])] == [1, 2]


async def test_a_requeued_turn_is_seen_from_its_first_event(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    await drone.send(Played(turn).response("before"))
    await drone.acked(turn["_id"], 1)
    drone.answers["processWorkOrder"] = {
        "ok": False,
        "error": {"code": "droneBusy", "message": "It works on something.", "retryable": True},
    }
    await drone.disconnect()
    await drone.connect()
    await drone.report("available")  # it has lost the turn, which is queued again

    async def waits() -> bool | None:
        document = await user.get(f"/turns/{turn['_id']}")
        return (document["status"] == "queued" and "works on something" in (document["statusReason"] or "")) or None

    await until(waits)
    async with Ide(user) as ide:
        await ide.select(turn["session"])
        await ide.until(lambda name, p: name == "response" and p["seq"] == 1)


async def test_watchers_that_join_a_fast_stream_see_every_event_once_and_in_order(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    count = 3000
    played = Played(turn)
    joined: list[tuple[int, Ide]] = []

    async def stream() -> None:
        for n in range(count):
            await drone.send(played.response(f"{n} " + "x" * 40))
            if n % 50 == 0:
                await drone.acked(turn["_id"], max(0, played.seq - 500))
        await drone.send(played.complete())

    async def join(stack: AsyncExitStack, after: int) -> None:
        await drone.acked(turn["_id"], after, STREAM_S)  # the last one waits for nearly all of it
        ide = await stack.enter_async_context(Ide(user))
        seq = after // 2
        await ide.select(turn["session"], after=(turn["_id"], seq))
        joined.append((seq, ide))

    async with AsyncExitStack() as stack, asyncio.timeout(STREAM_S):
        async with asyncio.TaskGroup() as group:
            group.create_task(stream())
            for after in range(1, count - 200, 250):
                group.create_task(join(stack, after))
        stored = await _all(user, turn["_id"], count + 1)
        for seq, ide in joined:
            await ide.until_complete(turn["_id"])
            assert [event["seq"] for event in ide.events(turn["_id"])] == list(range(seq + 1, count + 2))
            assert ide.events(turn["_id"]) == stored[seq:]


async def _all(user: User, turn: str, count: int) -> list[dict[str, Any]]:
    await user.until_over(turn)
    events = await user.events(turn)
    assert len(events) == count
    return events


async def test_a_watcher_that_joins_at_the_end_sees_the_end(user: User, drone: PlayedDrone) -> None:
    """The stream is let go of while the replay is under way: the race that loses a terminal event."""
    session = await a_session(user)
    for _ in range(15):
        turn = await a_turn(user, session)
        order = await drone.order(turn["_id"])
        played = Played(turn, epoch=order["epoch"])
        for _ in range(150):
            await drone.send(played.response("x" * 2000))
        async with AsyncExitStack() as stack:
            ides = [await stack.enter_async_context(Ide(user)) for _ in range(3)]
            await asyncio.gather(
                *(ide.select(session["_id"], after=(turn["_id"], 0)) for ide in ides), drone.send(played.complete())
            )
            for ide in ides:
                await ide.until_complete(turn["_id"])
                assert [event["seq"] for event in ide.events(turn["_id"])] == list(range(1, 152))
        await drone.acked(turn["_id"], 151)
        await drone.report("available")


async def test_selecting_another_session_ends_the_first_ones_events(
    user: User, drone: PlayedDrone, turn: dict[str, Any]
) -> None:
    other = await a_session(user)
    played = Played(turn)
    async with Ide(user) as ide, Ide(user) as witness:
        await ide.select(turn["session"])
        await witness.select(turn["session"])
        await drone.send(played.response())
        await ide.until(lambda name, _: name == "response")
        await ide.select(other["_id"])
        await drone.send(played.complete())
        await witness.until_complete(turn["_id"])
        assert [event["type"] for event in ide.events(turn["_id"])] == ["response"]
