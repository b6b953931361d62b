"""What the user asks of a project's checkpoints while no turn runs: what changed, and to be taken back there."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from gadget_api import commands as c
from gadget_api.checkpoints import MAX_LISTED_FILES, SkippedFile
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.work_order import OrderProject
from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.checkpoints.limits import CheckpointError
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)


class CheckpointRequests:
    def __init__(self, workspace: Workspace, is_free: Callable[[], Awaitable[bool]]) -> None:
        self._workspace = workspace
        self._is_free = is_free
        self._open: dict[Path, tuple[str | None, Checkpoints]] = {}
        """By the project's directory, with the session that it was opened for."""

    def of(self, project: OrderProject, project_dir: Path, session: str | None = None) -> Checkpoints:
        """The project's; where they were switched off in another session, they are tried again."""
        opened_for, checkpoints = self._open.get(project_dir, (None, None))
        if checkpoints is None or (checkpoints.off is not None and session not in (None, opened_for)):
            store_dir = self._workspace.checkpoints_dir / project.id
            checkpoints = Checkpoints(store_dir, project_dir, on_notice=lambda said: log.info("%s", said))
        self._open[project_dir] = (session or opened_for, checkpoints)
        return checkpoints

    async def prune(self) -> None:
        """Lets go of what is old, while nothing else goes on."""
        for _, checkpoints in tuple(self._open.values()):
            if checkpoints.wants_pruning and await self._is_free():
                with suppress(CheckpointError):
                    await checkpoints.prune()

    async def read_diff(self, ask: c.ReadDiff) -> c.DiffRead:
        checkpoints = await self._here(ask.project)
        return c.DiffRead(diff=await checkpoints.diff(ask.since, ask.until))

    async def restore(self, ask: c.RestoreFiles) -> c.FilesRestored:
        checkpoints = await self._here(ask.project)
        if not ask.preview and not await self._is_free():
            raise Conflict(ErrorCode.WORKSPACE_BUSY, "A turn works in this workspace; cancel it, or wait for its end.")
        done = await checkpoints.restore(ask.checkpoint, preview=ask.preview)
        left_alone = (SkippedFile(path=left.path, reason=left.reason) for left in done.left_alone[:MAX_LISTED_FILES])
        return c.FilesRestored(
            files=tuple(done.files), file_count=done.file_count, before=done.redo, left_alone=tuple(left_alone)
        )

    async def _here(self, project: OrderProject) -> Checkpoints:
        project_dir = await asyncio.to_thread(self._workspace.project_dir, project)
        if not project_dir.is_dir():
            raise Conflict(ErrorCode.CHECKPOINT_GONE, "This project is not in the drone's workspace any more.")
        return self.of(project, project_dir)
