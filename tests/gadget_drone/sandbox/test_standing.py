"""The sandbox that stands: used again while it is what a fresh one would be, and what commands in it do not share."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.processes.supervised import NotStarted, Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.sandbox.conftest import OUTPUT, Place
from tests.gadget_drone.tools.test_shell import is_running, until

REPOSITORY = Path(__file__).parents[3]
SANDBOX = "readlink /proc/self/ns/net"
"""Names the sandbox that stands: a command in it has no other network."""


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As quick as they may be: no time is in them, and a job's first words are."""
    monkeypatch.setattr("gadget_drone.tools.shell._WORTH_TELLING_S", 60.0)
    monkeypatch.setattr("gadget_drone.tools.shell._FIRST_WORDS_S", 20.0)


def is_made_anew(place: Place, change: Callable[[], object]) -> bool:
    before = place.run(SANDBOX).stdout
    assert place.run(SANDBOX).stdout == before
    change()
    return place.run(SANDBOX).stdout != before


def replace(path: Path, content: str = "secret") -> None:
    """As git and editors do."""
    new = path.with_name("new")
    new.write_text(content)
    new.rename(path)


def move_and_make(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "git's configuration is written by git": lambda project, _: subprocess.run(
        ["git", "-C", project, "config", "user.name", "n"], check=True
    ),
    "git's configuration is taken away, and the same file comes back": lambda project, _: subprocess.run(
        ["/bin/sh", "-c", "ln config kept; rm config; mv kept config"], cwd=project / ".git", check=True
    ),
    "git's configuration is taken away": lambda project, _: (project / ".git" / "config").unlink(),
    "the hooks are another directory": lambda project, _: move_and_make(project / ".git" / "hooks"),
    "a worktree's configuration is another file": lambda project, _: replace(project / ".git" / "config.worktree", ""),
    "the repository is another": lambda project, _: move_and_make(project / ".git"),
    "the project is another directory": lambda project, _: move_and_make(project),
    "the home is another": lambda _, workspace: move_and_make(workspace / ".gadget/home/project"),
    "/tmp is another": lambda _, workspace: move_and_make(workspace / ".gadget/tmp/project"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_made_anew_when(what: str, place: Place) -> None:
    assert is_made_anew(place, lambda: CHANGES[what](place.project, place.workspace))


async def test_another_policy_makes_another_and_back(place: Place) -> None:
    os.mkfifo(place.project / "go")

    async def sandbox(*, network: bool) -> str:
        with (place.outside / "said").open("w+b") as output:
            running = await place.start(["/bin/sh", "-c", SANDBOX], output=output.fileno(), network=network)
            assert (await asyncio.wait_for(running.ended(), 20)).status == 0
            output.seek(0)
            return output.read().decode()

    before = await sandbox(network=False)
    with (place.outside / "held").open("wb") as output:
        held = await place.start(["/bin/sh", "-c", "cat go"], output=output.fileno())  # else its name may come again
    own = f"{os.readlink('/proc/self/ns/net')}\n"
    assert await sandbox(network=True) == own
    assert await sandbox(network=False) not in (before, own)
    await asyncio.to_thread((place.project / "go").write_text, "")
    assert (await asyncio.wait_for(held.ended(), 20)).status == 0


def test_configuration_that_git_has_replaced_is_read_only_for_the_next_command(place: Place) -> None:
    config = place.project / ".git" / "config"
    assert place.run("true").returncode == 0
    subprocess.run(["git", "-C", place.project, "config", "user.name", "n"], check=True)
    written = config.read_text()
    place.run("git config core.fsmonitor /bin/false; echo x >> .git/config; mv .git/config .git/moved; rm .git/config")
    assert config.read_text() == written
    place.run("true")
    config.rename(config.with_name("taken"))  # and what was never shown since
    config.write_text(written)
    place.run("echo x >> .git/config")
    assert config.read_text() == written


async def test_a_file_that_is_denied_stays_hidden_when_it_is_replaced(place: Place) -> None:
    env, fixed = place.project / ".env", place.project / "fixed"
    env.write_text("secret")
    fixed.write_text("as it was")

    async def run() -> str:
        with (place.workspace / OUTPUT).open("wb") as output:
            running = await place.start(
                ["/bin/sh", "-c", "cat .env; echo x > fixed; true"],
                output=output.fileno(),
                hidden=[env],
                read_only=[fixed],
            )
            await asyncio.wait_for(running.ended(), 20)
        return (place.workspace / OUTPUT).read_text()

    assert "secret" not in await run()
    replace(env)
    assert "secret" not in await run()
    replace(fixed, "replaced")
    assert "secret" not in await run()
    assert fixed.read_text() == "replaced"


MOUNTS = """
import subprocess, sys
from pathlib import Path
from tests.gadget_drone.sandbox.conftest import Place
from gadget_drone.sandbox.standing import Standing
place = Place(*map(Path, sys.argv[1:]), Standing(Path(sys.argv[1])))
data = place.project / "data"
data.mkdir()
before = place.run("readlink /proc/self/ns/net; ls data").stdout
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", data], check=True)
(data / "on-it").touch()
after = place.run("readlink /proc/self/ns/net; ls data").stdout
import asyncio
asyncio.run(place.standing.close())
assert before.split()[0] != after.split()[0] and after.split()[1:] == ["on-it"], (before, after)
"""


@pytest.mark.parametrize("propagation", ["private", "shared"])
def test_what_is_mounted_on_the_machine_is_there(place: Place, propagation: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    places = [str(path) for path in (place.workspace, place.project, place.home, place.outside)]
    # In mounts of its own: the machine's stay as they are.
    command = ["unshare", "--mount", "--propagation", propagation, sys.executable, "-c", MOUNTS, *places]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_nothing_passes_to_the_next_command_but_by_the_project_the_home_and_tmp(place: Place) -> None:
    places = "/ /dev /dev/shm /dev/pts /run /proc /sys /var/spool /var/lib /mnt"
    place.run(f"for d in {places}; do mkdir -p $d; touch $d/left-behind; done; ipcmk -M 100; ipcmk -S 1; ipcmk -Q")
    ran = place.run(f"ls {places} | grep left-behind; ipcs | grep -c 0x")
    assert "left-behind" not in ran.stdout
    assert ran.stdout == "0\n"


def test_shared_memory_works_within_a_command(place: Place) -> None:
    assert place.run("echo x > /dev/shm/y && cat /dev/shm/y && echo z > /dev/null").stdout == "x\n"


def test_the_process_that_watches_over_a_command_gives_nothing_away(place: Place) -> None:
    ran = place.run(
        "cat /proc/1/environ /proc/1/maps /proc/1/mem /proc/1/stack /proc/1/fd/* /proc/1/root/etc/hostname; "
        "readlink /proc/1/ns/* /proc/1/exe /proc/1/cwd /proc/1/root /proc/1/fd/*; "
        "nsenter -t 1 -m -n -p ls; head -c 1 /proc/1/fdinfo/*"
    )
    assert ran.stdout == ""
    ran = place.run("kill -9 1; kill -TERM 1; kill -HUP 1; kill -INT 1; kill -CHLD 1; echo alive")
    assert (ran.stdout, ran.returncode) == ("alive\n", 0)


def test_a_command_has_the_three_standard_descriptors_alone(place: Place) -> None:
    ran = place.run("cd /proc/self/fd && for fd in *; do readlink $fd > /dev/null && echo $fd; done")
    assert ran.stdout == "0\n1\n2\n"


async def test_commands_at_once_share_a_sandbox_and_see_nothing_of_each_other(place: Place) -> None:
    os.mkfifo(place.project / "go")
    namespaces = "for n in net uts cgroup user pid ipc mnt; do readlink /proc/self/ns/$n; done"
    victim = f"exec 3<>/dev/shm/mine; echo secret >&3; {namespaces}; cat go"
    with (place.outside / "one").open("w+b") as one, (place.outside / "two").open("w+b") as two:
        running = await place.start(["/bin/sh", "-c", victim], output=one.fileno())
        await until(lambda: (place.outside / "one").read_text().count("\n") == 7)
        attack = f"{namespaces}; ls /dev/shm; set -- /proc/[0-9]*; echo $#; kill -9 -1 2>/dev/null; true"
        attacking = await place.start(["/bin/sh", "-c", attack], output=two.fileno())
        assert (await asyncio.wait_for(attacking.ended(), 20)).status == 0
        await asyncio.to_thread((place.project / "go").write_text, "on\n")
        assert (await asyncio.wait_for(running.ended(), 20)).status == 0
    first, second = ((place.outside / name).read_text().split() for name in ("one", "two"))
    assert first[7:] == ["on"]
    assert second[:4] == first[:4]
    assert not {*second[4:7]} & {*first[4:7]}
    # Itself, and who watches over it.
    assert second[7:] == ["2"]


async def test_what_runs_goes_on_in_its_sandbox_when_another_is_made(place: Place) -> None:
    os.mkfifo(place.project / "go")
    with (place.outside / "one").open("w+b") as one:
        running = await place.start(["/bin/sh", "-c", f"{SANDBOX}; cat go; {SANDBOX}"], output=one.fileno())
        await until(lambda: (place.outside / "one").stat().st_size > 0)
        (place.project / ".git" / "config").unlink()
        with (place.outside / "two").open("w+b") as two:
            other = await place.start(["/bin/sh", "-c", SANDBOX], output=two.fileno())
            assert (await asyncio.wait_for(other.ended(), 20)).status == 0
        await asyncio.to_thread((place.project / "go").write_text, "on\n")
        assert (await asyncio.wait_for(running.ended(), 20)).status == 0
    before, went, after = (place.outside / "one").read_text().split()
    assert (went, after) == ("on", before)
    assert (place.outside / "two").read_text().split() != [before]


async def test_many_first_commands_at_once_make_one(place: Place) -> None:
    outputs = [(place.outside / str(number)).open("w+b") for number in range(6)]
    started = await asyncio.gather(*(place.start(["/bin/sh", "-c", SANDBOX], output=o.fileno()) for o in outputs))
    await asyncio.wait_for(asyncio.gather(*(running.ended() for running in started)), 20)
    for output in outputs:
        output.close()
    assert len({(place.outside / str(number)).read_text() for number in range(6)}) == 1


async def test_nothing_is_left_open_when_it_is_made_anew(place: Place) -> None:
    async def run() -> None:
        running = await place.start(["/bin/sh", "-c", "true"], output=2)
        assert (await asyncio.wait_for(running.ended(), 20)).status == 0

    await run()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        replace(place.project / ".git" / "config", "")
        await run()
    await until(lambda: len(os.listdir("/proc/self/fd")) == before)


async def test_a_supervisor_that_was_killed_is_replaced_in_the_same_sandbox(place: Place) -> None:
    before = await shell(place, SANDBOX)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    supervisors = [
        int(pid)
        for pid in children
        if b"gadget_drone.processes.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert supervisors
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(map(is_running, supervisors)))
    assert await shell(place, SANDBOX) == before


async def test_a_command_does_not_run_when_it_cannot_be_made(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusing = tmp_path / "bin" / "bwrap"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(refusing.parent))
    with pytest.raises(NotStarted, match="No permissions"):
        await place.start(["/bin/sh", "-c", "touch ran"], output=2)
    assert not (place.project / "ran").exists()
    result = await shell(place, "touch ran")
    assert result == "The command did not start: bwrap: No permissions to create new namespace."
    monkeypatch.undo()
    assert await shell(place, "echo mended") == "mended\n[exit status 0]"


async def test_a_sandbox_that_is_given_up_while_it_is_made_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    waiting = tmp_path / "bin" / "bwrap"  # as bubblewrap's own child waits for it to be let go
    waiting.parent.mkdir()
    waiting.write_text(
        f"#!/bin/sh\n[ $1 = --help ] && exit\nsleep 600 & echo $! > {began}.new; mv {began}.new {began}; wait\n"
    )
    waiting.chmod(0o755)
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(waiting.parent))
    starting = asyncio.create_task(place.start(["/bin/sh", "-c", "touch ran"], output=2))
    await until(began.exists)
    starting.cancel()
    done, _ = await asyncio.wait([starting], timeout=20)
    assert done
    await until(lambda: not is_running(int(began.read_text())))


async def test_a_command_does_not_run_without_what_a_sandbox_is_made_of(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = place.workspace / ".gadget/tmp/project"
    temporary.parent.mkdir()
    temporary.write_text("")
    said = "The command did not start: the sandbox cannot be made: File exists."
    assert await shell(place, "touch ran") == said
    temporary.unlink()
    monkeypatch.setattr("gadget_drone.sandbox.wrap._WHERE", str(tmp_path))
    said = "The command did not start: the sandbox cannot be made: bubblewrap is not installed."
    assert await shell(place, "touch ran") == said
    assert not (place.project / "ran").exists()


async def shell(place: Place, command: str, *, background: bool = False) -> str:
    sandboxed = partial(place.standing.start, network=False)
    supervisor, jobs = Supervisor(), Jobs()
    context = ToolContext(place.project, lambda _: None, place.outside, supervisor, jobs=jobs, sandboxed=sandboxed)
    params = {"command": command, "background": background}
    call = ToolCallRequest(call_id="c", name="shell", params=params)
    try:
        return (await Toolbox.standard().run(call, context)).content
    finally:
        await jobs.close()
        supervisor.close()


async def test_the_shell_tool_uses_it_for_commands_and_jobs(place: Place) -> None:
    first = await shell(place, SANDBOX)
    assert first.splitlines()[0] != os.readlink("/proc/self/ns/net")
    assert first.splitlines()[0] in await shell(place, SANDBOX, background=True)
    left = await shell(place, "sleep 60 & echo started")
    assert left == "started\n[exit status 0; what it started still runs in the background]"


DRONE = """
import asyncio, os, sys
from pathlib import Path
from tests.gadget_drone.sandbox.conftest import Place
from gadget_drone.sandbox.standing import Standing
async def work():
    place = Place(*map(Path, sys.argv[1:]), Standing(Path(sys.argv[1])))
    line = "setsid sh -c 'trap \\"\\" TERM; while :; do sleep 1; done' & touch up; sleep 600"
    await place.start(["/bin/sh", "-c", line], output=2)
    await asyncio.sleep(600)
asyncio.run(work())
"""


async def test_the_death_of_the_drone_ends_everything_in_it(place: Place) -> None:
    places = [str(path) for path in (place.workspace, place.project, place.home, place.outside)]
    drone = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRONE, *places, cwd=REPOSITORY, stderr=subprocess.DEVNULL
    )
    try:
        await until((place.project / "up").exists)
        started = descendants(drone.pid)
        assert len(started) >= 4
    finally:
        drone.kill()
        await drone.wait()
    async with asyncio.timeout(5):
        await until(lambda: not any(map(is_running, started)))


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return []
    return [*children, *(found for child in children for found in descendants(child))]


ORDINARY = """
import asyncio, os, subprocess, sys
from pathlib import Path
from gadget_drone.permissions.covered import Covered
from gadget_drone.sandbox.standing import Standing

space = Path(sys.argv[1])
project, home, outside = space / "work" / "project", space / "home", space / "outside"
for directory in (project, home / ".local/bin", outside, space / "other"):
    directory.mkdir(parents=True)
(home / ".netrc").write_text("secret")
(outside / "file").write_text("secret")
subprocess.run(["git", "init", "-q", project], check=True)
config = (project / ".git" / "config").read_text()

async def run(line, denied=(), repositories=()):
    hidden = Covered(denied).places(project)
    with (space / "output").open("w+b") as output:
        env = {"PATH": f"{home}/.local/bin:/usr/bin:/bin", "HOME": str(home)}
        running = await standing.start(["/bin/sh", "-c", line], env, project_dir=project,
                                       network=False, output=output.fileno(), hidden=hidden,
                                       repositories=repositories)
        ended = await asyncio.wait_for(running.ended(), 20)
        output.seek(0)
        return ended.status, output.read().decode()

async def attempts():
    status, said = await run("id -u; grep -hE 'Cap|NoNew' /proc/[1s]*/status; readlink /proc/self/ns/[un][se][et]*")
    user, *rights, net, users = said.split()
    assert user == str(os.getuid()) and rights[1::2] == (["0" * 16] * 5 + ["1"]) * 2, said
    assert users != os.readlink("/proc/self/ns/user")
    assert (await run("readlink /proc/self/ns/net"))[1].split() == [net]
    for line in ("chmod 0 ~/.local", "chmod 0 ~/.local ~", "true"):
        assert (await run(line))[0] == 0
    assert await run("set -- /proc/[0-9]*; echo $#; exit 3") == (3, "2\\n")
    assert (await run("kill -TERM $$"))[0] == -15
    await run("touch /dev/shm/left; touch /dev/left; touch /run/left; ipcmk -M 100")
    assert (await run("ls /dev/shm /dev /run | grep left; ipcs | grep -c 0x"))[1] == "0\\n"
    for line in (f"cat {outside}/file", "cat ~/.netrc", "cat /proc/1/environ", "readlink /proc/1/fd/5 /proc/1/ns/mnt",
                 "ls /proc/1/fd", "mount -o remount,rw /", "umount /proc", "umount -l .git/config",
                 "unshare -Urm umount -l .git/config", "unshare -Urm umount -l /proc", "nsenter -t 1 -m true",
                 "unshare -Urm mount -o remount,bind,rw .git/config", "echo x >> .git/config", "mv .git moved",
                 "echo x > .git/commondir", f"ln -sfn {outside} .git/hooks && test -L .git/hooks",
                 "mkdir .git/modules/x", "echo x > .git/config.worktree", "ls /srv", "ls /home", "ls /mnt",
                 f"ls {space}/other"):
        status, said = await run(line)
        assert status != 0 and "secret" not in said, (line, status, said)
    assert (project / ".git" / "config").read_text() == config
    subprocess.run(["git", "-C", project, "config", "user.name", "n"], check=True)
    config2 = (project / ".git" / "config").read_text()
    assert (await run("readlink /proc/self/ns/net"))[1].split() != [net]
    assert (await run("echo x >> .git/config"))[0] != 0
    assert (project / ".git" / "config").read_text() == config2
    assert (await run("echo x > made && cat made"))[1] == "x\\n"
    subprocess.run(["git", "init", "-q", project / "lib"], check=True)
    (project / "keys").mkdir()
    (project / "keys" / "a.pem").write_text("secret")
    Path(project, ".env").write_text("secret")
    for line in ("chmod 000 keys lib", "chmod 755 keys lib; cat keys/a.pem; echo x >> lib/.git/config",
                 "chmod 111 .", "chmod 755 .; cat .env keys/a.pem; echo x > lib/.git/hooks/pre-commit", "chmod 000 .",
                 "chmod 755 .; cat .env; chmod 333 .git .git/logs; ln -s /x .git/COMMIT_EDITMSG"):
        said = (await run(line, denied=["*.pem", ".env"], repositories=[f"{project}/lib/.git"]))[1]
        assert "secret" not in said, (line, said)
    assert "x\\n" not in (project / "lib/.git/config").read_text()
    assert not (project / "lib/.git/hooks/pre-commit").exists()
    (note,) = await standing.mend(project)
    assert note.startswith(f"{project}/.git/COMMIT_EDITMSG was removed")
    (project / ".git").chmod(0o755)
    (project / ".git" / "worktrees").rmdir()
    (project / ".git").chmod(0o555)
    said = (await run("echo works; echo x >> .git/config; echo x > .git/hooks/x; mkdir .git/worktrees/x"))[1]
    assert said.startswith("works\\n"), said
    assert (project / ".git" / "config").read_text() == config2
    assert not (project / ".git" / "hooks" / "x").exists() and not (project / ".git" / "worktrees" / "x").exists()

standing = Standing(space / "work")
asyncio.run(attempts())
asyncio.run(standing.close())
"""
NOBODY = 65534


def test_an_ordinary_user_has_the_same(request: pytest.FixtureRequest) -> None:
    """For whom bubblewrap makes two namespaces of users, one in the other."""
    if os.getuid() != 0:
        pytest.skip("the other tests are it")
    directory = tempfile.TemporaryDirectory(prefix="gadget-", dir="/tmp")  # pytest's own are closed to others
    request.addfinalizer(directory.cleanup)
    place = Path(directory.name)
    shutil.copytree(REPOSITORY / "gadget_drone", place / "gadget_drone")
    (place / "own").mkdir()
    for path in (place, place / "own"):
        os.chown(path, NOBODY, NOBODY)

    def run(python: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *map(str, arguments)], cwd=place, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": directory.name},
            user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=100,
        )  # fmt: skip

    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if run(python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))").returncode == 0:
                break
        except OSError:
            continue
    else:
        pytest.skip("no Python 3.11 that an ordinary user may run")
    ran = run(python, "-c", ORDINARY, place / "own")
    assert ran.returncode == 0, ran.stderr
