import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gadget_api.drones import Sandbox
from gadget_drone.environment import child_environment
from gadget_drone.sandbox.probe import probe
from gadget_drone.sandbox.standing import Standing
from gadget_drone.supervised import Supervised

OUTPUT, ERRORS = "output-of-a-test", "errors-of-a-test"


@cache
def found_sandbox() -> Sandbox:
    return probe()


def need_sandbox() -> None:
    """Skips the test where there is no sandbox; in CI it fails."""
    found = found_sandbox()
    if found.kind == "none":
        why = f"no sandbox here: {found.reason}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> None:
    need_sandbox()


@dataclass(frozen=True)
class Place:
    workspace: Path
    project: Path
    home: Path
    """With secrets in it."""
    outside: Path

    standing: Standing

    def run(self, line: str, *, network: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        """`more` are variables of its environment."""
        return self.run_with(line, network=network, env=child_environment() | {"HOME": str(self.home)} | more)

    def run_with(self, line: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """`options` as `start` takes them."""
        printed, complaints = self.workspace / OUTPUT, self.workspace / ERRORS

        async def ended() -> int:
            with printed.open("wb") as output, complaints.open("wb") as errors:
                words = ["/bin/sh", "-c", line]
                running = await self.start(words, output=output.fileno(), errors=errors.fileno(), **options)
            try:
                return (await asyncio.wait_for(running.ended(), 20)).status
            finally:
                assert await running.kill()

        status = asyncio.run(ended())
        said = (path.read_text(errors="replace") for path in (printed, complaints))
        return subprocess.CompletedProcess(line, status, *said)

    async def start(
        self,
        words: Sequence[str],
        *,
        output: int,
        errors: int | None = None,
        network: bool = False,
        hidden: Sequence[Path] = (),
        read_only: Sequence[Path] = (),
        repositories: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Supervised:
        return await self.standing.start(
            words,
            env or child_environment() | {"HOME": str(self.home)},
            project_dir=self.project,
            output=output,
            errors=errors,
            network=network,
            hidden=hidden,
            read_only=read_only,
            repositories=repositories,
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    space = tmp_path / "space"
    made = Place(space, space / "project", tmp_path / "home", tmp_path / "outside", Standing(space))
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
        await made.standing.close()

    asyncio.run(close())
