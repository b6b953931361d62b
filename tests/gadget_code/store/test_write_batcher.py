"""Writes that go together: one waits for nobody, many are one, and each gets its own answer."""

import asyncio
from collections.abc import Sequence
from copy import copy

import pytest
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from gadget_api.errors import Unavailable
from gadget_code.store.database import MongoStore
from gadget_code.store.events import EventStore
from gadget_code.store.records import Document
from gadget_code.store.turns import TurnStore
from gadget_code.store.write_batcher import WriteBatcher
from tests.gadget_code.store.test_turns import deltas, turn


async def test_one_item_is_written_at_once_and_later_ones_as_a_batch() -> None:
    written: list[Sequence[int]] = []
    go = asyncio.Event()

    async def write(items: Sequence[int]) -> list[int | BaseException]:
        written.append(items)
        await go.wait()
        return [ValueError("three") if item == 3 else item * 10 for item in items]

    together = WriteBatcher(write)
    first = asyncio.create_task(together.write(1))
    await asyncio.sleep(0)
    others = [asyncio.create_task(together.write(n)) for n in (2, 3, 4, 5)]
    await asyncio.sleep(0)
    others[3].cancel()
    go.set()
    assert await first == 10
    done = await asyncio.gather(*others[:3], return_exceptions=True)
    assert [done[0], done[2]] == [20, 40]
    assert isinstance(done[1], ValueError)
    assert written == [[1], [2, 3, 4]]
    assert await together.write(6) == 60


async def test_a_failed_batch_fails_each_item_and_the_next_is_written() -> None:
    fails = True

    async def write(items: Sequence[int]) -> list[int | BaseException]:
        if fails:
            raise OSError("away")
        return list(items)

    together = WriteBatcher(write)
    assert {type(e) for e in await asyncio.gather(*map(together.write, range(5)), return_exceptions=True)} == {OSError}
    fails = False
    assert await asyncio.gather(*map(together.write, range(5))) == list(range(5))


async def test_a_batch_has_a_maximum_weight() -> None:
    sizes: list[int] = []

    async def write(items: Sequence[int]) -> list[int | BaseException]:
        sizes.append(len(items))
        return list(items)

    together = WriteBatcher(write, weight=lambda item: item)
    await asyncio.gather(*(together.write(3 * 1024 * 1024) for _ in range(4)))
    assert sizes == [1, 1, 1, 1]


class _Counted(CommandListener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.names.append(event.command_name)

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...


async def test_many_turns_at_once_need_few_commands_and_get_their_own_results(
    store: MongoStore, mongodb_url: str
) -> None:
    made = [await store.turns.insert(turn(status="processing", epoch=1)) for _ in range(50)]
    counted = _Counted()
    async with AsyncMongoClient[Document](mongodb_url, tz_aware=True, event_listeners=[counted]) as client:
        database = client[store.database.name]
        counting = copy(store)
        counting.turns, counting.events = TurnStore(database.turns), EventStore(database.events, None)
        done = await asyncio.gather(*(counting.record(one, deltas(1), one.replace(last_seq=1), []) for one in made))
    assert done == [True] * 50
    for one in made:
        assert (await store.turns.owned("u", one.id)).last_seq == 1
    assert len([name for name in counted.names if name not in ("hello", "endSessions")]) <= 4, counted.names


async def test_in_a_batch_only_changed_turns_fail(store: MongoStore) -> None:
    made = [await store.turns.insert(turn(status="processing", epoch=1)) for _ in range(50)]
    late = made[::5]  # not as they were read any more
    for one in late:
        assert await store.record(one, deltas(1), one.replace(last_seq=1), [])
    done = await asyncio.gather(*(store.record(one, deltas(1), one.replace(last_seq=1), []) for one in made))
    assert done == [one not in late for one in made]
    for one in made:
        assert (await store.turns.owned("u", one.id)).last_seq == 1


async def test_a_write_without_a_majority_is_not_acknowledged(store: MongoStore) -> None:
    made = await store.turns.insert(turn(status="processing", epoch=1))
    # Of the one server that there is, two are asked for.
    alone = store.database.events.with_options(write_concern=WriteConcern(2, wtimeout=1000))
    with pytest.raises(Unavailable):
        await EventStore(alone, None).put(made.id, deltas(1))
    # It is there all the same, and what is told again is taken.
    assert await store.record(made, deltas(1), made.replace(last_seq=1), [])
    assert len(await store.events.after(made.id, 0, up_to=9, limit=9)) == 1


@pytest.mark.parametrize("n", [1, 40])
async def test_events_of_an_earlier_epoch_are_overwritten(store: MongoStore, n: int) -> None:
    made = [await store.turns.insert(turn(status="processing", epoch=1)) for _ in range(n)]
    await asyncio.gather(*(store.events.put(one.id, deltas(1)) for one in made))
    fenced = [await store.turns.fence(one) for one in made]
    assert (
        await asyncio.gather(
            *(store.record(one, deltas(1, 2), one.replace(last_seq=2), []) for one in fenced if one is not None)
        )
        == [True] * n
    )
