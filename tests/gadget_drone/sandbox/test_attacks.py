"""What a command in the sandbox tries, and does not get."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gadget_drone.sandbox.conftest import Place
from tests.gadget_drone.tools.test_shell import until


@pytest.mark.parametrize(
    "target",
    ["/etc/gadget-was-here", "/usr/bin/gadget-was-here", "/gadget-was-here", "/var/lib/gadget-was-here", "/sys/gadget"],
)
def test_nothing_outside_can_be_written(place: Place, target: str) -> None:
    assert place.run(f"echo x > {target}").returncode != 0
    assert not os.path.exists(target)


def test_files_next_to_the_project_can_be_neither_read_nor_changed(place: Place) -> None:
    state = place.workspace / ".gadget" / "workspace.json"
    secrets = (place.outside / "file", place.workspace / "other" / "file", state, place.home / ".netrc")
    line = f"for f in {' '.join(map(str, secrets))}; do cat $f; echo x > $f; rm -rf $(dirname $f); done; true"
    ran = place.run(line)
    assert "secret" not in ran.stdout
    assert (place.outside / "file").read_text() == "secret outside"
    assert (place.workspace / ".gadget" / "workspace.json").read_text() == "secret of the workspace"
    assert (place.workspace / "other" / "file").exists()
    assert (place.home / ".netrc").exists()


def test_links_do_not_lead_out(place: Place) -> None:
    (place.project / "link").symlink_to(place.outside)
    ran = place.run("cat link/file; echo x > link/file; ln -s /etc up && echo x > up/gadget-was-here; true")
    assert "secret" not in ran.stdout
    assert (place.outside / "file").read_text() == "secret outside"
    assert not Path("/etc/gadget-was-here").exists()


def test_the_drones_environment_and_memory_cannot_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GADGET_DRONE_TOKEN", "token-of-the-drone")
    monkeypatch.setenv("MY_API_KEY", "key-of-a-model")
    line = "cat /proc/*/environ /proc/1/cmdline; env; for p in /proc/[0-9]*; do echo $p; done"
    ran = place.run(line)
    assert "token-of-the-drone" not in ran.stdout
    assert "key-of-a-model" not in ran.stdout
    assert f"/proc/{os.getpid()}\n" not in ran.stdout
    assert ran.stdout.count("/proc/") < 20


def test_processes_outside_cannot_be_killed_or_traced(place: Place) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    try:
        ran = place.run(f"kill -9 {victim.pid}; kill -9 -1; true")
        assert victim.poll() is None, ran
    finally:
        victim.kill()
        victim.wait()


GIT_ATTACKS = [
    "mv .git moved",
    "rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
    "echo '#!/bin/sh' > .git/hooks/post-checkout",
    "git config core.fsmonitor /bin/false",
    "git config alias.status '!true'",
    "printf '[core]\\n\\tfsmonitor = x\\n' > .git/config",
    "mv .git/config .git/config.old",
    "mv .git/hooks .git/hooks.old",
    "rm .git/config && touch .git/config",
    "ln -sf /tmp/evil .git/config",
    "echo '* filter=x' > .git/info/attributes",
    "mkdir -p .git/modules/a && echo x > .git/modules/a/config",
    "unshare -Urm sh -c 'umount -l .git/config .git/hooks .git; umount -lR .; echo x >> .git/config'",
    "mount -o remount,rw .git/config; umount .git/config; umount .git; umount -l .git/hooks; echo x >> .git/config",
]


@pytest.mark.parametrize("line", GIT_ATTACKS)
def test_what_git_runs_later_stays_as_it_is(place: Place, line: str) -> None:
    def content() -> dict[str, bytes]:
        git = place.project / ".git"
        assert git.is_dir()
        paths = [git / "config", *git.glob("hooks/**/*"), *git.glob("info/**/*"), *git.glob("modules/**/*")]
        return {str(path.relative_to(git)): path.read_bytes() for path in paths if path.is_file()}

    before = content()
    place.run(line)
    assert content() == before


def test_a_commit_works(place: Place) -> None:
    ran = place.run("git add -A && git -c user.name=n -c user.email=e@e commit -qm one && git log --oneline")
    assert ran.returncode == 0, ran.stderr
    assert "one" in ran.stdout


@pytest.mark.parametrize(
    "line",
    [
        "mount -o remount,rw /",
        "unshare -Urm sh -c 'mount -o remount,rw / && touch /gadget-was-here'",
        "unshare -Urm sh -c 'mount -o remount,bind,rw / && touch /gadget-was-here'",
        "unshare -Urm sh -c 'umount -l /tmp; umount -l /home; ls /home'",
        "mknod /tmp/disk b 8 0 && head -c 1 /tmp/disk",
        "chroot /proc/1/root true",
        "nsenter -t 1 -m true",
        "unshare -Urmp --fork sh -c 'umount -l /proc; umount -l /dev/shm; mount -t proc proc /proc && ls /proc/2'",
        "echo c > /proc/sysrq-trigger",
    ],
)
def test_the_sandbox_cannot_be_taken_apart(place: Place, line: str) -> None:
    ran = place.run(f"{line}; cat {place.outside}/file {place.home}/.netrc; touch /gadget-was-here")
    assert ran.returncode != 0
    assert "secret" not in ran.stdout
    assert not Path("/gadget-was-here").exists()


@pytest.mark.parametrize("setting", ["kernel/hostname", "kernel/core_pattern", "vm/swappiness"])
def test_the_machines_settings_cannot_be_changed(place: Place, setting: str) -> None:
    """Root may without any capability; `core_pattern` is a way out. The same value is written: it is a real machine."""
    ran = place.run(f"value=$(cat /proc/sys/{setting}); printf '%s\\n' \"$value\" > /proc/sys/{setting}")
    assert ran.returncode != 0
    ran = place.run("find /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs /proc/acpi /proc/scsi -writable")
    assert ran.stdout == ""


@pytest.mark.parametrize("process", ["self", "1"])
def test_neither_a_command_nor_what_watches_over_it_has_capabilities(place: Place, process: str) -> None:
    ran = place.run(f"cat /proc/{process}/status")
    status = dict(line.split(":\t", 1) for line in ran.stdout.splitlines() if ":\t" in line)
    for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"):
        assert status[name] == "0" * 16, name
    assert status["NoNewPrivs"] == "1"


def test_sockets_of_the_machine_are_hidden(place: Place, tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    path = place.outside / "s"
    listening.bind(str(path))
    with listening:
        ran = place.run(
            f"ls {path} /run/docker.sock /run/dbus/system_bus_socket /var/run/docker.sock /run/user", network=True
        )
    assert ran.stdout == ""
    assert ran.returncode != 0


CONNECT = "import socket,sys; s=socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print(s.recv(9).decode())"


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_by_policy_alone(place: Place, network: bool) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no python3 of the system")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.sendall(b"reached")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        ran = place.run(f'{python} -c "{CONNECT}" {server.getsockname()[1]}', network=network)
        with socket.create_connection(server.getsockname(), 5):
            thread.join(5)
    assert ("reached" in ran.stdout) is network, ran.stderr


def test_environment_that_leads_out_is_dropped(place: Place) -> None:
    ran = place.run("env", SSH_AUTH_SOCK="/x", DBUS_SESSION_BUS_ADDRESS="/x", XDG_RUNTIME_DIR="/x", KEPT="yes")
    names = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    assert not names & {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}
    assert "KEPT" in names


async def test_a_fork_bomb_ends_with_its_sandbox(place: Place) -> None:
    mark = f"{time.time_ns() % 10**9}"
    line = f"ulimit -u 200 2>/dev/null; i=0; while [ $i -lt 60 ]; do sleep 1000.{mark} & i=$((i+1)); done; wait"
    running = await place.start(["/bin/sh", "-c", line], output=2)

    def alive() -> int:
        count = 0
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            count += f"1000.{mark}".encode() in words
        return count

    await until(lambda: alive() == 60)
    running.let_go()
    await until(lambda: alive() == 0)


def test_temporary_files_are_its_own_and_last(place: Place) -> None:
    name = f"gadget-{os.getpid()}-{time.time_ns()}"
    assert place.run(f"echo kept > /tmp/{name}; echo cached > ~/{name}").returncode == 0
    assert place.run(f"cat /tmp/{name} ~/{name}").stdout == "kept\ncached\n"
    assert not Path("/tmp", name).exists()
    assert not (place.home / name).exists()


def test_a_project_leaves_nothing_that_the_commands_of_another_one_would_run(place: Place) -> None:
    hooks = "mkdir ~/h; printf '#!/bin/sh\\ncat private >/tmp/of-b\\n' >~/h/pre-commit; chmod +x ~/h/pre-commit"
    assert place.run(f"{hooks}; git config --global core.hooksPath ~/h; echo x >/tmp/x").returncode == 0
    projects = [place.workspace / "other", place.workspace, place.workspace / "project/other"]
    for project in projects:
        subprocess.run(["git", "init", "-q", project], check=True)
        (project / "private").write_text("secret of another project")
        line = "ls -A ~; ls /tmp/x; git add private; git -c user.name=x -c user.email=x commit -qm x"
        ran = replace(place, project=project).run(line)
        assert (ran.stdout, ran.returncode) == ("", 0), ran
    assert place.run("cat /tmp/of-b").stdout == ""


def test_tools_of_the_home_that_are_on_the_path_work_and_cannot_be_changed(place: Place) -> None:
    tools = place.home / ".cargo" / "bin"
    tools.mkdir(parents=True)
    (tools / "mytool").write_text("#!/bin/sh\necho worked\n")
    (tools / "mytool").chmod(0o755)
    (place.home / ".cargo" / "credentials.toml").write_text("secret")
    ran = place.run(
        "mytool; echo x >> ~/.cargo/bin/mytool; cat ~/.cargo/credentials.toml", PATH=f"{tools}:/usr/bin:/bin"
    )
    assert ran.stdout == "worked\n"
    assert "x" not in (tools / "mytool").read_text().splitlines()


def test_the_interpreter_of_the_tests_runs(place: Place) -> None:
    path = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"
    ran = place.run("python3 -c 'print(6*7)'", PATH=path, HOME=os.path.expanduser("~"))
    assert ran.stdout == "42\n", ran.stderr


@pytest.mark.parametrize(
    "line", ["unshare -Ur true", "unshare -U true", "unshare -UrmC mount -t cgroup2 none /sys/fs/cgroup"]
)
def test_a_command_makes_no_namespace_of_users(line: str, place: Place) -> None:
    """In one of its own it would have every right again: enough to end all of the drone's control group as root."""
    ran = place.run(line)
    assert ran.returncode != 0
    assert "made" not in place.run(f"{line} && echo made; true").stdout
