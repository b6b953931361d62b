"""Checkpoints of a turn, off its critical path: taken while the model thinks, waited for before the next change."""

import asyncio
import logging
from contextlib import suppress

from gadget_api.checkpoints import CheckpointId
from gadget_api.events import Checkpoint, Notice
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.emitter import Emitter
from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.checkpoints.limits import CheckpointError

_LAST_S = 2.0
"""A cancel has 5 s in all."""
log = logging.getLogger(__name__)


class Snapshots:
    """`checkpoints` None keeps none: for a project whose directory is not one to be kept."""

    def __init__(self, checkpoints: Checkpoints | None, order: WorkOrder, emit: Emitter) -> None:
        self._checkpoints = checkpoints
        self._emit = emit
        self._order = order
        self._last: CheckpointId | None = order.resume.last_checkpoint if order.resume is not None else None
        self._task: asyncio.Task[None] | None = None
        self._has_changed = True
        """Whether something may have since the last one; the first is of the files as the turn found them."""

    def note_change(self) -> None:
        self._has_changed = True

    def take(self) -> None:
        """Begins one, where something has changed and none is on its way."""
        if self._checkpoints is not None and self._task is None and self._has_changed:
            self._has_changed = False
            self._task = asyncio.create_task(self._take(self._checkpoints), name="checkpoint")

    async def taken(self) -> None:
        """Waits for the one that is on its way. Before anything is changed."""
        if self._task is not None:
            await asyncio.shield(self._task)
            self._task = None

    async def last(self) -> None:
        """Before a turn ends in the middle: of what it has changed so far, if that is quick."""
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LAST_S):
                await self.taken()
                self.take()
                await self.taken()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (failure := self._task.exception()) is not None:
                log.warning("the last checkpoint failed: %s", failure)

    async def _take(self, checkpoints: Checkpoints) -> None:
        if checkpoints.off is not None:
            self._checkpoints = None
            self._emit(Notice, level="info", code="noCheckpoints", message=checkpoints.off)
            return
        try:
            taken = await checkpoints.take(f"turn {self._order.turn.id}", self._last)
        except CheckpointError as exc:
            log.warning("no checkpoint: %s", exc.message)
            self._emit(Notice, level="warning", code="noCheckpoint", message=exc.message)
            return
        if taken is not None:
            self._last = taken.checkpoint_id
            self._emit(Checkpoint, checkpoint=taken)
