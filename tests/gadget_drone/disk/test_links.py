"""Directories that a command has closed, moved, or put very deep. As an ordinary user: root may enter them all."""

import concurrent.futures.thread  # noqa: F401 - as this user it cannot be found
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gadget_drone.disk import links
from gadget_drone.disk.links import exists_without_links, is_git_directory, walk
from gadget_drone.git.clone import is_checkout_of
from gadget_drone.sandbox.known import KnownRepositories, mended
from gadget_drone.sandbox.nested import nested_repositories
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.conftest import project_at

NOBODY = 65534


@pytest.fixture
def project() -> Iterator[Path]:
    """Of an ordinary user, whom this process is meanwhile."""
    space = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own are closed to others
    made = space / "project"
    made.mkdir()
    subprocess.run(["git", "init", "-q", made], check=True)
    subprocess.run(["chown", "-R", str(NOBODY), space], check=True)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield made
    os.seteuid(user)
    subprocess.run(["chmod", "-R", "u+rwx", space], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", space], check=True)


def git_directory(path: Path) -> Path:
    for name in ("objects", "refs"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").touch()
    return path


def make_deep(top: Path, name: str, levels: int) -> None:
    """Directories, one in the other, and a link in the last."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.symlink("/", "link", dir_fd=fd)
    os.close(fd)


def closes_again(monkeypatch: pytest.MonkeyPatch, directory: Path, times: int) -> None:
    """A job that takes the right away, as soon as it was given back."""
    left = [times]
    give_back = links.give_back

    def given(fd: int) -> bool:
        answer = give_back(fd)
        if left[0]:
            left[0] -= 1
            directory.chmod(0)
        return answer

    monkeypatch.setattr(links, "give_back", given)


async def test_a_closed_repository_is_not_gone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib, closed = git_directory(project / "a/lib/.git"), project / "a"
    known = KnownRepositories(project.parent)
    known.add(project, [str(lib)])
    closes_again(monkeypatch, closed, 9)
    closed.chmod(0)
    assert known.add(project, []) == [str(lib)]
    closed.chmod(0)
    assert is_git_directory(str(lib))
    assert await nested_repositories(project) == [str(lib)]
    closes_again(monkeypatch, closed, 1000)
    closed.chmod(0)
    assert exists_without_links(str(lib))
    with pytest.raises(OSError, match="changes the rights"):
        await nested_repositories(project)


@pytest.mark.parametrize("closed", [".git", "."])
def test_what_is_left_behind_a_closed_directory_is_removed(closed: str, project: Path) -> None:
    left = [project / ".git/logs/x", project / ".git/refs/heads/x"]
    left[0].parent.mkdir(exist_ok=True)
    for path in left:
        path.symlink_to("/")
    (project / closed).chmod(0)
    assert len(mended(project)) == len(left)
    assert not any(map(os.path.lexists, left))


@pytest.mark.parametrize("closed", [".git", "."])
def test_a_closed_project_is_found_in_the_next_turn(closed: str, project: Path) -> None:
    subprocess.run(["git", "-C", project, "config", "remote.origin.url", "https://x/y.git"], check=True)
    (project / closed).chmod(0)
    with Workspace.open(project.parent, hostname="h") as workspace:
        assert workspace.project_dir(project_at("https://x/y.git", "project")) == project
    assert is_checkout_of(project, "https://x/y.git")


@pytest.mark.parametrize(("name", "levels"), [("a", 1100), ("n" * 250, 20)])
async def test_no_depth_hides_anything(name: str, levels: int, project: Path) -> None:
    """Neither more levels than a stack has, nor a path longer than the kernel takes."""
    git_directory(project / "lib/.git")
    (project / "lib").chmod(0)
    make_deep(project, name, levels)
    assert await nested_repositories(project) == [f"{project}/lib/.git"]
    make_deep(project / ".git/refs/heads", "a", 1100)
    (note,) = mended(project)
    assert "/link was removed" in note


def test_a_walk_goes_on_where_a_directory_was_moved_or_removed(project: Path) -> None:
    for name in ("a/b/c", "d/e", "f/g"):
        (project / name).mkdir(parents=True)
    seen = []
    before = len(os.listdir("/proc/self/fd"))
    for _, inside, _ in walk(str(project), lambda path: path != ".git"):
        seen.append(inside)
        if inside == "a/b/":
            (project / "a/b").rename(project / "moved")
        elif inside == "d/":
            shutil.rmtree(project / "d")
    assert {"", "a/", "a/b/", "a/b/c/", "d/", "f/", "f/g/"} <= set(seen)
    assert len(os.listdir("/proc/self/fd")) == before
