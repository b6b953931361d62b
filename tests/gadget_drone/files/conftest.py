"""A project with a secret beside it, and requests to a drone that is idle until a test says otherwise."""

import base64
from pathlib import Path
from typing import Any

import pytest

from gadget_api import commands as c
from gadget_api.work_order import OrderProject
from gadget_drone.checkpoints.requests import CheckpointRequests
from gadget_drone.files.requests import FileRequests
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.conftest import git, project_at


class Room:
    """The requests, and what they are about."""

    def __init__(self, workspace: Workspace) -> None:
        self.is_busy = False
        self.project: OrderProject = project_at("https://example.org/hello.git")
        self.dir = workspace.dir / "hello"
        self.checkpoints = CheckpointRequests(workspace, self._is_free)
        self.requests = FileRequests(workspace, self._is_free, self.checkpoints.of)

    async def _is_free(self) -> bool:
        return not self.is_busy

    async def list_directory(self, path: str = "") -> Any:
        return (await self.requests.list_directory(c.ListFiles(project=self.project, path=path))).files

    async def names(self, path: str = "") -> list[str]:
        return [entry.name for entry in (await self.list_directory(path)).entries]

    async def find(self, query: str, limit: int = 10) -> list[str]:
        ask = c.FindFiles(project=self.project, query=query, limit=limit)
        return list((await self.requests.find(ask)).found.paths)

    async def read(self, path: str, offset: int = 0, version: str | None = None) -> c.FileRead:
        return await self.requests.read(c.ReadFile(project=self.project, path=path, offset=offset, version=version))

    async def version(self, path: str) -> str:
        return (await self.read(path)).version

    async def write(self, path: str, content: bytes, version: str | None = None) -> str:
        data = base64.b64encode(content).decode()
        ask = c.WriteFile(project=self.project, path=path, version=version, data=data)
        return (await self.requests.write(ask)).file.version

    async def rename(self, path: str, to: str) -> None:
        await self.requests.rename(c.RenameProjectFile(project=self.project, path=path, to=to))

    async def delete(self, path: str, version: str | None = None, recursive: bool = False) -> int:
        ask = c.DeleteFile(project=self.project, path=path, version=version, recursive=recursive)
        return (await self.requests.delete(ask)).deleted.file_count


@pytest.fixture
def room(tmp_path: Path) -> Any:
    directory = tmp_path / "workspace"
    directory.mkdir()
    (directory / "secret.txt").write_text("outside")
    with Workspace.open(directory, hostname="here") as workspace:
        made = Room(workspace)
        made.dir.mkdir()
        git(made.dir, "init", "-q", "-b", "main")
        yield made
        assert (directory / "secret.txt").read_text() == "outside"
