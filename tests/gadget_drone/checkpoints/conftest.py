import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gadget_api.checkpoints import CheckpointId
from gadget_drone.checkpoints import CheckpointLimits, Checkpoints
from tests.gadget_drone.conftest import git


@dataclass
class Project:
    """A workspace with one project, and its checkpoints."""

    workspace: Path
    dir: Path
    notices: list[str] = field(default_factory=list)
    last: CheckpointId | None = None

    @property
    def store_dir(self) -> Path:
        return self.workspace / ".gadget" / "checkpoints" / "p1"

    def open(self, limits: CheckpointLimits | None = None) -> Checkpoints:
        """As a drone that has just started."""
        return Checkpoints(self.store_dir, self.dir, limits=limits, on_notice=self.notices.append)

    def write(self, path: str, content: str | bytes = "x\n") -> Path:
        file = self.dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def tree(self) -> dict[bytes, tuple[str, bytes]]:
        """Every file but those of `.git` and `.gadget`: its kind and content."""
        return dict(_tree(os.fsencode(self.dir)))


def _tree(root: bytes) -> Iterator[tuple[bytes, tuple[str, bytes]]]:
    for folder, names, files in os.walk(root):
        if folder == root:
            names[:] = [name for name in names if name not in (b".git", b".gadget")]
        for name in [*files, *(name for name in names if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                yield os.path.relpath(path, root), ("link", os.readlink(path))
            else:
                with open(path, "rb") as file:
                    is_executable = os.stat(path).st_mode & 0o100
                    yield os.path.relpath(path, root), ("program" if is_executable else "file", file.read())


def digest(directory: Path) -> dict[str, str]:
    """Every file below `directory`, with its content, mode and time of change."""
    return {
        str(path.relative_to(directory)): (
            f"{path.lstat().st_mode:o} {path.lstat().st_mtime_ns} "
            f"{hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ''}"
        )
        for path in sorted(directory.rglob("*"))
    }


def make_project(workspace: Path) -> Project:
    directory = workspace / "hello"
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main")
    project = Project(workspace, directory)
    project.write("a.txt", "one\ntwo\nthree\n")
    project.write("src/main.py", "print('hello')\n")
    project.write(".gitignore", "*.log\nbuild/\n")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "First")
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "ws")
