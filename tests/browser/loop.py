"""An event loop in a thread: playwright's own API for tests is synchronous, the peers of a browser are not."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

Result = TypeVar("Result")
MOST_S = 90.0


class Loop:
    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="peers")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(MOST_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result], timeout: float = MOST_S) -> Result:
        """Does `work` there, and waits for it. Raises TimeoutError."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    async def _end(self) -> None:
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
