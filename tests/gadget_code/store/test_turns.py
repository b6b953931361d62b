"""Turns: their events and what those add up to are one write; their status changes by the table alone."""

import asyncio
import itertools
from typing import Any

import pytest

from gadget_api.events import WorkOrderComplete
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.turn_states import COMPLETE, DISPATCH, END, MOVE, RECOVER, REFUSE, REQUEUE, TRANSITIONS, Transition
from gadget_api.turns import MAX_STEERS, ChatTurn, ChatTurnStatus, Prompts, Steer, TurnStats, Waiting
from gadget_code.recording.projection import after_event
from gadget_code.store.database import MongoStore
from gadget_code.store.events import StoredEvent


def turn(**fields: Any) -> ChatTurn:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "session": "s", "project": "p", "provider": "v"}
    more = {"llm": "m", "mode": "build", "status": "queued", "prompt_id": new_id(), "prompts": Prompts(user="Go on.")}
    return ChatTurn.model_validate({**base, **more, **fields})


def deltas(*seqs: int) -> list[StoredEvent]:
    return [StoredEvent(seq, 1, "response", "{}") for seq in seqs]


def complete(of: ChatTurn, *, epoch: int, status: ChatTurnStatus = ChatTurnStatus.FINISHED) -> WorkOrderComplete:
    head = {"turn_id": of.id, "chat_session_id": of.session, "epoch": epoch, "seq": of.last_seq + 1, "at": utc_now()}
    return WorkOrderComplete.model_validate({**head, "success": True, "message": "", "status": status, "stats": {}})


async def stored(store: MongoStore, of: ChatTurn) -> list[int]:
    return [
        event.seq async for event in store.events.replay(of.id, 0, up_to=(await store.turns.owned("u", of.id)).last_seq)
    ]


async def test_a_group_of_events_and_the_updated_turn_are_stored_atomically(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    after = made.replace(last_seq=2, response="Hello.", stats=TurnStats(input_tokens=5))
    assert await store.record(made, deltas(1, 2), after, [])
    now = await store.turns.owned("u", made.id)
    assert (now.last_seq, now.response, now.stats.input_tokens) == (2, "Hello.", 5)
    for late in (made, after.replace(epoch=2), after.replace(status=ChatTurnStatus.QUEUED)):
        assert not await store.record(late, deltas(3), late.replace(last_seq=3, response="Late."), [])
    assert await store.turns.owned("u", made.id) == now
    assert await stored(store, made) == [1, 2]


async def test_one_of_two_processes_that_store_the_next_events_succeeds(store: MongoStore) -> None:
    at = await store.turns.insert(turn(status="processing", epoch=1))
    for n in range(10):
        seqs = (n * 2 + 1, n * 2 + 2)
        after = at.replace(last_seq=seqs[-1])
        done = await asyncio.gather(*(store.record(at, deltas(*seqs), after, []) for _ in range(4)))
        assert sorted(done) == [False, False, False, True]
        at = after
    assert await stored(store, at) == list(range(1, 21))


async def test_an_interrupted_write_blocks_nobody_and_leaves_nothing_half_done(store: MongoStore) -> None:
    for n in range(40):
        made = await store.turns.insert(turn(status="processing", epoch=1))
        writing = asyncio.create_task(store.record(made, deltas(1), made.replace(last_seq=1), []))
        await asyncio.sleep(n * 0.0002)
        writing.cancel()
        await asyncio.wait([writing])
        async with asyncio.timeout(5):
            while True:  # what was on its way to the server may still arrive: then the turn has it
                now = await store.turns.owned("u", made.id)
                if await store.record(now, deltas(now.last_seq + 1), now.replace(last_seq=now.last_seq + 1), []):
                    break
        assert await stored(store, made) == list(range(1, now.last_seq + 2))


async def test_concurrent_changes_of_other_fields_are_kept(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    steers = [Steer(steer_id=f"s{n}", content=f"{n}") for n in range(10)]
    at = made

    async def record() -> None:
        nonlocal at
        for seq in range(1, 11):
            after = at.replace(last_seq=seq)
            assert await store.record(at, deltas(seq), after, [])
            at = after

    await asyncio.gather(record(), *(store.turns.add_steer(made, steer) for steer in steers))
    now = await store.turns.owned("u", made.id)
    assert {steer.steer_id for steer in now.steers} == {steer.steer_id for steer in steers}
    assert now.last_seq == 10


@pytest.mark.parametrize("status", [status for status in ChatTurnStatus if status.is_over])
async def test_the_status_and_the_last_event_of_a_turn_are_stored_together(
    store: MongoStore, status: ChatTurnStatus
) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1, waiting="droneLost", status_reason="Lost."))
    event = complete(made, epoch=1, status=status)
    assert await store.record(made, [StoredEvent(1, 1, event.type, "{}")], after_event(made, event, None), [])
    now = await store.turns.owned("u", made.id)
    assert (now.status, now.last_seq, now.waiting, now.status_reason) == (status, 1, None, None)
    with pytest.raises(AssertionError):  # nothing follows it
        await store.record(now, deltas(2), now.replace(last_seq=2), [])
    assert await stored(store, made) == [1]


