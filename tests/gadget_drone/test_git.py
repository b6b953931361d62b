import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.git.clone import ensure_cloned, is_checkout_of
from tests.gadget_drone.conftest import git, project_at


def quiet(percent: int | None, what: str) -> None:
    pass


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / ".gadget").mkdir(parents=True)
    return workspace


def left(workspace: Path) -> list[str]:
    """What is in the workspace; nothing is in its `.gadget/`."""
    assert os.listdir(workspace / ".gadget") == []
    return [name for name in os.listdir(workspace) if name != ".gadget"]


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_a_project_is_cloned_once(scheme: str, origin: Path, workspace: Path) -> None:
    seen: list[tuple[int | None, str]] = []
    project = project_at(f"{scheme}{origin}")
    target = workspace / "hello"
    (workspace / ".gadget/hello.cloning-dead").mkdir()
    (workspace / ".gadget/other.cloning-live").mkdir()
    assert await ensure_cloned(project, target, allow_local=True, on_progress=lambda *said: seen.append(said))
    assert (target / "hello.txt").read_text() == "hello\n"
    assert sorted(os.listdir(workspace)) == [".gadget", "hello"]
    assert os.listdir(workspace / ".gadget") == ["other.cloning-live"]
    if scheme:
        assert (100, "Receiving objects") in seen
    assert not await ensure_cloned(project, target, allow_local=True, on_progress=quiet)


async def test_an_empty_directory_is_filled(origin: Path, workspace: Path) -> None:
    (workspace / "hello").mkdir()
    assert await ensure_cloned(project_at(str(origin)), workspace / "hello", allow_local=True, on_progress=quiet)
    assert git(workspace / "hello", "rev-parse", "HEAD") == git(origin, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% pwned", "--upload-pack=touch pwned", "http://example.org/x", "git://example.org/x", "", "x"],
)
@pytest.mark.parametrize("allow_local", [True, False])
async def test_other_urls_are_refused_before_git_starts(url: str, allow_local: bool, workspace: Path) -> None:
    with pytest.raises(GadgetError) as refused:
        await ensure_cloned(project_at(url), workspace / "hello", allow_local=allow_local, on_progress=quiet)
    assert refused.value.code is ErrorCode.GIT_URL_NOT_ALLOWED
    assert left(workspace) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_local_urls_need_the_owner_to_allow_them(scheme: str, origin: Path, workspace: Path) -> None:
    with pytest.raises(GadgetError, match="GADGET_ALLOW_LOCAL_GIT") as refused:
        await ensure_cloned(project_at(f"{scheme}{origin}"), workspace / "hello", allow_local=False, on_progress=quiet)
    assert refused.value.code is ErrorCode.GIT_URL_NOT_ALLOWED
    assert left(workspace) == []


async def test_credentials_are_not_in_errors(workspace: Path) -> None:
    with pytest.raises(GadgetError) as refused:
        await ensure_cloned(
            project_at("https://ada:hunter2@example.org/x"), workspace / "x", allow_local=True, on_progress=quiet
        )
    assert "hunter2" not in refused.value.message


async def test_a_failed_clone_says_what_git_said_and_leaves_nothing(tmp_path: Path, workspace: Path) -> None:
    with pytest.raises(GadgetError, match="does not exist") as failed:
        await ensure_cloned(
            project_at(str(tmp_path / "absent.git")), workspace / "hello", allow_local=True, on_progress=quiet
        )
    assert failed.value.code is ErrorCode.GIT_FAILED
    assert left(workspace) == []


async def test_another_repository_in_the_place_is_left_alone(origin: Path, workspace: Path) -> None:
    target = workspace / "hello"
    await ensure_cloned(project_at(str(origin)), target, allow_local=True, on_progress=quiet)
    with pytest.raises(GadgetError, match=r"holds .*origin\.git and the project is") as failed:
        await ensure_cloned(project_at("https://example.org/y"), target, allow_local=True, on_progress=quiet)
    assert failed.value.code is ErrorCode.GIT_FAILED
    assert (target / "hello.txt").exists()


@pytest.mark.parametrize("kind", ["files", "file", "link"])
async def test_what_is_no_clone_is_left_alone(kind: str, origin: Path, workspace: Path, tmp_path: Path) -> None:
    target = workspace / "hello"
    if kind == "files":
        target.mkdir()
        (target / "mine.txt").touch()
    elif kind == "file":
        target.touch()
    else:
        target.symlink_to(tmp_path)
    with pytest.raises(GadgetError, match="move") as failed:
        await ensure_cloned(project_at(str(origin)), target, allow_local=True, on_progress=quiet)
    assert failed.value.code is ErrorCode.GIT_FAILED
    assert left(workspace) == ["hello"]


async def test_hooks_and_monitors_of_a_repository_do_not_run(origin: Path, workspace: Path, home: Path) -> None:
    evil = home / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {home}/pwned\n")
    evil.chmod(0o755)
    (home / "hooks").mkdir()
    (home / "hooks/post-checkout").symlink_to(evil)
    git(home, "config", "--global", "core.hooksPath", str(home / "hooks"))
    git(home, "config", "--global", "core.fsmonitor", str(evil))
    target = workspace / "hello"
    await ensure_cloned(project_at(str(origin)), target, allow_local=True, on_progress=quiet)
    assert is_checkout_of(target, str(origin))
    assert not (home / "pwned").exists()
    assert git(target, "config", "--local", "--get-regexp", "core.*").count("hookspath") == 0


@pytest.fixture
def mute_server() -> Iterator[socket.socket]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def test_a_cancelled_clone_ends_git_and_leaves_nothing(mute_server: socket.socket, workspace: Path) -> None:
    project = project_at(f"https://127.0.0.1:{mute_server.getsockname()[1]}/x")
    cloning = asyncio.ensure_future(ensure_cloned(project, workspace / "hello", allow_local=False, on_progress=quiet))
    connection, _ = await asyncio.wait_for(asyncio.to_thread(mute_server.accept), 10)
    assert os.listdir(workspace) == [".gadget"], "commands of a project that is the workspace see nothing of it"
    assert [name.partition("-")[0] for name in os.listdir(workspace / ".gadget")] == ["hello.cloning"]
    started = time.monotonic()
    cloning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cloning
    assert time.monotonic() - started < 5
    with connection:
        connection.settimeout(5)
        while connection.recv(65536):
            pass  # to its end: git is gone
    assert left(workspace) == []


async def test_a_silent_clone_is_given_up(mute_server: socket.socket, workspace: Path) -> None:
    project = project_at(f"https://127.0.0.1:{mute_server.getsockname()[1]}/x")
    with pytest.raises(GadgetError, match="took too long") as failed:
        await ensure_cloned(project, workspace / "hello", allow_local=False, on_progress=quiet, silence_s=0.5)
    assert failed.value.retryable
    assert left(workspace) == []
