"""`gadget-drone` as a person meets it: each refusal is one plain sentence on stderr, with the right status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Drone, User, clean_environment, until

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens


def gadget_drone(
    *arguments: str, cwd: Path | None = None, timeout: float = 60, **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "gadget_drone", *arguments],
        cwd=cwd,
        env=clean_environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("gadget-drone: ")
    return last


def test_help_and_wrong_usage() -> None:
    assert gadget_drone("--help").returncode == 0
    assert gadget_drone("start", "--help").returncode == 0
    assert gadget_drone("fly").returncode == 2
    assert gadget_drone("--altitude", "3").returncode == 2


def test_a_workspace_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    home = tmp_path / "home"
    home.mkdir()
    for place, says in (
        (file, "not a directory"),
        (Path("/"), "root directory"),
        (home, "home directory"),
        (tmp_path / "no" / "where", "no directory"),
    ):
        done = gadget_drone("--workspace", str(place), "--server", NOWHERE, GADGET_DRONE_TOKEN="t", HOME=str(home))
        assert says in refusal(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]
    assert list(home.iterdir()) == []


def test_a_workspace_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / ".gadget").mkdir()
    newer = json.dumps({"version": 99, "workspaceId": "x"})
    (tmp_path / ".gadget" / "workspace.json").write_text(newer)
    said = refusal(gadget_drone(cwd=tmp_path, GADGET_DRONE_TOKEN="t", GADGET_SERVER_URL=NOWHERE))
    assert "update gadget-drone" in said
    assert (tmp_path / ".gadget" / "workspace.json").read_text() == newer


def test_without_credentials_and_without_a_terminal_it_says_what_to_set(tmp_path: Path) -> None:
    said = refusal(gadget_drone(cwd=tmp_path, GADGET_SERVER_URL=NOWHERE))
    assert "GADGET_DRONE_TOKEN" in said


def test_an_invalid_setting_is_named(tmp_path: Path) -> None:
    said = refusal(gadget_drone(cwd=tmp_path, GADGET_LOG_LEVEL="shouting", GADGET_DRONE_TOKEN="t"))
    assert "GADGET_LOG_LEVEL" in said
    said = refusal(gadget_drone("--server", "not a url", cwd=tmp_path, GADGET_DRONE_TOKEN="t"))
    assert "URL" in said


async def test_a_server_says_no_to_a_wrong_token_password_or_protocol(user: User, tmp_path: Path) -> None:
    wrong_token = gadget_drone(cwd=tmp_path, GADGET_DRONE_TOKEN="wrong", GADGET_SERVER_URL=user.url)
    assert "token" in refusal(wrong_token)
    wrong_password = gadget_drone(
        cwd=tmp_path, GADGET_EMAIL=user.email, GADGET_PASSWORD="wrong", GADGET_SERVER_URL=user.url
    )
    assert "password is wrong" in refusal(wrong_password)


async def test_a_server_that_is_not_there_yet_is_waited_for_and_a_stop_ends_the_waiting(
    user: User, tmp_path: Path
) -> None:
    env = clean_environment(GADGET_SERVER_URL=NOWHERE, GADGET_DRONE_TOKEN="t")
    drone = Drone([sys.executable, "-P", "-m", "gadget_drone"], env, tmp_path / "log", cwd=tmp_path)
    drone.workspace, drone.user = tmp_path, user
    drone.start()
    for _ in range(3000):
        if drone.log.exists() and "Trying again" in drone.output:
            break
        with pytest.raises(subprocess.TimeoutExpired):
            drone.wait(0.02)
    assert "No server answers" in drone.output
    assert drone.stop() == 0
    assert "Traceback" not in drone.output


async def test_it_signs_in_with_a_password_and_keeps_its_identity(user: User, tmp_path: Path) -> None:
    env = clean_environment(GADGET_SERVER_URL=user.url, GADGET_EMAIL=user.email, GADGET_PASSWORD=user.password)
    drone = Drone([sys.executable, "-P", "-m", "gadget_drone", "--name", "brave"], env, tmp_path / "log", cwd=tmp_path)
    drone.workspace, drone.user = tmp_path, user
    drone.start()
    first = await drone.until_available()
    assert first["name"] == "brave"
    assert drone.stop() == 0
    drone.start()
    again = await drone.until_available()
    assert drone.stop() == 0
    assert (again["_id"], again["workspaceId"]) == (first["_id"], first["workspaceId"])
    assert user.password not in "".join(
        path.read_text(errors="replace") for path in (tmp_path / ".gadget").rglob("*") if path.is_file()
    )


async def test_status_tells_what_a_workspace_is(user: User, tmp_path: Path) -> None:
    fresh = gadget_drone("status", cwd=tmp_path)
    assert fresh.returncode == 0
    assert "no drone has worked here" in fresh.stdout
    drone = await Drone.at(tmp_path, user)

    async def has_noted_it() -> bool | None:
        return True if '"available"' in (drone.gadget / "workspace.json").read_text() else None

    try:
        await until(has_noted_it)
        running = json.loads(gadget_drone("status", "--json", "--workspace", str(drone.workspace)).stdout)
        assert running["running"] is True
        assert running["pid"] == drone.pid
        assert running["workspace"]["registration"]["status"] == "available"
        told = gadget_drone("status", "--workspace", str(drone.workspace)).stdout
        assert str(drone.pid) in told
    finally:
        drone.stop()
    after = json.loads(gadget_drone("status", "--json", "--workspace", str(drone.workspace)).stdout)
    assert after["running"] is False
    assert after["workspace"]["registration"]["status"] == "offline"
    assert gadget_drone("status", "--workspace", str(tmp_path / "none")).returncode == 1


async def test_doctor_names_what_is_missing_and_how_to_mend_it(user: User, tmp_path: Path) -> None:
    well = gadget_drone("doctor", "--json", "--server", user.url, cwd=tmp_path)
    findings = {finding["what"]: finding for finding in json.loads(well.stdout)}
    assert well.returncode == 0, well.stdout
    assert findings["server"]["ok"] is True
    assert findings["ripgrep"]["ok"] is True
    ill = gadget_drone("doctor", "--server", NOWHERE, cwd=tmp_path)
    assert ill.returncode == 1
    assert "MISSING server" in ill.stdout
    assert "gadget-code serve" in ill.stdout
