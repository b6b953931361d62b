"""A job exchanges directories and links while git works on the project. Each race is frozen at its worst moment."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gadget_drone.checkpoints.store import Store
from gadget_drone.checkpoints.store_git import StoreGit
from tests.gadget_drone.checkpoints.conftest import Project, make_project
from tests.gadget_drone.conftest import git

_OUTSIDE = b"OUTSIDE-OF-THE-PROJECT\n"


def around_git(
    monkeypatch: pytest.MonkeyPatch, command: str, before: Callable[[], None], after: Callable[[], None]
) -> None:
    """Calls these around each git of the store with `command` among its arguments."""
    run = StoreGit.run

    def raced(self: StoreGit, *arguments: str, **options: Any) -> bytes:
        if command not in arguments:
            return run(self, *arguments, **options)
        before()
        try:
            return run(self, *arguments, **options)
        finally:
            after()

    monkeypatch.setattr(StoreGit, "run", raced)


def stored(project: Project) -> bytes:
    """Every object of the store, reachable or not."""
    command = ["git", "--git-dir", str(project.store_dir), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def outside(place: Path, count: int = 1) -> Path:
    place.mkdir()
    for number in range(count):
        (place / f"f{number}").write_bytes(_OUTSIDE)
    return place


@pytest.mark.parametrize("files", [1, 600])  # loose, and in a pack
async def test_what_git_reads_through_a_link_is_not_stored(
    files: int, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = outside(tmp_path / "out", files), project.dir / "d"
    for number in range(files):
        project.write(f"d/f{number}", f"inside {number}\n")

    def swap() -> None:
        """What git sees of `d` when a link takes its place after git has looked for one; the second time, back."""
        there.rename(tmp_path / "third")
        here.rename(there)
        (tmp_path / "third").rename(here)

    around_git(monkeypatch, "update-index", before=swap, after=swap)
    checkpoints = project.open()
    taken = await checkpoints.take("raced", None)
    assert taken is not None
    assert _OUTSIDE not in stored(project)

    project.write("d/f0", "changed\n")
    await checkpoints.restore(taken.checkpoint_id, preview=False)
    assert (here / "f0").read_text() == "inside 0\n"


async def test_a_link_that_replaces_a_listed_directory_is_not_followed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = outside(tmp_path / "out"), project.dir / "d"
    project.write("d/f0", "inside\n")

    def exchange() -> None:
        if not here.is_symlink():
            here.rename(tmp_path / "away")
            here.symlink_to(there)

    around_git(monkeypatch, "status", before=lambda: None, after=exchange)
    assert await project.open().take("raced", None) is not None
    assert _OUTSIDE not in stored(project)


async def test_a_restore_writes_and_removes_nothing_through_a_link(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = outside(tmp_path / "out"), project.dir / "d"
    project.write("d/f0", "inside\n")
    checkpoints = project.open()
    taken = await checkpoints.take("before", None)
    assert taken is not None
    project.write("d/f0", "changed\n")
    project.write("d/new", "new\n")
    (there / "new").write_bytes(_OUTSIDE)
    add_commit = Store.add_commit

    def exchanged(self: Store, *arguments: Any, **options: Any) -> Any:
        if "Before going back" in arguments[1]:  # the last step before it writes
            here.rename(tmp_path / "away")
            here.symlink_to(there)
        return add_commit(self, *arguments, **options)

    monkeypatch.setattr(Store, "add_commit", exchanged)
    done = await checkpoints.restore(taken.checkpoint_id, preview=False)
    assert {left.path for left in done.left_alone} == {"d/f0", "d/new"}
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {"f0": _OUTSIDE, "new": _OUTSIDE}


async def test_what_the_users_index_names_of_gadget_is_not_stored(tmp_path: Path) -> None:
    made = make_project(tmp_path / "ws")
    project = Project(made.dir, made.dir)
    project.write(".gadget/secret", _OUTSIDE)
    (project.dir / ".git/info/exclude").write_text("/.gadget/\n")
    git(project.dir, "add", "--force", ".gadget/secret")
    assert await project.open().take("first", None) is not None
    assert _OUTSIDE not in stored(project)