async def test_a_raised_epoch_fences_off_the_previous_writer(store: MongoStore) -> None:
    """The service ends a turn while another process of it takes the turn's events: whichever comes first is whole."""
    for delay_s in [n * 0.0002 for n in range(20)]:
        made = await store.turns.insert(turn(status="processing", epoch=1))

        async def write(at: ChatTurn = made) -> ChatTurn:
            while await store.record(at, deltas(at.last_seq + 1), at.replace(last_seq=at.last_seq + 1), []):
                at = at.replace(last_seq=at.last_seq + 1)
            return at

        writing = asyncio.create_task(write())
        await asyncio.sleep(delay_s)
        fenced = await store.turns.fence(made)
        assert fenced is not None
        event = complete(fenced, epoch=2, status=ChatTurnStatus.CANCELLED)
        assert await store.record(fenced, [_last(event)], after_event(fenced, event, None), [])
        assert (await writing).last_seq == fenced.last_seq
        assert await stored(store, made) == list(range(1, fenced.last_seq + 2))
        assert (await store.turns.owned("u", made.id)).status is ChatTurnStatus.CANCELLED
        assert await store.turns.fence(made) is None


def _last(event: WorkOrderComplete) -> StoredEvent:
    return StoredEvent(event.seq, event.epoch, event.type, "{}")


@pytest.mark.parametrize(
    ("transition", "target"),
    [
        (transition, target)
        for transition in (DISPATCH, REFUSE, RECOVER, REQUEUE, MOVE)
        for target in transition.targets
    ],
)
async def test_a_move_needs_an_unchanged_turn_and_raises_the_epoch_by_the_table(
    store: MongoStore, transition: Transition, target: ChatTurnStatus
) -> None:
    made = await store.turns.insert(turn(status=transition.sources[0], epoch=4))
    moved = await store.turns.move(made, transition, target, {"statusReason": "Moved."})
    assert moved is not None
    assert (moved.status, moved.epoch, moved.status_reason) == (target, 4 + transition.starts_epoch, "Moved.")
    if transition.starts_epoch or target is not made.status:
        assert await store.turns.move(made, transition, target, {}) is None


async def test_the_status_changes_only_through_move(store: MongoStore) -> None:
    made = await store.turns.insert(turn())
    for changes in ({"status": "processing"}, {"epoch": 3}):
        with pytest.raises(AssertionError):
            await store.turns.update({"_id": made.id}, changes)
    for transition, target in itertools.product(TRANSITIONS, ChatTurnStatus):
        legal = made.status in transition.sources and target in transition.targets and not transition.ends
        if not legal:
            with pytest.raises(AssertionError):
                await store.turns.move(made, transition, target, {})
    with pytest.raises(AssertionError):  # a queued turn has no drone that could finish it
        await store.record(made, deltas(1), made.replace(status=ChatTurnStatus.FINISHED, last_seq=1), [])
    assert await store.turns.owned("u", made.id) == made
    assert (COMPLETE.starts_epoch, END.starts_epoch) == (False, True)


