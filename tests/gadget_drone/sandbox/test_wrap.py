"""A sandboxed command under the drone's supervisor, and what is said of the sandbox."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from gadget_drone.environment import child_environment
from gadget_drone.sandbox.denials import denied_by_sandbox
from gadget_drone.sandbox.probe import NoSandbox, probe
from gadget_drone.sandbox.wrap import mend_repository, wrap
from gadget_drone.supervised import Supervisor
from tests.gadget_drone.sandbox.conftest import Place


@pytest.mark.parametrize(
    ("line", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("no-such-program", 127)]
)
async def test_statuses_pass_through_the_supervisor(place: Place, line: str, status: int) -> None:
    supervisor = Supervisor()
    argv, env = place.wrapped(line)
    output = os.open(os.devnull, os.O_WRONLY)
    running = supervisor.start(argv, cwd=place.project, env=env, output=output)
    os.close(output)
    async with asyncio.timeout(20):
        ended = await running.ended()
    assert ended.status == status
    supervisor.close()


@pytest.mark.parametrize("keeps_background", [False, True])
async def test_a_kill_ends_everything_inside(place: Place, keeps_background: bool) -> None:
    supervisor = Supervisor()
    # Beside the command stands what it has left in the background, in a session of its own.
    argv, env = place.wrapped(
        "setsid sleep 300 & (trap '' TERM; echo up; sleep 300)", keeps_background=keeps_background
    )
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said:
        with os.fdopen(writing, "wb") as output:
            running = supervisor.start(argv, cwd=place.project, env=env, output=output.fileno())
        assert await asyncio.wait_for(asyncio.to_thread(said.readline), 20) == b"up\n"
        assert await running.kill()
        # Nobody holds the pipe any more.
        assert await asyncio.wait_for(asyncio.to_thread(said.read), 20) == b""
    supervisor.close()


@pytest.mark.parametrize("keeps_background", [False, True])
async def test_what_is_left_in_the_background_lives_on_by_choice(place: Place, keeps_background: bool) -> None:
    supervisor = Supervisor()
    argv, env = place.wrapped("sleep 300 &", keeps_background=keeps_background)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said:
        with os.fdopen(writing, "wb") as output:
            running = supervisor.start(argv, cwd=place.project, env=env, output=output.fileno())
        async with asyncio.timeout(20):
            ended = await running.ended()
        assert ended.status == 0
        # The background process holds the pipe for as long as it lives.
        closed = asyncio.create_task(asyncio.to_thread(said.read))
        await asyncio.wait({closed}, timeout=0.5 if keeps_background else 20)
        assert closed.done() is not keeps_background
        assert await running.kill()
        async with asyncio.timeout(20):
            await closed
    supervisor.close()


def test_paths_that_a_policy_denies_are_hidden_or_read_only(place: Place) -> None:
    (place.project / ".env").write_text("secret")
    (place.project / "keys").mkdir()
    (place.project / "keys" / "a").write_text("secret")
    (place.project / "fixed").write_text("as it was")
    argv, env = wrap(
        ["/bin/sh", "-c", "cat .env keys/a; echo x > fixed; mv .env b; cat b; true"],
        child_environment() | {"HOME": str(place.home)},
        project_dir=place.project,
        workspace_dir=place.workspace,
        network=False,
        hidden=[place.project / ".env", place.project / "keys", place.project / "missing"],
        read_only=[place.project / "fixed"],
    )
    ran = subprocess.run(argv, env=env, cwd=place.project, capture_output=True, text=True, timeout=20)
    assert "secret" not in ran.stdout
    assert (place.project / "fixed").read_text() == "as it was"


def test_a_planted_commondir_is_taken_away(place: Place) -> None:
    assert not mend_repository(place.project)
    place.run("echo /tmp/evil > .git/commondir")
    assert mend_repository(place.project)
    assert not (place.project / ".git" / "commondir").exists()


def test_a_probe_says_why_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert probe("off").reason == "It is switched off in the drone's settings."
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(tmp_path))
    found = probe()
    assert found.kind == "none"
    assert found.reason is not None
    assert "No permissions to create new namespace" in found.reason
    assert "AppArmor" in found.reason
    with pytest.raises(NoSandbox, match="does not work here"):
        probe("required")
    refusing.unlink()
    assert "install the system's package" in (probe().reason or "")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("echo x > /etc/motd-of-gadget", "only the project, the home and /tmp"),
        ("git config user.name x", ".git/config"),
        ("git ls-remote https://example.invalid/x", "no network here"),
        ("docker ps 2>&1 || { echo 'Cannot connect: unix:///var/run/docker.sock: no such file'; exit 1; }", "sockets"),
        ("chroot / true", "rights of an administrator"),
    ],
)
def test_a_denial_is_labelled_with_what_would_help(place: Place, line: str, says: str) -> None:
    ran = place.run(line)
    label = denied_by_sandbox(ran.stdout + ran.stderr, ran.returncode, network=False)
    assert label is not None, ran
    assert says in label
    assert "would help" in label.replace("What would help", "would help")


def test_no_denial_is_seen_where_there_is_none() -> None:
    assert denied_by_sandbox("Read-only file system", 0, network=False) is None
    assert denied_by_sandbox("AssertionError: 1 != 2", 1, network=False) is None
    assert denied_by_sandbox("Could not resolve host: x.test", 6, network=True) is None
