"""What the drone's own git does in a repository that commands have made hostile: nothing of it runs, or leads out."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gadget_api.errors import GadgetError
from gadget_drone.checkpoints import Checkpoints
from gadget_drone.context.project_files import ProjectFiles
from gadget_drone.editing.merging import merged
from gadget_drone.files.listing import listed
from gadget_drone.git.clone import ask_git, is_checkout_of
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.conftest import git, project_at
from tests.gadget_drone.tools.test_git import HOOKS, HOSTILE

PROMISOR = {
    "extensions.partialClone": "origin",
    "core.repositoryFormatVersion": "1",
    "remote.origin.promisor": "true",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
}
URLS = ("ext::touch {}", "ssh://example.invalid/x", "https://127.0.0.1:1/x", "git://127.0.0.1:1/x")


@pytest.fixture
def pwned(tmp_path: Path) -> Path:
    return tmp_path / "pwned"


@pytest.fixture
def hostile(tmp_path: Path, pwned: Path) -> Path:
    """A workspace's project: every program that git could run would make the file `pwned`."""
    project = tmp_path / "space" / "hello"
    nested = project / "nested"
    nested.mkdir(parents=True)
    for directory in (nested, project):
        git(directory, "init", "-q", "-b", "main")
        (directory / "a.txt").write_text("one\n")
        (directory / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
        git(directory, "add", ".gitattributes", "a.txt")
        git(directory, "commit", "-q", "-m", "First")
    git(project, "add", "nested")
    git(project, "commit", "-q", "-m", "Nested")
    for directory in (nested, project):
        for name, value in {**HOSTILE, "core.gitProxy": "touch {}"}.items():
            git(directory, "config", name, value.format(pwned))
        for hook in HOOKS:
            (directory / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {pwned}\n")
            (directory / ".git/hooks" / hook).chmod(0o755)
        (directory / "a.txt").write_text("two\n")
        os.utime(directory / "a.txt", (1e9, 1e9))
    assert not pwned.exists()
    return project


def look_at_checkout(project: Path) -> object:
    return is_checkout_of(project, str(project)), is_checkout_of(project, "https://example.org/x")


def open_workspace(project: Path) -> object:
    with Workspace.open(project, hostname="box") as workspace:
        return workspace.project_dir(project_at(str(project)))


def take_checkpoints(project: Path) -> object:
    async def take() -> None:
        checkpoints = Checkpoints(project.parent / ".gadget/checkpoints/p1", project)
        first = await checkpoints.take("one", None)
        assert first is not None
        (project / "a.txt").write_text("three\n")
        await checkpoints.take("two", first.checkpoint_id)
        await checkpoints.diff(first.checkpoint_id, None)
        await checkpoints.diff(None, None)
        await checkpoints.restore(first.checkpoint_id, preview=False)
        await checkpoints.prune()

    return asyncio.run(take())


CALLS: dict[str, Callable[[Path], object]] = {
    "whether it is a checkout": look_at_checkout,
    "the workspace is opened": open_workspace,
    "files are listed for the model": lambda project: ProjectFiles(project, timeout_s=20),
    "files are listed for the browser": lambda project: listed(project, ""),
    "checkpoints": take_checkpoints,
    "a merge": lambda project: merged("a\n", "b\n", "a\n"),
    "HEAD is looked up": lambda project: ask_git(project, "rev-parse", "--verify", "HEAD^{tree}"),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_that_the_repository_names_runs(call: str, hostile: Path, pwned: Path) -> None:
    CALLS[call](hostile)
    assert not pwned.exists()


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("call", CALLS)
def test_missing_objects_are_not_fetched(call: str, url: str, hostile: Path, pwned: Path) -> None:
    commit = git(hostile, "rev-parse", "HEAD")
    for name, value in {**PROMISOR, "remote.origin.url": url.format(pwned)}.items():
        git(hostile, "config", name, value)
    (hostile / ".git/objects" / commit[:2] / commit[2:]).unlink()
    with suppress(GadgetError):
        CALLS[call](hostile)
    assert not pwned.exists()


@pytest.mark.parametrize("words", [("status",), ("add", "--all")])
def test_the_repository_would_run_programs(words: tuple[str, ...], hostile: Path, pwned: Path) -> None:
    subprocess.run(["git", *words], cwd=hostile, capture_output=True, timeout=30, check=False)
    assert pwned.exists()


@pytest.mark.parametrize("at", [".git/info/exclude", ".git/info", ".git"])
def test_a_start_writes_through_no_link(at: str, tmp_path: Path) -> None:
    project, victim = tmp_path / "space", tmp_path / "victim"
    project.mkdir()
    git(project, "init", "-q")
    (project / at).rename(tmp_path / "was")
    if at.endswith("exclude"):
        victim.write_text("as it was\n")
    else:
        (tmp_path / "was").rename(victim)
    (project / at).symlink_to(victim)
    before = {path: path.read_bytes() for path in [victim, *victim.rglob("*")] if path.is_file()}
    with Workspace.open(project, hostname="box") as workspace:
        assert any("a link leads to it" in warning for warning in workspace.warnings)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_an_exclude_file_that_is_none_holds_up_no_start_and_no_checkpoint(kind: str, hostile: Path) -> None:
    exclude = hostile / ".git/info/exclude"
    exclude.unlink()
    match kind:
        case "pipe":
            os.mkfifo(exclude)
        case "directory":
            exclude.mkdir()
        case _:
            exclude.symlink_to("/dev/zero")
    open_workspace(hostile)
    if kind != "pipe":  # git waits for its other end; a checkpoint is given up in its time
        take_checkpoints(hostile)


@pytest.mark.parametrize("planted", ["directory", "file", "link"])
def test_a_project_with_a_planted_commondir_is_found_again(planted: str, tmp_path: Path) -> None:
    project = tmp_path / "space"
    project.mkdir()
    git(project, "init", "-q")
    place = project / ".git/commondir"
    match planted:
        case "directory":
            place.mkdir()
            (place / "x").touch()
        case "file":
            place.write_text("")
        case _:
            place.symlink_to("/")
    assert not is_checkout_of(project, str(project))
    with Workspace.open(project, hostname="box") as workspace:
        assert workspace.project_dir(project_at(str(project))) == project
    assert git(project, "status", "--short") == ""


def test_the_objects_of_another_repository_are_not_shown(tmp_path: Path) -> None:
    """A command has replaced `objects` by a link, and names a tree of the other repository as its own."""
    secret, project = tmp_path / "secret", tmp_path / "space/hello"
    for directory in (secret, project):
        directory.mkdir(parents=True)
        git(directory, "init", "-q", "-b", "main")
    (secret / "key").write_text("the secret\n")
    git(secret, "add", "key")
    git(secret, "commit", "-q", "-m", "Key")
    (project / ".git/refs/heads/main").write_text(git(secret, "rev-parse", "HEAD") + "\n")
    (project / ".git/objects").rename(project / ".git/o")
    (project / ".git/objects").symlink_to(secret / ".git/objects")

    async def shown() -> str:
        return str(await Checkpoints(project.parent / ".gadget/checkpoints/p1", project).diff(None, None))

    assert "the secret" not in asyncio.run(shown())
