"""What a person asks of a project's files, in a browser: relayed by the server, done here."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from gadget_api import commands as c
from gadget_api.checkpoints import CheckpointId
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.work_order import OrderProject
from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.checkpoints.limits import CheckpointError
from gadget_drone.files.finding import Finder
from gadget_drone.files.listing import listed
from gadget_drone.files.places import checked
from gadget_drone.files.reading import Versions, read
from gadget_drone.files.writing import decoded, delete, rename, save
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)

_CHECKPOINT_S = 5.0
"""How long a deletion waits for the checkpoint that can undo it: a comparison where little has changed."""


class FileRequests:
    def __init__(
        self,
        workspace: Workspace,
        is_free: Callable[[], Awaitable[bool]],
        checkpoints: Callable[[OrderProject, Path], Checkpoints],
    ) -> None:
        """`is_free`: whether no turn runs, which would have the files to itself."""
        self._workspace = workspace
        self._is_free = is_free
        self._checkpoints = checkpoints
        self._finder = Finder()
        self._versions = Versions()
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._last: dict[str, CheckpointId] = {}
        """By project: the last checkpoint that was taken here."""

    async def list_directory(self, ask: c.ListFiles) -> c.FilesListed:
        root = await self._root(ask.project)
        return c.FilesListed(files=await asyncio.to_thread(listed, root, checked(ask.path)))

    async def find(self, ask: c.FindFiles) -> c.FilesFound:
        root = await self._root(ask.project)
        return c.FilesFound(found=await self._finder.find(root, ask.query, ask.limit))

    async def read(self, ask: c.ReadFile) -> c.FileRead:
        root = await self._root(ask.project)
        return await asyncio.to_thread(read, root, checked(ask.path), ask.offset, ask.version, self._versions)

    async def write(self, ask: c.WriteFile) -> c.FileWritten:
        path = checked(ask.path)
        root = await self._root(ask.project)
        content = await asyncio.to_thread(decoded, ask.data)
        async with self._lock(root):
            await self._check_free()
            saved = await asyncio.to_thread(save, root, path, content, ask.version)
        if ask.version is None:
            self._finder.forget()
        return c.FileWritten(file=saved)

    async def rename(self, ask: c.RenameProjectFile) -> None:
        path, to = checked(ask.path), checked(ask.to)
        root = await self._root(ask.project)
        async with self._lock(root):
            await self._check_free()
            await self._keep(ask.project, root, f"before {path} was renamed")
            await self._check_free()
            await asyncio.to_thread(rename, root, path, to)
        self._finder.forget()

    async def delete(self, ask: c.DeleteFile) -> c.FilesDeleted:
        path = checked(ask.path)
        root = await self._root(ask.project)
        async with self._lock(root):
            await self._check_free()
            await self._keep(ask.project, root, f"before {path} was deleted")
            await self._check_free()
            deleted = await asyncio.to_thread(delete, root, path, ask.version, recursive=ask.recursive)
        self._finder.forget()
        return c.FilesDeleted(deleted=deleted)

    async def _check_free(self) -> None:
        if not await self._is_free():
            raise Conflict(
                ErrorCode.WORKSPACE_BUSY,
                "The agent works in this workspace; wait for its end, or cancel the turn, and try again.",
                retryable=True,
            )

    def _lock(self, root: Path) -> asyncio.Lock:
        """Of those who change files of a project, one at a time."""
        return self._locks.setdefault(root, asyncio.Lock())

    async def _keep(self, project: OrderProject, root: Path, label: str) -> None:
        """A checkpoint of the files as they are, where there are some already and it is quick: the first of a project
        reads all of it."""
        checkpoints = self._checkpoints(project, root)
        if not checkpoints.has_begun or checkpoints.off is not None:
            return
        with suppress(CheckpointError, TimeoutError):
            async with asyncio.timeout(_CHECKPOINT_S):
                taken = await checkpoints.take(label, self._last.get(project.id))
            if taken is not None:
                self._last[project.id] = taken.checkpoint_id
            log.info("checkpoint %s is of the files %s", self._last[project.id], label)

    async def _root(self, project: OrderProject) -> Path:
        """The project's directory. Raises GadgetError: `notCloned`, `workspaceRefused`."""
        root = await asyncio.to_thread(self._workspace.project_dir, project)
        if not await asyncio.to_thread(_is_filled, root):
            raise Conflict(
                ErrorCode.NOT_CLONED, "This drone does not have the project yet: send a prompt, which brings its files."
            )
        return root


def _is_filled(root: Path) -> bool:
    return root.is_dir() and any(root.iterdir())
