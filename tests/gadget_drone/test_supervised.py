"""The long-lived supervisor of commands: what it may not leak, and what its death may not change."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Ended, Namespaces, NotStarted, Supervisor
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.test_shell import DRONE, GETAWAYS, file_with, is_running, until


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.close()


class Bench:
    def __init__(self, supervisor: Supervisor, place: Path) -> None:
        self.supervisor = supervisor
        self.place = place

    async def shell(self, command: str, timeout_s: int = 120) -> ToolResult:
        call = ToolCallRequest(call_id="c", name="shell", params={"command": command, "timeout_s": timeout_s})
        return await Toolbox.standard().run(call, ToolContext(self.place, lambda _: None, self.place, self.supervisor))

    async def run(self, *words: str, env: dict[str, str] | None = None) -> tuple[Ended, bytes]:
        """How it ended, and what it printed."""
        with (self.place / "printed").open("w+b") as output:
            running = self.supervisor.start(words, cwd=self.place, env=env or {}, output=output.fileno())
            ended = await asyncio.wait_for(running.ended(), 20)
            output.seek(0)
            return ended, output.read()

    async def supervisor_pid(self) -> int:
        """Of the process that all commands come from."""
        return (await self._supervisors())[0]

    async def at_rest(self) -> tuple[int, int]:
        """That process and its fork that waits for the next command, once there is no other. None may run."""
        pid, past = await self._supervisors()

        def rests() -> bool:
            """The one pipe is the one by which it waits for the fork to take a command."""
            forks = children(pid)
            return len(forks) == 1 and past not in forks and [*descriptors(pid).values()].count("pipe") == 1

        await until(rests)
        [waiting] = children(pid)
        return pid, waiting

    async def _supervisors(self) -> tuple[int, int]:
        """The process that all commands come from, and its fork that watched over this one."""
        result = await self.shell("echo $PPID; cat /proc/$PPID/stat")
        own, _, stat = result.content.partition("\n")
        assert stat.startswith(own)
        return int(stat.rpartition(") ")[2].split()[1]), int(own)

    async def kill_supervisor(self) -> int:
        pid = await self.supervisor_pid()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_running(pid))
        return pid


@pytest.fixture
def bench(supervisor: Supervisor, tmp_path: Path) -> Bench:
    return Bench(supervisor, tmp_path)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descriptors(pid: int) -> dict[str, str]:
    """What each descriptor of a process is; sockets and pipes by their kind alone."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # the one that lists
            found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0]
    return found


async def test_all_commands_come_from_one_process_each_under_its_own(bench: Bench) -> None:
    first, second = await bench.supervisor_pid(), await bench.supervisor_pid()
    assert first == second
    assert parent(first) == os.getpid()
    assert os.getsid(first) == first
    own = await bench.shell("echo $PPID $(cut -d ' ' -f 6 /proc/$PPID/stat)")
    pid, session = own.content.partition("\n")[0].split()
    assert session == pid
    assert pid != str(first)


async def test_a_supervisor_that_was_killed_is_replaced_at_the_next_command(bench: Bench) -> None:
    killed = {await bench.kill_supervisor() for _ in range(3)}
    assert len(killed) == 3
    assert (await bench.shell("echo hi")).content.startswith("hi\n[exit status 0")


async def test_a_command_goes_on_without_the_supervisor_that_was_killed(bench: Bench) -> None:
    os.mkfifo(bench.place / "go")
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.shell("echo first; touch began; cat go; exit 3"))
        endless = tasks.create_task(bench.shell("(setsid sleep 600 & echo $! > pid); sleep 600", timeout_s=2))
        await until((bench.place / "began").exists)
        pid = int((await file_with(bench.place / "pid"))[0])
        await bench.kill_supervisor()
        assert (await bench.shell("echo hi")).content.startswith("hi\n[exit status 0")
        await asyncio.to_thread((bench.place / "go").write_text, "second\n")
    assert running.result().content.startswith("first\nsecond\n[exit status 3")
    assert "not done within 2 s" in endless.result().content
    assert "could not be killed" not in endless.result().content
    assert not is_running(pid)


