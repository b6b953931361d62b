"""A command writes a program into the project, and PATH leads there: the drone does not run it."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gadget_drone.git.settings import user_settings
from gadget_drone.processes.programs import find_program, find_ripgrep, keep_out_of
from gadget_drone.processes.ripgrep import ripgrep
from tests.gadget_drone.conftest import git
from tests.gadget_drone.test_hostile_repositories import CALLS

ENTRIES = {
    "absolute": "{project}/.venv/bin",
    "relative": ".venv/bin",
    "empty": "",
    "through a link outside": "{outside}/link",
    "a program that is a link": "{outside}/programs",
}


@pytest.fixture
def pwned(tmp_path: Path) -> Path:
    return tmp_path / "pwned"


@pytest.fixture
def project(tmp_path: Path, pwned: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "space" / "hello"
    project.mkdir(parents=True)
    git(project, "init", "-q", "-b", "main")
    (project / "a.txt").write_text("one\n")
    git(project, "add", "a.txt")
    git(project, "commit", "-q", "-m", "First")
    outside = tmp_path / "outside"
    (outside / "programs").mkdir(parents=True)
    (project / ".venv/bin").mkdir(parents=True)
    for name in ("git", "rg"):
        for place in (project / ".venv/bin", project):
            (place / name).write_text(f"#!/bin/sh\ntouch {pwned}\nexit 1\n")
            (place / name).chmod(0o755)
        (outside / "programs" / name).symlink_to(project / ".venv/bin" / name)
    (outside / "link").symlink_to(project / ".venv/bin")
    keep_out_of(project.parent)
    monkeypatch.chdir(project)
    return project


def lead(entry: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ENTRIES[entry].format(project=project, outside=project.parents[1] / "outside")
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_drones_git_is_none_of_the_project(
    entry: str, call: str, project: Path, pwned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(entry, project, monkeypatch)
    CALLS[call](project)
    user_settings.__globals__["_user_settings"].cache_clear()
    user_settings()
    assert not pwned.exists()


CLONES = """
import asyncio, sys
from pathlib import Path
from gadget_drone.git.clone import ensure_cloned
from gadget_drone.processes.programs import keep_out_of
from tests.gadget_drone.conftest import project_at

space, origin = map(Path, sys.argv[1:])
keep_out_of(space)
asyncio.run(ensure_cloned(project_at(str(origin)), space / "new", allow_local=True, on_progress=lambda *said: None))
"""


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_clone_runs_no_git_of_another_project(
    entry: str, project: Path, pwned: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(entry, project, monkeypatch)
    # In a process of its own: GitPython looks for git when it is imported.
    subprocess.run([sys.executable, "-c", CLONES, str(project.parent), str(origin)], check=True, timeout=60)
    assert (project.parent / "new" / "hello.txt").exists()
    assert not pwned.exists()


@pytest.mark.parametrize("entry", ENTRIES)
def test_ripgrep_is_none_of_the_project(
    entry: str, project: Path, pwned: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = find_ripgrep()
    assert real is not None
    (tmp_path / "system").mkdir()
    (tmp_path / "system/rg").symlink_to(real)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{tmp_path}/system")
    lead(entry, project, monkeypatch)
    monkeypatch.setattr(sys, "executable", str(project / ".venv/bin/python"))  # the drone is installed in the project
    ran = asyncio.run(ripgrep(["--files"], project, separator=b"\n", take=lambda piece: True))
    assert ran.status == 0
    assert not pwned.exists()


def test_a_program_outside_of_the_workspace_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "space-too").mkdir()
    keep_out_of(tmp_path / "space")
    own = Path(shutil.copy("/bin/true", tmp_path / "space-too/own"))
    monkeypatch.setenv("PATH", f"{tmp_path}/space{os.pathsep}{tmp_path}/space-too")
    assert find_program("own") == str(own)
    assert find_program("absent") is None
