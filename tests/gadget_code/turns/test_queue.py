"""The queue in another order: what is dispatched follows it, no prompt is lost or doubled, and old ids go on naming."""

import asyncio
import random
from typing import Any

import pytest

from gadget_api.errors import Conflict, GadgetError
from gadget_api.ids import new_id
from gadget_api.turn_states import DISPATCH
from gadget_api.turns import ChatTurn, ChatTurnStatus, Steer
from gadget_code.store.database import MongoStore
from gadget_code.store.queue import queue, reorder
from tests.gadget_code.peers import Played, PlayedDrone, a_session, a_turn, is_processing, problem
from tests.gadget_code.store.test_turns import turn
from tests.harness import Ide, User, Web


async def told(ide: Ide, turn: str) -> list[str]:
    """The ids that a page has heard a turn had before."""
    _, payload = await ide.until(lambda name, payload: name == "turnStatus" and payload["turn"]["_id"] == turn)
    former: list[str] = payload["turn"]["formerIds"]
    return former


async def queued(store: MongoStore, names: str) -> list[ChatTurn]:
    return [await store.turns.insert(turn(prompt_id=name), begunBy=name) for name in names]


async def order(store: MongoStore) -> str:
    return "".join(waiting.prompt_id for waiting in await queue(store.turns, "u", "s"))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("abcd", "abcd"), ("dcba", "dcba"), ("c", "cabd"), ("acb", "acbd"), ("xdx", "dabc"), ("aab", "abcd")],
)
async def test_named_prompts_come_first_and_unknown_ones_are_ignored(
    store: MongoStore, wanted: str, expected: str
) -> None:
    before = await queued(store, "abcd")
    moved = await reorder(store.turns, "u", "s", wanted)
    assert await order(store) == expected
    same = next((n for n in range(4) if expected[n] != "abcd"[n]), 4)
    assert [one.prompt_id for one in moved] == list(expected[same:])
    # What stands where it stood has its id; the others answer to the one that they had.
    for one in before:
        now = await store.turns.owned("u", one.id)
        assert now.prompt_id == one.prompt_id
        assert (now.id == one.id) is (one.prompt_id in expected[:same])
        assert now.former_ids == (() if now.id == one.id else (one.id,))
        assert now.replace(id=one.id, former_ids=()) == one


async def test_reordering_without_a_queued_prompt_is_a_conflict(store: MongoStore) -> None:
    await queued(store, "ab")
    with pytest.raises(Conflict, match="None of these prompts waits"):
        await reorder(store.turns, "u", "s", ["x"])


async def test_a_requeued_turn_stays_first(store: MongoStore) -> None:
    first = await store.turns.insert(turn(prompt_id="a", last_seq=3))
    await queued(store, "bc")
    await reorder(store.turns, "u", "s", "cba")
    assert await order(store) == "acb"
    assert (await store.turns.owned("u", first.id)).former_ids == ()


async def test_steers_and_store_fields_move_with_the_prompt(store: MongoStore) -> None:
    _, b = await queued(store, "ab")
    await store.turns.add_steer(b, Steer(steer_id="s1", content="And this."))
    [moved, _] = await reorder(store.turns, "u", "s", "b")
    assert [steer.steer_id for steer in moved.steers] == ["s1"]
    document = await store.turns.collection.find_one({"_id": moved.id})
    assert document is not None
    assert document["store"]["begunBy"] == "b"
    again, is_new = await store.turns.submit(turn(prompt_id="b"), await store.turns.newest("s"))
    assert (again.id, is_new) == (moved.id, False)


async def test_reordering_under_load_loses_and_doubles_nothing(store: MongoStore) -> None:
    chance = random.Random(5)
    names = [chr(ord("a") + n) for n in range(12)]
    await queued(store, "".join(names[:8]))
    ran: list[ChatTurn] = []

    async def dispatch() -> None:
        """As the dispatcher: the first that it sees waiting, or it looks again."""
        while len(ran) < len(names):
            seen = await queue(store.turns, "u", "s")
            if seen:
                started = await store.turns.move(seen[0], DISPATCH, ChatTurnStatus.PROCESSING, {})
                ran.extend([started] if started is not None else [])
            await asyncio.sleep(0)

    async def shuffle() -> None:
        while len(ran) < len(names):
            try:
                await reorder(store.turns, "u", "s", chance.sample(names, len(names)))
            except GadgetError:
                assert len(ran) < len(names) or not await order(store)
            await asyncio.sleep(0.002)

    async def add() -> None:
        for name in names[8:]:
            await store.turns.submit(turn(prompt_id=name), await store.turns.newest("s"))
            await asyncio.sleep(0.01)

    async with asyncio.timeout(30):
        await asyncio.gather(dispatch(), shuffle(), add())
    assert sorted(one.prompt_id for one in ran) == names
    # Ids are the order in which they ran: the history of each has those that ran before it.
    assert [one.id for one in ran] == sorted(one.id for one in ran)
    assert await store.turns.collection.count_documents({"session": "s"}) == len(names)


async def test_the_dispatcher_follows_the_order_and_every_client_is_notified(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    running = await a_turn(user, session, "First.")
    at_work = await is_processing(user, running["_id"])
    await drone.order(running["_id"])
    waiting = [await a_turn(user, session, content) for content in ("a", "b", "c")]
    path = f"/sessions/{session['_id']}/queue"
    async with Ide(user) as ide:
        wanted = [waiting[2]["promptId"], waiting[0]["promptId"]]
        answer = await user.http.put(path, json={"prompts": wanted})
        items: list[dict[str, Any]] = answer.json()["items"]
        assert [item["prompts"]["user"] for item in items] == ["c", "a", "b"]
        assert await user.get(path) == {"items": items}
        for item in items:
            assert await told(ide, item["_id"]) == item["formerIds"] != []
    # The id that it had still names it: to look at, and to withdraw.
    assert (await user.get(f"/turns/{waiting[0]['_id']}"))["_id"] == items[1]["_id"]
    await user.post(f"/turns/{waiting[1]['_id']}/cancel", {})
    assert (await user.get(f"/turns/{items[2]['_id']}"))["status"] == "cancelled"
    played = Played(at_work, epoch=at_work["epoch"])
    await drone.send(played.step())
    await drone.send(played.complete())
    await drone.acked(running["_id"], played.seq)
    await drone.report("available")
    order = await drone.order(items[0]["_id"])
    assert order["prompt"] == "c"
    assert order["afterTurn"] == running["_id"]


async def test_another_users_queue_is_not_found(web: Web, user: User) -> None:
    session = await a_session(user)
    async with await web.user("eve") as eve:
        path = f"/sessions/{session['_id']}/queue"
        problem(await eve.http.get(path), 404, "notFound")
        problem(await eve.http.put(path, json={"prompts": [new_id()]}), 404, "notFound")
    problem(await user.http.put(path, json={"prompts": [new_id()]}), 409, "turnNotRunning")
    problem(await user.http.put(path, json={"prompts": []}), 422, "invalidRequest")
