import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gadget_drone.environment import child_environment
from gadget_drone.sandbox.probe import probe
from gadget_drone.sandbox.standing import Standing
from gadget_drone.sandbox.wrap import TEMPORARY
from gadget_drone.supervised import Supervised

OUTPUT, ERRORS = "output-of-a-test", "errors-of-a-test"


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> None:
    found = probe()
    if found.kind == "none":
        why = f"no sandbox here: {found.reason}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


@dataclass(frozen=True)
class Place:
    workspace: Path
    project: Path
    home: Path
    """With secrets in it."""
    outside: Path

    standing: Standing

    def run(self, line: str, *, network: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        """Its errors come by a file, as a supervised command has one output."""

        env = child_environment() | {"HOME": str(self.home)} | more

        async def ended() -> int:
            words = ["/bin/sh", "-c", f'exec 2>/tmp/{ERRORS}; exec /bin/sh -c "$1"', "sh", line]
            with (self.workspace / OUTPUT).open("wb") as output:
                running = await self.start(words, output=output.fileno(), network=network, env=env)
            try:
                return (await asyncio.wait_for(running.ended(), 20)).status
            finally:
                assert await running.kill()

        status = asyncio.run(ended())
        errors = self.workspace / ".gadget" / TEMPORARY / ERRORS
        return subprocess.CompletedProcess(line, status, (self.workspace / OUTPUT).read_text(), errors.read_text())

    async def start(
        self,
        words: Sequence[str],
        *,
        output: int,
        network: bool = False,
        hidden: Sequence[Path] = (),
        read_only: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> Supervised:
        return await self.standing.start(
            words,
            env or child_environment() | {"HOME": str(self.home)},
            project_dir=self.project,
            workspace_dir=self.workspace,
            output=output,
            network=network,
            hidden=hidden,
            read_only=read_only,
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    space = tmp_path / "space"
    made = Place(space, space / "project", tmp_path / "home", tmp_path / "outside", Standing())
    for directory in (made.workspace, made.project, made.home, made.outside):
        directory.mkdir()
    (made.home / ".netrc").write_text("secret of the home")
    (made.outside / "file").write_text("secret outside")
    (made.workspace / ".gadget").mkdir()
    (made.workspace / ".gadget" / "workspace.json").write_text("secret of the workspace")
    (made.workspace / "other").mkdir()
    (made.workspace / "other" / "file").write_text("secret of another project")
    subprocess.run(["git", "init", "-q", made.project], check=True)
    (made.project / "README").write_text("hello\n")
    yield made

    async def close() -> None:
        made.standing.close()

    asyncio.run(close())
