from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox

Run = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project directory with a `.git`, and a secret file beside the directory."""
    (tmp_path / "secret.txt").write_text("outside")
    project = tmp_path / "project"
    (project / ".git/hooks").mkdir(parents=True)
    (project / ".git/config").write_text("[core]\n")
    return project


@pytest.fixture
def live() -> list[str]:
    """What the tool put out while it ran."""
    return []


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.close()


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs()
    yield jobs
    await jobs.close()


@pytest.fixture
def context(project: Path, live: list[str], supervisor: Supervisor, jobs: Jobs) -> ToolContext:
    return ToolContext(project, live.append, project.parent / "blobs", supervisor, jobs=jobs)


@pytest.fixture
def run(context: ToolContext) -> Run:
    """Runs a built-in tool as a turn does: through the toolbox."""
    toolbox = Toolbox.standard()

    async def run(name: str, /, **params: Any) -> ToolResult:
        return await toolbox.run(ToolCallRequest(call_id="c1", name=name, params=params), context)

    return run