async def test_only_its_socket_or_sigkill_ends_the_supervisor(bench: Bench) -> None:
    pid = await bench.supervisor_pid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert (await bench.shell("kill -TERM $PPID; kill -INT $PPID; echo on")).content.startswith("on\n[exit status 0")
    assert await bench.supervisor_pid() == pid
    bench.supervisor.close()
    assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD])
async def test_the_command_does_not_ignore_what_its_supervisors_ignore(bench: Bench, number: signal.Signals) -> None:
    _, printed = await bench.run("/bin/grep", "SigIgn", "/proc/self/status")
    assert not int(printed.split()[1], 16) & 1 << (number - 1)


async def test_a_close_ends_what_runs_in_the_background(bench: Bench) -> None:
    assert "still runs in the background" in (await bench.shell("setsid sleep 600 & echo $! > pid")).content
    pid = int((bench.place / "pid").read_text())
    assert is_running(pid)
    bench.supervisor.close()
    async with asyncio.timeout(5):
        await until(lambda: not is_running(pid))


async def test_the_death_of_the_drone_ends_all_commands_and_the_supervisor(tmp_path: Path) -> None:
    (tmp_path / "supervisors").mkdir()
    noted = "echo $PPID > supervisors/$$; "
    commands = [noted + command for command in GETAWAYS.values()] * 2
    drone = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRONE, str(tmp_path), *commands, stdout=subprocess.PIPE
    )
    try:
        pids = [int(pid) for pid in await file_with(tmp_path / "pids", len(commands))]
        own = [int(path.read_text()) for path in (tmp_path / "supervisors").iterdir()]
        assert len(own) == len(commands)
        long_lived = {parent(pid) for pid in own}
        assert [parent(pid) for pid in long_lived] == [drone.pid]
        drone.kill()
        await drone.communicate()
        async with asyncio.timeout(5):
            await until(lambda: not any(is_running(pid) for pid in (*pids, *own, *long_lived)))
    finally:
        with suppress(ProcessLookupError):
            drone.kill()


async def test_no_descriptor_and_no_zombie_is_left_by_200_commands(bench: Bench) -> None:
    pid, _ = await bench.at_rest()
    before = descriptors(os.getpid()), descriptors(pid)
    for _ in range(20):
        await asyncio.gather(*(bench.shell("seq 1 100") for _ in range(8)), bench.shell("exit 3"))
        with pytest.raises(NotStarted):
            await bench.run("/does/not/exist")
    assert await bench.supervisor_pid() == pid
    await until(lambda: (descriptors(os.getpid()), descriptors(pid)) == before)
    await until(lambda: len(children(pid)) == 1)  # the fork that waits for the next command


async def test_a_command_has_the_three_standard_descriptors_alone(bench: Bench) -> None:
    script = "import os; print([fd for fd in range(1000) if os.path.exists(f'/proc/self/fd/{fd}')])"
    _, printed = await bench.run(sys.executable, "-c", script)
    assert printed == b"[0, 1, 2]\n"


async def test_two_commands_run_at_once(bench: Bench) -> None:
    os.mkfifo(bench.place / "ping")
    os.mkfifo(bench.place / "pong")
    async with asyncio.timeout(20):
        one, two = await asyncio.gather(
            bench.shell("echo ping > ping; cat pong"), bench.shell("cat ping; echo pong > pong")
        )
    assert one.content.startswith("pong\n[exit status 0")
    assert two.content.startswith("ping\n[exit status 0")


async def test_a_huge_command_line_arrives_whole(bench: Bench) -> None:
    words = ["x" * 100_000, *("y" * 100_000 for _ in range(8))]
    counted = await bench.run("/bin/sh", "-c", "echo $#; printf %s $1 | wc -c; printf %s $* | wc -c", "sh", *words)
    assert counted[1] == b"9\n100000\n900000\n"
    with pytest.raises(NotStarted, match="Argument list too long"):
        await bench.run("/bin/true", *["x" * 100_000] * 100)
    assert (await bench.shell("echo hi")).content.startswith("hi\n[exit status 0")


