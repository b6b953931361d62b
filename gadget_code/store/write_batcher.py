"""Writes that go to the database together: what comes while one is on its way goes with the next.

A single write waits for nobody. With many turns at once the database is asked once for all of them, where it would be
asked once for each.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_WEIGHT = 4 * 1024 * 1024


class WriteBatcher(Generic[Item, Result]):
    """`write` does all the items it is given, and answers a result or an exception for each, or raises one for all."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Result | BaseException]]],
        weight: Callable[[Item], int] = lambda _: 0,
    ) -> None:
        """`weight`: bytes; what goes together has 4 MiB at most, or is one item."""
        self._write = write
        self._weight = weight
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        """It ends with what waits."""

    async def write(self, item: Item) -> Result:
        """What `write` answers for the item, or raises. Cancelled, it may be written all the same."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="writes together")
        return await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_next()
        finally:
            self._writing = None
            for _, done in self._waiting:  # only where the loop itself ends
                done.cancel()
            self._waiting.clear()

    async def _write_next(self) -> None:
        taken: list[tuple[Item, asyncio.Future[Result]]] = []
        weight = 0
        while self._waiting:
            item, done = self._waiting[0]
            weight += self._weight(item)
            if taken and weight > _MAX_WEIGHT:
                break
            self._waiting.popleft()
            if not done.done():  # else nobody waits for it any more
                taken.append((item, done))
        if not taken:
            return
        [done_all] = await asyncio.gather(self._write([item for item, _ in taken]), return_exceptions=True)
        results = [done_all] * len(taken) if isinstance(done_all, BaseException) else done_all
        for (_, done), result in zip(taken, results, strict=True):
            if done.done():
                continue
            if isinstance(result, BaseException):
                done.set_exception(result)
            else:
                done.set_result(result)
