"""Batches writes: the items that arrive during one write are the next write.

A single item is written at once. With many turns the database gets one command for all instead of one for each.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_WEIGHT = 4 * 1024 * 1024


class WriteBatcher(Generic[Item, Result]):
    """`write` writes the items, and returns a result or an exception for each, or raises one for all."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Result | BaseException]]],
        weight: Callable[[Item], int] = lambda _: 0,
    ) -> None:
        """`weight`: an item's bytes. A batch has at most 4 MiB, or is one item."""
        self._write = write
        self._weight = weight
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        """Ends when nothing waits."""

    async def write(self, item: Item) -> Result:
        """Returns what `write` returns for the item, or raises it. A cancelled item may be written even so."""
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
            for _, done in self._waiting:  # only when the event loop ends
                done.cancel()
            self._waiting.clear()

    async def _write_next(self) -> None:
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        weight = 0
        while self._waiting:
            item, done = self._waiting[0]
            weight += self._weight(item)
            if batch and weight > _MAX_WEIGHT:
                break
            self._waiting.popleft()
            if not done.done():  # otherwise its caller has gone
                batch.append((item, done))
        if not batch:
            return
        [done_all] = await asyncio.gather(self._write([item for item, _ in batch]), return_exceptions=True)
        results = [done_all] * len(batch) if isinstance(done_all, BaseException) else done_all
        for (_, done), result in zip(batch, results, strict=True):
            if done.done():
                continue
            if isinstance(result, BaseException):
                done.set_exception(result)
            else:
                done.set_result(result)