async def test_environment_and_directory_are_the_given_ones_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_THE_DRONE", "1")
    env = {"A": "b=c\nd", "EMPTY": "", "BYTES": "\udcff\N{SNOWMAN}"}
    _, printed = await bench.run("/usr/bin/env", "-0", env=env)
    assert sorted(printed.split(b"\0")) == [b"", b"A=b=c\nd", b"BYTES=\xff\xe2\x98\x83", b"EMPTY="]
    assert (await bench.run("/bin/pwd"))[1] == os.fsencode(bench.place) + b"\n"


async def test_a_directory_that_does_not_exist_is_an_error(bench: Bench) -> None:
    bench.place = bench.place / "gone"
    result = await bench.shell("echo hi")
    assert result.is_error
    assert result.content == "The command did not start: No such file or directory."


async def test_a_drone_without_descriptors_is_told_so_and_goes_on(bench: Bench) -> None:
    pid = await bench.supervisor_pid()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (bench.place / "printed").open("w") as output:
        resource.setrlimit(resource.RLIMIT_NOFILE, (output.fileno() + 2, hard))
        try:
            with pytest.raises(NotStarted, match="Too many open files"):
                bench.supervisor.start(["/bin/true"], cwd=bench.place, env={}, output=output.fileno())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await bench.supervisor_pid() == pid


async def test_a_command_that_was_given_up_before_it_began_never_begins(bench: Bench) -> None:
    stopped = pid, _ = await bench.at_rest()
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        results = await asyncio.gather(
            bench.shell("touch ran", timeout_s=1), bench.shell(f"touch ran # {'x' * 900_000}", timeout_s=1)
        )
        assert all("not done within 1 s" in result.content for result in results)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert await bench.supervisor_pid() == pid
    assert not (bench.place / "ran").exists()


async def test_a_command_reads_the_input_it_is_given(bench: Bench) -> None:
    theirs, ours = os.pipe()
    with (bench.place / "printed").open("w+b") as output, os.fdopen(theirs, "rb") as stdin:
        running = bench.supervisor.start(
            ["/bin/sh", "-c", "cat; echo; ls -l /proc/self/fd | wc -l"],
            cwd=bench.place,
            env={"PATH": os.environ["PATH"]},
            output=output.fileno(),
            stdin=stdin.fileno(),
        )
        stdin.close()
        await asyncio.to_thread(os.write, ours, b"typed")
        os.close(ours)  # nobody else has it open: cat ends
        assert (await asyncio.wait_for(running.ended(), 20)).status == 0
        output.seek(0)
        assert output.read() == b"typed\n5\n"


async def test_who_writes_to_a_command_that_has_ended_learns_it(bench: Bench) -> None:
    theirs, ours = os.pipe()
    with (bench.place / "printed").open("wb") as output, os.fdopen(theirs, "rb") as stdin:
        running = bench.supervisor.start(
            ["/bin/true"], cwd=bench.place, env={}, output=output.fileno(), stdin=stdin.fileno()
        )
        stdin.close()
        await asyncio.wait_for(running.ended(), 20)
        with os.fdopen(ours, "wb", buffering=0) as writing, pytest.raises(BrokenPipeError):
            writing.write(b"x")


async def test_nothing_runs_where_the_namespaces_cannot_be_entered(bench: Bench) -> None:
    namespaces = Namespaces((os.open(bench.place, os.O_RDONLY),), None)
    bench.supervisor.move_to(namespaces)
    for _ in range(2):
        result = await bench.shell("touch ran")
        assert result.content == "The command did not start: Invalid argument."
    assert not (bench.place / "ran").exists()
    namespaces.close()


async def test_a_fork_that_waits_and_is_killed_is_replaced(bench: Bench) -> None:
    pid, waiting = await bench.at_rest()
    os.kill(waiting, signal.SIGKILL)
    await until(lambda: children(pid) not in ([], [waiting]))
    assert await bench.supervisor_pid() == pid
