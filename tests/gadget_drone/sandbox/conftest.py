import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gadget_drone.environment import child_environment
from gadget_drone.sandbox.probe import probe
from gadget_drone.sandbox.wrap import wrap


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

    def run(self, line: str, *, network: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        argv, env = self.wrapped(line, network=network, keeps_background=False, **more)
        return subprocess.run(
            argv, env=env, cwd=self.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20
        )

    def wrapped(
        self, line: str, *, network: bool = False, keeps_background: bool = False, **more: str
    ) -> tuple[list[str], dict[str, str]]:
        return wrap(
            ["/bin/sh", "-c", line],
            child_environment() | {"HOME": str(self.home)} | more,
            project_dir=self.project,
            workspace_dir=self.workspace,
            network=network,
            keeps_background=keeps_background,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "space", tmp_path / "space" / "project", tmp_path / "home", tmp_path / "outside")
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
    return made
