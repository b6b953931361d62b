"""Owns background tasks: each has a name, failures are logged, and no task outlives the service."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from gadget_api.errors import GadgetError

log = logging.getLogger(__name__)


class BackgroundTasks:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, GadgetError):  # expected; the sweep repeats the work
            log.warning("the task %s failed: %s", task.get_name(), error.message)
        else:
            log.error("the task %s failed", task.get_name(), exc_info=error)

    async def stop(self) -> None:
        """Cancels running tasks and waits for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def background_tasks() -> AsyncIterator[BackgroundTasks]:
    background = BackgroundTasks()
    try:
        yield background
    finally:
        await background.stop()
