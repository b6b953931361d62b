"""Events and blobs: documents of their own, in order, each once, byte for byte as they were said."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from gadget_api.errors import InvalidInput, NotFound, TooLarge
from gadget_api.events import EVENT_TYPES
from gadget_api.model import utc_now
from gadget_code.store.blobs import MAX_BLOB_BYTES, PART_BYTES
from gadget_code.store.database import MongoStore, open_store
from gadget_code.store.events import StoredEvent

EVERYTHING = 2**31
STRANGE = (
    '{"type":"toolCall","params":{"$set":{"a.b":1},"":null,"\\u0000":"\\u0000","__proto__":[]},"n":1e400}',
    '{"content":"' + "\U0001f600é\u2028" * 50_000 + '"}',
    '{"n":123456789012345678901234567890}',
)


def events(*seqs: int, type: str = "response") -> list[StoredEvent]:
    return [StoredEvent(seq, 1, type, json.dumps({"seq": seq})) for seq in seqs]


async def put(store: MongoStore, turn: str, group: list[StoredEvent]) -> None:
    assert await store.events.put(turn, group)


async def seqs(store: MongoStore, turn: str) -> list[int]:
    return [event.seq async for event in store.events.replay(turn, 0, up_to=EVERYTHING)]


async def test_a_repeat_changes_nothing_and_a_later_epoch_overwrites(store: MongoStore) -> None:
    def of(epoch: int, *numbers: int) -> list[StoredEvent]:
        return [StoredEvent(seq, epoch, "response", f"{epoch}") for seq in numbers]

    assert await store.events.put("t", of(1, 1, 2, 3))
    assert await store.events.put("t", of(1, 2, 3, 4))
    assert await store.events.put("t", of(2, 3, 4, 5))
    assert not await store.events.put("t", of(1, 4, 5, 6))
    found = await store.events.after("t", 0, up_to=5, limit=10)
    assert found == [*of(1, 1, 2), *of(2, 3, 4, 5)]
    assert await store.events.after("t", 1, up_to=3, limit=10) == [*of(1, 2), *of(2, 3)]


async def test_many_writers_of_the_same_events_leave_each_once(store: MongoStore) -> None:
    await asyncio.gather(*(put(store, "t", events(*range(n, n + 20))) for n in range(1, 30)))
    assert await seqs(store, "t") == list(range(1, 49))


async def test_the_stream_is_in_order_from_any_cursor(store: MongoStore) -> None:
    numbers = [*range(1, 120), 999, 1000, 1001, 10_000, 100_000]
    await put(store, "t", events(*reversed(numbers)))
    # Neighbours in the index, which belong to others.
    for other in ("s", "t0", "tt", "u"):
        await put(store, other, events(5))
    for after in (0, 1, 57, 118, 999, 100_000):
        expected = [number for number in numbers if number > after]
        assert [event.seq async for event in store.events.replay("t", after, up_to=EVERYTHING)] == expected
        assert [event.seq for event in await store.events.after("t", after, up_to=EVERYTHING, limit=3)] == expected[:3]
    assert await seqs(store, "none") == []


@pytest.mark.parametrize("body", STRANGE)
async def test_any_json_comes_back_byte_for_byte(store: MongoStore, body: str) -> None:
    await put(store, "t", [StoredEvent(1, 1, "toolCall", body)])
    [stored] = await store.events.after("t", 0, up_to=1, limit=1)
    assert stored.body == body


async def test_the_history_has_what_messages_are_built_from(store: MongoStore) -> None:
    await put(store, "t", [*events(1, 4), *events(2, type="step"), *events(3, type="toolCall")])
    await put(store, "t", events(5, type="steered"))
    assert [event.seq async for event in store.events.history("t", up_to=5)] == [2, 3, 5]
    assert [event.seq async for event in store.events.history("t", up_to=4)] == [2, 3]
    assert [event.seq async for event in store.events.history("t", after=2, up_to=9)] == [3, 5]


async def test_the_content_has_what_is_shown_of_a_finished_turn(store: MongoStore) -> None:
    shown = ("step", "notice", "inquiryAsked", "inquiryAnswered", "checkpoint", "toolCall")
    for seq, type in enumerate(("response", "toolStarted", *shown, "titled", "workOrderComplete"), start=1):
        await put(store, "t", events(seq, type=type))
    assert [event.type async for event in store.events.content("t", up_to=10)] == list(shown)
    assert [event.seq async for event in store.events.content("t", after=3, up_to=6)] == [4, 5, 6]
    assert [event.type async for event in store.events.history("t", up_to=10)] == ["step", "toolCall"]


async def test_deleting_a_turns_events_leaves_its_neighbours(store: MongoStore) -> None:
    for name in ("t", "t0", "u"):
        await put(store, name, events(1, 2))
    await store.events.delete_turns(["t", "u"])
    assert [await seqs(store, name) for name in ("t", "t0", "u")] == [[], [1, 2], []]


@pytest.mark.parametrize("expired", [(), (2, 3), (1,), range(1, 10), (4, 6, 7)])
async def test_the_end_of_an_epoch_is_found_in_a_stream_without_deltas(
    store: MongoStore, expired: Sequence[int]
) -> None:
    epochs = {1: 1, 2: 1, 3: 1, 4: 3, 5: 3, 6: 4, 7: 4, 8: 4, 9: 7}
    stream = [StoredEvent(seq, epoch, "response", "{}") for seq, epoch in epochs.items()]
    await put(store, "s", events(5))
    if left := [event for event in stream if event.seq not in expired]:
        await put(store, "t", left)
    for epoch in range(9):
        for upto in range(10):
            known = [event.seq for event in left if event.seq <= upto and event.epoch > epoch]
            found = await store.events.last_up_to_epoch("t", epoch, upto)
            # Up to the last number that may still be of that epoch: what has expired says nothing.
            assert found == (min(known) - 1 if known else upto)


async def test_only_deltas_expire(settings_for: Any) -> None:
    async with open_store(settings_for(delta_days=3)) as store, open_store(settings_for(delta_days=0)) as for_ever:
        for opened in (store, for_ever):
            await put(opened, "t", [StoredEvent(n, 1, type, "{}") for n, type in enumerate(sorted(EVENT_TYPES), 1)])
        expiring = {d["type"]: d["expireAt"] async for d in store.events.collection.find({"expireAt": {"$ne": None}})}
        assert expiring.keys() == {"thinking", "response", "toolOutput"}
        assert all(timedelta(days=2.9) < at - utc_now() < timedelta(days=3.1) for at in expiring.values())
        assert await for_ever.events.collection.count_documents({"expireAt": {"$exists": True}}) == 0
        indexes = await store.events.collection.index_information()
        assert indexes["expiry"]["expireAfterSeconds"] == 0
        for opened in (store, for_ever):
            await opened.database.client.drop_database(opened.database.name)


async def test_a_blob_is_put_in_parts_in_any_order_and_read_whole(store: MongoStore) -> None:
    parts = [bytes([n]) * PART_BYTES for n in range(2)] + [b"the end"]
    for n in (2, 0, 1, 1):  # a part may be put again after a break
        await store.blobs.put("u", "t", "b", n * PART_BYTES, parts[n])
    await store.blobs.put("u", "t", "b2", 0, b"another")
    assert b"".join([part async for part in store.blobs.read("t", "b")]) == b"".join(parts)
    assert [part async for part in store.blobs.read("t", "b2")] == [b"another"]


async def test_a_misaligned_part_and_a_blob_above_the_limit_are_refused(store: MongoStore) -> None:
    for offset, size in ((1, 1), (PART_BYTES - 1, 1), (0, PART_BYTES + 1)):
        with pytest.raises(InvalidInput):
            await store.blobs.put("u", "t", "b", offset, b"x" * size)
    with pytest.raises(TooLarge):
        await store.blobs.put("u", "t", "b", MAX_BLOB_BYTES, b"x")
    with pytest.raises(NotFound):
        _ = [part async for part in store.blobs.read("t", "b")]


async def test_history_and_content_are_of_one_agent(store: MongoStore) -> None:
    types = ("step", "step", "toolCall", "notice", "toolCall", "step")
    agents = (None, "child", "child", "child", None, None)
    await put(
        store, "t", [StoredEvent(seq, 1, types[seq - 1], "{}", agents[seq - 1]) for seq in range(1, len(types) + 1)]
    )
    assert [event.seq async for event in store.events.history("t", up_to=EVERYTHING)] == [1, 5, 6]
    assert [event.seq async for event in store.events.history("t", "child", up_to=EVERYTHING)] == [2, 3]
    assert [event.seq async for event in store.events.content("t", "child", after=2, up_to=EVERYTHING)] == [3, 4]
    assert [event.agent async for event in store.events.replay("t", 4, up_to=EVERYTHING)] == [None, None]
