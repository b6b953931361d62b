"""What of the machine a command sees: programs, and nobody's data."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gadget_drone.sandbox.machine import own_state, private_places, toolchains
from gadget_drone.sandbox.standing import Standing
from gadget_drone.sandbox.wrap import machine
from tests.gadget_drone.sandbox.conftest import Place

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="only root can put files there")


@pytest.fixture(params=["/var/lib", "/srv", "/opt", "/etc", "/mnt", "/"])
def data_dir(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A service's data directory, with a key, a sign-in file and a socket, closed to other accounts."""
    if os.getuid() != 0:
        pytest.skip("only root can put files there")
    where: str = request.param
    directory = Path(tempfile.mkdtemp(prefix="gadget-test-", dir=where))
    listening = socket.socket(socket.AF_UNIX)
    try:
        (directory / "secret.key").write_text("secret of the service")
        listening.bind(str(directory / "mongodb.sock"))
        machine.cache_clear()
        yield directory
    finally:
        listening.close()
        shutil.rmtree(directory)
        machine.cache_clear()


def test_a_data_directory_is_hidden_wherever_it_is(data_dir: Path, place: Place) -> None:
    ran = place.run(
        f"ls -A {data_dir}; cat {data_dir}/secret.key; test -S {data_dir}/mongodb.sock && echo socket; true"
    )
    assert ran.stdout == ""


def test_what_the_drone_is_told_of_is_hidden_in_the_project_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    state, login, key = place.project / "data", place.project / "config/gadget-code", place.project / "k"
    for directory in (state, login):
        directory.mkdir(parents=True)
        (directory / "file").write_text("secret")
    key.write_text("secret")
    monkeypatch.setenv("GADGET_DATA_DIR", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(login.parent))
    monkeypatch.setenv("GADGET_SECRET_KEY_FILE", str(key))
    assert own_state(os.environ) == [str(login), str(state), str(key)]
    assert "secret" not in place.run(f"cat {state}/file {login}/file {key}; true").stdout


@pytest.mark.parametrize(
    "directory", ["/srv", "/mnt", "/media", "/var/lib", "/var/log", "/boot", "/home", "/root", "/run"]
)
def test_what_is_no_program_of_the_system_is_not_there(directory: str, place: Place) -> None:
    listed = place.run(f"ls -A {directory} 2>/dev/null; true", PATH="/usr/bin:/bin").stdout.split()
    assert set(listed) <= {"dpkg", "gems", "ghc", "texmf", "systemd"}, listed  # systemd: the resolver's file


def test_another_drones_workspace_is_not_there(place: Place) -> None:
    other = place.workspace.parent / "another"
    (other / ".gadget").mkdir(parents=True)
    (other / "file").write_text("secret")
    assert place.run(f"ls {other}; cat {other}/file; ls {place.workspace.parent}").stdout.split() == ["home", "space"]


@ROOT_ONLY
def test_files_that_are_closed_to_other_accounts_are_not_read(place: Place) -> None:
    hidden = [path for path in private_places() if os.path.isfile(path)]
    assert "/etc/shadow" in hidden
    assert place.run(f"cat {' '.join(hidden)}").stdout == ""


def test_programs_of_the_system_work(place: Place) -> None:
    ran = place.run("ls / >/dev/null && git --version && id -u && nproc && test -e /bin/sh && test -d /usr/lib && pwd")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta"])
def test_an_environment_on_the_path_is_shown_whole(mark: str, place: Place, tmp_path: Path) -> None:
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    (prefix / mark).touch()
    (prefix / "lib").write_text("needed\n")
    path = f"{prefix}/bin:/usr/bin:/bin"
    assert toolchains({"PATH": path}, str(place.home)) == [str(prefix)]
    assert place.run(f"cat {prefix}/lib; ls {tmp_path}/outside", PATH=path).stdout == "needed\n"


def test_paths_that_the_drones_owner_names_are_shown_read_only(place: Place, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / "file").write_text("needed\n")
    line = f"cat {sdk}/file; echo x > {sdk}/file"
    assert place.run(line).stdout == ""
    place.standing.close()
    shown = Place(place.workspace, place.project, place.home, place.outside, Standing([str(sdk)]))
    try:
        assert shown.run(line).stdout == "needed\n"
    finally:
        shown.standing.close()
    assert (sdk / "file").read_text() == "needed\n"
