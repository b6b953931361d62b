"""Events and blobs: documents of their own, in order, each once, byte for byte as they were said."""

import asyncio
import json

import pytest

from gadget_api.errors import InvalidInput, NotFound, TooLarge
from gadget_code.store.blobs import MAX_BLOB_BYTES, PART_BYTES
from gadget_code.store.database import Store
from gadget_code.store.events import StoredEvent

STRANGE = (
    '{"type":"toolCall","params":{"$set":{"a.b":1},"":null,"\\u0000":"\\u0000","__proto__":[]},"n":1e400}',
    '{"content":"' + "\U0001f600é\u2028" * 50_000 + '"}',
    '{"n":123456789012345678901234567890}',
)


def events(*seqs: int, type: str = "response") -> list[StoredEvent]:
    return [StoredEvent(seq, type, json.dumps({"seq": seq})) for seq in seqs]


async def test_an_event_is_stored_once_and_a_repeat_changes_nothing(store: Store) -> None:
    await store.events.append("t", events(1, 2, 3))
    await store.events.append("t", [StoredEvent(2, "response", "another"), *events(3, 4)])
    assert await store.events.after("t", 0, limit=10) == events(1, 2, 3, 4)


async def test_many_writers_of_the_same_events_leave_each_once(store: Store) -> None:
    await asyncio.gather(*(store.events.append("t", events(*range(n, n + 20))) for n in range(1, 30)))
    assert [event.seq async for event in store.events.replay("t", 0)] == list(range(1, 49))


async def test_the_stream_is_in_order_from_any_cursor(store: Store) -> None:
    numbers = [*range(1, 120), 999, 1000, 1001, 10_000, 100_000]
    await store.events.append("t", events(*reversed(numbers)))
    # Neighbours in the index, which belong to others.
    for other in ("s", "t0", "tt", "u"):
        await store.events.append(other, events(5))
    for after in (0, 1, 57, 118, 999, 100_000):
        expected = [number for number in numbers if number > after]
        assert [event.seq async for event in store.events.replay("t", after)] == expected
        assert [event.seq for event in await store.events.after("t", after, limit=3)] == expected[:3]
    assert await store.events.last_seq("t") == 100_000
    assert await store.events.last_seq("none") == 0


@pytest.mark.parametrize("body", STRANGE)
async def test_any_json_comes_back_byte_for_byte(store: Store, body: str) -> None:
    await store.events.append("t", [StoredEvent(1, "toolCall", body)])
    [stored] = await store.events.after("t", 0, limit=1)
    assert stored.body == body


async def test_the_history_holds_what_messages_are_built_from(store: Store) -> None:
    await store.events.append("t", [*events(1, 4), *events(2, type="step"), *events(3, type="toolCall")])
    await store.events.append("t", events(5, type="steered"))
    assert [event.seq async for event in store.events.history("t")] == [2, 3, 5]
    assert [event.seq async for event in store.events.history("t", after=2, batch=1)] == [3, 5]


async def test_deleting_a_turns_events_leaves_its_neighbours(store: Store) -> None:
    for name in ("t", "t0", "u"):
        await store.events.append(name, events(1, 2))
    await store.events.delete_turns(["t", "u"])
    assert [await store.events.last_seq(name) for name in ("t", "t0", "u")] == [0, 2, 0]


async def test_a_blob_is_put_in_parts_in_any_order_and_read_whole(store: Store) -> None:
    parts = [bytes([n]) * PART_BYTES for n in range(2)] + [b"the end"]
    for n in (2, 0, 1, 1):  # a part may be put again after a break
        await store.blobs.put("t", "b", n * PART_BYTES, parts[n])
    await store.blobs.put("t", "b2", 0, b"another")
    assert b"".join([part async for part in store.blobs.read("t", "b")]) == b"".join(parts)
    assert [part async for part in store.blobs.read("t", "b2")] == [b"another"]


async def test_a_part_off_the_grid_and_a_blob_past_the_cap_are_refused(store: Store) -> None:
    for offset, size in ((1, 1), (PART_BYTES - 1, 1), (0, PART_BYTES + 1)):
        with pytest.raises(InvalidInput):
            await store.blobs.put("t", "b", offset, b"x" * size)
    with pytest.raises(TooLarge):
        await store.blobs.put("t", "b", MAX_BLOB_BYTES, b"x")
    with pytest.raises(NotFound):
        _ = [part async for part in store.blobs.read("t", "b")]
