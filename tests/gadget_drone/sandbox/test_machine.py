"""What of the machine a command sees: programs, and nobody's data."""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gadget_drone.processes.programs import find_ripgrep
from gadget_drone.sandbox.machine import SYSTEM, own_state, private_places, toolchains
from gadget_drone.sandbox.standing import Standing
from tests.gadget_drone.sandbox.conftest import Place

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="only root can put files there")


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A directory that is shown as /etc and /opt are: those of the machine are seen by other tests, too."""
    if os.getuid() != 0:
        pytest.skip("only root can put files there")
    with tempfile.TemporaryDirectory(prefix="gadget-", dir="/srv") as directory:
        Path(directory).chmod(0o755)
        for module in ("machine", "wrap"):
            monkeypatch.setattr(f"gadget_drone.sandbox.{module}.SYSTEM", (*SYSTEM, directory))
        monkeypatch.setattr("gadget_drone.sandbox.machine._MAY_HOLD_SECRETS", (("/etc", 8), (directory, 6)))
        yield directory


@pytest.fixture(params=["/var/lib", "/srv", "/mnt", "/", "as /opt"])
def data_dir(request: pytest.FixtureRequest, system: str) -> Iterator[Path]:
    """A service's data directory, with a key, a sign-in file and a socket, closed to other accounts."""
    where: str = system if request.param == "as /opt" else request.param
    directory = Path(tempfile.mkdtemp(prefix="gadget-test-", dir=where))
    listening = socket.socket(socket.AF_UNIX)
    try:
        (directory / "secret.key").write_text("secret of the service")
        listening.bind(str(directory / "mongodb.sock"))
        yield directory
    finally:
        listening.close()
        shutil.rmtree(directory)


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


@pytest.mark.parametrize("directory", ["/mnt", "/media", "/var/lib", "/var/log", "/boot", "/home", "/root", "/run"])
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
    asyncio.run(place.standing.close())
    shown = Place(place.workspace, place.project, place.home, place.outside, Standing(place.workspace, [str(sdk)]))
    try:
        assert shown.run(line).stdout == "needed\n"
    finally:
        asyncio.run(shown.standing.close())
    assert (sdk / "file").read_text() == "needed\n"


@pytest.mark.parametrize("path", [".local/bin", ".local/share/pipx/venvs/drone/bin", "none"])
def test_ripgrep_beside_the_drones_python_is_there(path: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = place.home / ".local/share/pipx/venvs/drone/bin"
    for directory in (beside, place.home / ".local/bin"):
        directory.mkdir(parents=True)
    (beside.parent / "pyvenv.cfg").touch()
    shutil.copy(find_ripgrep() or "", beside / "rg")
    with monkeypatch.context() as installed:
        installed.setattr(sys, "executable", str(beside / "python"))
        standing = Standing(place.workspace)
    shown = Place(place.workspace, place.project, place.home, place.outside, standing)
    try:
        ran = shown.run(f"{beside}/rg --version", PATH=f"{place.home}/{path}:/usr/bin:/bin")
        assert ran.stdout.startswith("ripgrep"), ran.stderr
    finally:
        asyncio.run(standing.close())


def test_a_path_entry_that_a_command_has_made_a_link_of_shows_nothing(place: Place, tmp_path: Path) -> None:
    (tmp_path / "lnk").symlink_to(place.workspace)
    (place.project / "bin").symlink_to(place.outside)
    path = f"{tmp_path}/lnk/project/bin:{place.project}/bin:/usr/bin:/bin"
    ran = place.run(f"cat {tmp_path}/lnk/project/bin/file bin/file {place.outside}/file; true", PATH=path)
    assert ran.stdout == ""


def test_a_directory_that_is_shown_hides_what_is_gadgets_own(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gadget").mkdir()
    (tmp_path / "gadget/secret.key").write_text("secret")
    monkeypatch.setenv("GADGET_DATA_DIR", str(tmp_path / "gadget"))
    (tmp_path / "other").symlink_to(tmp_path)
    asyncio.run(place.standing.close())
    for named in (tmp_path, tmp_path / "other"):
        shown = Place(
            place.workspace, place.project, place.home, place.outside, Standing(place.workspace, [str(named)])
        )
        try:
            line = f"cat {named}/gadget/* {named}/space/.gadget/* {named}/space/other/file; cat {named}/outside/file"
            assert shown.run(line).stdout == "secret outside"
        finally:
            asyncio.run(shown.standing.close())


def test_secrets_beside_programs_of_the_home_are_not_shown(place: Place) -> None:
    for name in (".local/share/uv/credentials/c.toml", ".dotnet/corefx/x509/key.pfx"):
        (place.home / name).parent.mkdir(parents=True)
        (place.home / name).write_text("secret")
    for name in (".local/bin", ".dotnet/tools"):
        (place.home / name).mkdir(parents=True)
    path = f"{place.home}/.local/bin:{place.home}/.dotnet/tools:/usr/bin:/bin"
    assert place.run("cat ~/.local/share/uv/*/* ~/.dotnet/corefx/*/*; true", PATH=path).stdout == ""


@pytest.mark.parametrize("left", ["touch", "ln -s /", "ln -s /oldroot/tmp/gadget-was-here", "mkfifo"])
def test_what_a_command_leaves_in_its_home_stops_no_command(left: str, place: Place) -> None:
    """A mount has to be where it left something: a directory of programs that PATH names, a project in the home."""
    tools = place.home / ".local/bin"
    tools.mkdir(parents=True)
    path = f"{tools}:/usr/bin:/bin"
    nested = Place(place.workspace, place.project, place.workspace.parent, place.outside, place.standing)
    for where, name in ((place, ".local"), (nested, "space")):
        where.run(f"cd ~; mv {name} moved; {left} {name}", PATH=path)
        assert where.run(f"echo works; cat {where.outside}/file; true", PATH=path).stdout == "works\n"
    assert not Path("/tmp/gadget-was-here").exists()


def test_directories_that_a_command_has_closed_are_opened(place: Place) -> None:
    place.run("chmod 0 ~ /tmp .git")
    assert place.run("echo works; git status --short").stdout == "works\n?? README\n"


def test_a_key_that_is_put_beside_programs_later_is_hidden_soon(
    place: Place, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gadget_drone.sandbox.standing.LOOK_AGAIN_S", 0.0)
    Path(system, "open").write_text("seen")
    line = f"cat {system}/open {system}/key"
    assert place.run(line).stdout == "seen"
    Path(system, "key").write_text("secret")
    Path(system, "key").chmod(0o600)
    assert place.run(line).stdout == "seen"


def test_the_drones_own_programs_in_the_project_stay_as_they_are(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    own = place.project / "tools/.venv"
    (own / "bin").mkdir(parents=True)
    (own / "bin/python").write_text("as it was")
    monkeypatch.setattr("sys.prefix", str(own))
    place.run("echo x > tools/.venv/bin/python; mv tools moved; touch tools/.venv/lib")
    assert (own / "bin/python").read_text() == "as it was"
    assert not (own / "lib").exists()