async def test_a_steer_is_accepted_once_and_kept_in_order(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    first, second = Steer(steer_id="a", content="First."), Steer(steer_id="b", content="Second.")
    for steer in (first, second):
        assert await store.turns.add_steer(made, steer) is not None
        assert await store.turns.add_steer(made, steer) is None
        assert await store.turns.knows_steer(made, steer.steer_id)
    assert (await store.turns.owned("u", made.id)).steers == (first, second)
    assert await store.record(made, [StoredEvent(1, 1, "steered", "{}")], made.replace(last_seq=1), ["a"])
    assert (await store.turns.owned("u", made.id)).steers == (second,)
    assert await store.turns.add_steer(made, first) is None
    assert await store.turns.knows_steer(made, "a")
    assert not await store.turns.knows_steer(made, "c")


async def test_the_number_of_waiting_steers_is_limited(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    taken = [await store.turns.add_steer(made, Steer(steer_id=f"s{n}", content="x")) for n in range(MAX_STEERS + 1)]
    assert [found is not None for found in taken] == [True] * MAX_STEERS + [False]
    over = await store.turns.insert(turn(status="finished"))
    assert await store.turns.add_steer(over, Steer(steer_id="s", content="x")) is None


async def test_finished_turns_with_unread_steers_are_found(store: MongoStore) -> None:
    steers = (Steer(steer_id="s1", content="x"), Steer(steer_id="s2", content="y"))
    left = await store.turns.insert(turn(status="finished", steers=steers))
    await store.turns.insert(turn(status="finished"))
    await store.turns.insert(turn(status="cancelled", steers=steers))
    await store.turns.insert(turn(status="processing", steers=steers))
    assert await store.turns.ended_with_steers() == [left]
    for steer in steers:
        await store.turns.drop_steer(left, steer.steer_id)
    assert await store.turns.ended_with_steers() == []


async def test_turns_keep_their_order_whatever_the_clocks_say(store: MongoStore) -> None:
    ahead, _ = await store.turns.submit(turn(id="f" * 23 + "0"), None)  # by a process whose clock is ahead
    behind = [(await store.turns.submit(turn(), await store.turns.newest(ahead.session)))[0] for _ in range(3)]
    ids = [ahead.id, *(made.id for made in behind)]
    assert ids == sorted(set(ids))
    other, _ = await store.turns.submit(turn(session="another"), await store.turns.newest("another"))
    assert other.id < ahead.id


async def test_a_turn_that_has_begun_is_not_requeued_by_a_late_refusal(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=2, drone="d"))
    assert await store.turns.begin(made.id, "other", 2) is None
    assert await store.turns.begin(made.id, "d", 1) is None
    assert await store.turns.begin(made.id, "d", 2) is not None
    assert await store.turns.move(made, REFUSE, ChatTurnStatus.QUEUED, {}) is None
    assert await store.turns.move(made, MOVE, ChatTurnStatus.QUEUED, {}) is not None


async def test_a_cancelled_turn_keeps_its_waiting_reason(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    cancelling = await store.turns.request_cancel(made)
    assert cancelling is not None
    assert (cancelling.waiting, cancelling.cancel_requested) == (Waiting.CANCEL, True)
    assert await store.turns.request_cancel(made) is None  # its time counts from the first
    assert await store.turns.wait_for(made, Waiting.DRONE_LOST, "Lost.") is None
    assert (await store.turns.owned("u", made.id)).waiting is Waiting.CANCEL
