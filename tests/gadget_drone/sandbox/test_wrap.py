"""A command in the sandbox: how it ends, what it may, and what is said of the sandbox."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gadget_drone.sandbox.denials import denied_by_sandbox
from gadget_drone.sandbox.probe import NoSandbox, probe
from tests.gadget_drone.sandbox.conftest import Place
from tests.harness import clean_environment


@pytest.mark.parametrize(
    ("line", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL 0", -9), ("no-such-program", 127)],
)
def test_statuses_are_those_of_a_command_without_a_sandbox(place: Place, line: str, status: int) -> None:
    assert place.run(line).returncode == status


async def test_a_kill_ends_everything_inside(place: Place) -> None:
    # Beside the command stands what it has left in the background, in a session of its own.
    line = "setsid sleep 300 & (trap '' TERM; echo up; sleep 300)"
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said:
        with os.fdopen(writing, "wb") as output:
            running = await place.start(["/bin/sh", "-c", line], output=output.fileno())
        assert await asyncio.wait_for(asyncio.to_thread(said.readline), 20) == b"up\n"
        assert await running.kill()
        # Nobody holds the pipe any more.
        assert await asyncio.wait_for(asyncio.to_thread(said.read), 20) == b""


async def test_what_is_left_in_the_background_lives_on_until_it_is_ended(place: Place) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said:
        with os.fdopen(writing, "wb") as output:
            running = await place.start(["/bin/sh", "-c", "sleep 300 &"], output=output.fileno())
        async with asyncio.timeout(20):
            ended = await running.ended()
        assert (ended.status, ended.group, ended.is_something_left) == (0, None, True)
        # The background process holds the pipe for as long as it lives.
        closed = asyncio.create_task(asyncio.to_thread(said.read))
        await asyncio.wait({closed}, timeout=0.5)
        assert not closed.done()
        assert await running.kill()
        async with asyncio.timeout(20):
            await closed


async def test_paths_that_a_policy_denies_are_hidden_or_read_only(place: Place) -> None:
    (place.project / ".env").write_text("secret")
    (place.project / "keys").mkdir()
    (place.project / "keys" / "a").write_text("secret")
    (place.project / "fixed").write_text("as it was")
    with (place.outside / "printed").open("w+b") as output:
        running = await place.start(
            ["/bin/sh", "-c", "cat .env keys/a; echo x > fixed; mv .env b; cat b; touch keys/b && echo made; true"],
            output=output.fileno(),
            hidden=[place.project / ".env", place.project / "keys", place.project / "missing"],
            read_only=[place.project / "fixed"],
        )
        assert (await asyncio.wait_for(running.ended(), 20)).status == 0
        output.seek(0)
        printed = output.read()
    assert b"secret" not in printed
    assert b"made" not in printed
    assert (place.project / "fixed").read_text() == "as it was"


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
    "what", ["echo 'bwrap: Creating new namespace failed: Resource temporarily unavailable' >&2", ""]
)
def test_a_failure_that_may_pass_is_not_taken_for_a_machine_without_a_sandbox(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n[ $1 = --help ] && exit\n{what or 'sleep 600'}\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(tmp_path))
    monkeypatch.setattr("gadget_drone.sandbox.standing.MAKE_S", 1.0)
    with pytest.raises(NoSandbox, match="temporarily unavailable" if what else "within 1 s"):
        probe()


@pytest.mark.parametrize("files", [2, 4, 6])
def test_no_drone_starts_where_a_full_disk_leaves_it_open_whether_there_is_a_sandbox(
    files: int, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    full = tmp_path / "full"
    full.mkdir()
    (tmp_path / "space").mkdir()
    drone = "-P -m gadget_drone --workspace $1/space --server http://127.0.0.1:9"
    line = f"mount -t tmpfs -o nr_inodes={files} tmpfs $1/full && TMPDIR=$1/full exec $0 {drone}"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", line, sys.executable, tmp_path],
        env=clean_environment(GADGET_DRONE_TOKEN="t"),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ran.returncode == 1
    said = ran.stderr.splitlines()[-1]
    assert said.startswith("gadget-drone: The sandbox was tried, and failed: "), ran.stderr
    assert "No space left" in said
    assert "GADGET_SANDBOX=off" in said


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
