"""Limits how many operations run at once per key. Others wait: a bounded number, for a bounded time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gadget_api.errors import TooMany


@dataclass
class _Waiters:
    free: asyncio.Semaphore
    waiting: int = 0
    """Including those that run."""


@dataclass(frozen=True)
class KeyedSemaphore:
    """Of one process."""

    at_once: int
    waiting: int
    wait_s: float
    _lines: dict[str, _Waiters] = field(default_factory=dict, init=False)
    """By key; unused ones are removed."""

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Raises TooMany when too many wait already, or the wait takes too long."""
        line = self._lines.setdefault(key, _Waiters(asyncio.Semaphore(self.at_once)))
        if line.waiting >= self.at_once + self.waiting:
            raise _too_many()
        line.waiting += 1
        try:
            try:
                async with asyncio.timeout(self.wait_s):
                    await line.free.acquire()
            except TimeoutError:
                raise _too_many() from None
            try:
                yield
            finally:
                line.free.release()
        finally:
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(key, None)


def _too_many() -> TooMany:
    return TooMany("Too many requests for your files at once; try again in a moment.")
