import asyncio
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.shell import DRAIN_S
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run

MB = 2**20
TIMEOUT_S = 3
"""Enough for a command to note its processes."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def file_with(path: Path, lines: int = 1) -> list[str]:
    """The lines of `path`, once there are so many."""
    await until(lambda: path.exists() and path.read_text().count("\n") >= lines)
    return path.read_text().splitlines()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the second where it goes while it is read
        return False


async def test_output_exit_status_and_directory(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gadget_drone.tools.shell._WORTH_TELLING_S", 60.0)
    result = await run("shell", command="pwd; echo err >&2; exit 3")
    assert result.content == f"{project}\nerr\n[exit status 3]"
    assert result.is_error
    result = await run("shell", command="true")
    assert result.content == "(no output)\n[exit status 0]"
    assert not result.is_error


async def test_how_long_it_took_is_said_when_it_was_long(run: Run) -> None:
    said = re.search(r"\[exit status 0 after (\d+\.\d) s]", (await run("shell", command="sleep 1.1")).content)
    assert said is not None
    assert float(said[1]) >= 1.1


async def test_a_command_that_kills_itself_is_reported(run: Run) -> None:
    assert "[killed by signal 9" in (await run("shell", command="kill -KILL $$")).content
    assert "[killed by signal 9" in (await run("shell", command="kill -KILL 0")).content
    assert "its outcome is unknown" in (await run("shell", command="kill -KILL $PPID")).content


async def test_output_is_shown_while_it_runs(project: Path, context: ToolContext, live: list[str]) -> None:
    os.mkfifo(project / "go")
    call = ToolCallRequest(call_id="c", name="shell", params={"command": "echo first; cat go; echo last"})
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Toolbox.standard().run(call, context))
        await until(lambda: bool(live))
        assert live == ["first\n"]
        await asyncio.to_thread((project / "go").write_text, "second\n")
    assert running.result().content.startswith("first\nsecond\nlast\n")
    assert "".join(live) == "first\nsecond\nlast\n"


async def test_input_is_empty_and_secrets_are_not_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "GADGET_PASSWORD",
        "OPENAI_BASE_URL",
        "SOME_API_KEY",
        "CI_TOKEN",
        "DB_PASSWORD",
        "X_SECRET",
        "GITHUB_TOKEN",
    )
    for name in names:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("HARMLESS", "kept")
    content = (await run("shell", command="cat; env; tr '\\0' '\\n' < /proc/self/environ")).content
    assert "hunter2" not in content
    assert "HARMLESS=kept" in content
    assert "GIT_TERMINAL_PROMPT=0" in content
    assert "PAGER=cat" in content


async def test_no_descriptor_of_the_drone_is_inherited(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert "journal" not in (await run("shell", command="ls -l /proc/self/fd")).content


async def test_a_time_out_kills_grandchildren_that_ignore_term(project: Path, run: Run) -> None:
    stubborn = "(trap '' TERM; echo $$ >> pids; sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done')"
    started = time.monotonic()
    result = await run("shell", command=f"{stubborn} & {stubborn}", timeout_s=TIMEOUT_S)
    assert time.monotonic() - started < TIMEOUT_S + 4
    assert result.is_error
    assert f"[killed: not done within {TIMEOUT_S} s" in result.content
    assert "could not be killed" not in result.content
    assert not any(is_running(int(pid)) for pid in await file_with(project / "pids", 4))


async def test_a_cancel_kills_the_group(project: Path, context: ToolContext) -> None:
    command = "echo $$ > pid; sh -c 'trap \"\" TERM; echo $$ > pid2; while :; do sleep 1; done'"
    running = asyncio.ensure_future(
        Toolbox.standard().run(ToolCallRequest(call_id="c", name="shell", params={"command": command}), context)
    )
    pids = [*await file_with(project / "pid"), *await file_with(project / "pid2")]
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 5
    assert not any(is_running(int(pid)) for pid in pids)


async def test_a_daemon_that_holds_the_pipe_does_not_hang_the_call(project: Path, run: Run) -> None:
    await run("shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    started = time.monotonic()
    result = await run("shell", command="sleep 60 & echo $! > pid; echo started")
    assert time.monotonic() - started < DRAIN_S + 2
    assert result.content.startswith("started\n[exit status 0")
    pid = int((project / "pid").read_text())
    group = os.getpgid(pid)
    assert f"kill -- -{group}" in result.content
    assert is_running(pid)
    os.killpg(group, signal.SIGKILL)
    await until(lambda: len(os.listdir("/proc/self/fd")) == before)


STUBBORN = "sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done'"
GETAWAYS = {
    "in the foreground": STUBBORN,
    "in the background": f"{STUBBORN} & sleep 600",
    "under setsid": f"setsid {STUBBORN} & sleep 600",
    "forked twice": f"({STUBBORN} &) ; sleep 600",
    "forked twice under setsid": f"(setsid {STUBBORN} >/dev/null 2>&1 </dev/null &) ; sleep 600",
    "without its environment": f"(env -i setsid {STUBBORN} >/dev/null 2>&1 &) ; sleep 600",
}
escaping = pytest.mark.parametrize("command", GETAWAYS.values(), ids=GETAWAYS)


@escaping
async def test_a_time_out_ends_whatever_tries_to_get_away(command: str, project: Path, run: Run) -> None:
    started = time.monotonic()
    result = await run("shell", command=command, timeout_s=TIMEOUT_S)
    assert time.monotonic() - started < TIMEOUT_S + 4
    assert f"not done within {TIMEOUT_S} s" in result.content
    assert "could not be killed" not in result.content
    assert not any(is_running(int(pid)) for pid in await file_with(project / "pids"))


@escaping
async def test_a_cancel_ends_whatever_tries_to_get_away(command: str, project: Path, context: ToolContext) -> None:
    call = ToolCallRequest(call_id="c", name="shell", params={"command": command})
    running = asyncio.ensure_future(Toolbox.standard().run(call, context))
    pids = await file_with(project / "pids")
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 5
    assert not any(is_running(int(pid)) for pid in pids)


DRONE = """
import asyncio, pathlib, sys
from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
here = pathlib.Path(sys.argv[1])
async def work():
    context = ToolContext(here, print, here, Supervisor())
    async def run(command):
        call = ToolCallRequest(call_id="c", name="shell", params={"command": command})
        print(await Toolbox.standard().run(call, context), flush=True)
    await asyncio.gather(*map(run, sys.argv[2:]))
    await asyncio.sleep(600)
asyncio.run(work())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("is_over", [False, True], ids=["while it runs", "after its end"])
async def test_the_death_of_the_drone_ends_whatever_tries_to_get_away(
    is_over: bool, number: signal.Signals, project: Path
) -> None:
    getaways = [f"({command.removesuffix('sleep 600')} ) & " for command in GETAWAYS.values()]
    end = f"until [ $(wc -l < pids) = {len(getaways)} ]; do sleep 0.1; done" if is_over else "sleep 600"
    command = f"touch pids; {''.join(getaways)} {end}"
    drone = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRONE, str(project), command, stdout=subprocess.PIPE
    )
    try:
        pids = await file_with(project / "pids", len(getaways))
        assert drone.stdout is not None
        if is_over:
            assert b"still runs in the background" in await asyncio.wait_for(drone.stdout.readline(), 10)
        drone.send_signal(number)
        await drone.communicate()
        async with asyncio.timeout(5):
            await until(lambda: not any(is_running(int(pid)) for pid in pids))
    finally:
        with suppress(ProcessLookupError):
            drone.kill()


async def test_bad_utf8_is_replaced_even_where_a_character_is_split(run: Run, live: list[str]) -> None:
    result = await run("shell", command=r"printf 'a\377b\303'; sleep 0.1; printf '\251\n'")
    assert result.content.startswith("a�bé\n[")
    assert "".join(live) == "a�bé\n"


async def test_bad_utf8_that_grows_in_decoding_stays_in_bounds(run: Run) -> None:
    result = await run("shell", command=r"head -c 60000 /dev/zero | tr '\0' '\377'")
    assert len(result.content.encode()) <= 64_000
    assert result.whole is not None
    assert result.whole.stat().st_size == 60_000


async def test_large_output_is_kept_whole_in_a_file(context: ToolContext, run: Run) -> None:
    small = await run("shell", command="seq 1 10000")
    assert small.whole is None
    large = await run("shell", command="seq 1 100000")
    assert large.whole is not None
    assert large.whole.parent == context.spool_dir
    assert large.whole.read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert large.whole.stat().st_mode & 0o777 == 0o600
    assert large.content.startswith("1\n2\n")
    assert "\n99999\n100000\n[exit status 0" in large.content
    assert "588895 bytes in all" in large.content
    assert len(large.content.encode()) <= 64_000


async def test_a_gigabyte_without_a_newline_is_bounded(run: Run, live: list[str]) -> None:
    held = 0.0

    async def measure() -> None:
        """By what the loop's own thread has computed, whatever else the machine does."""
        nonlocal held
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            held = max(held, time.thread_time() - before)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.collect()
    gc.disable()  # it would go through all that the tests before have left, in the loop's own thread
    try:
        measuring = asyncio.ensure_future(measure())
        result = await run("shell", command=r"head -c 1000000000 /dev/zero | tr '\0' a; echo end")
        measuring.cancel()
    finally:
        gc.enable()
    assert "end\n[exit status 0" in result.content
    assert "1000000004 bytes in all" in result.content
    assert len(result.content.encode()) <= 64_000
    assert result.whole is not None
    assert 256 * MB <= result.whole.stat().st_size < 257 * MB
    with result.whole.open("rb") as file:
        file.seek(256 * MB)
        assert b"bytes were not kept" in file.read()
    result.whole.unlink()
    assert sum(map(len, live)) < 300_000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 60 * MB
    assert held < 0.1


async def test_a_full_disk_costs_the_file_not_the_command(project: Path) -> None:
    drone = f"""
import asyncio, pathlib, resource, signal
from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
here = pathlib.Path({str(project)!r})
call = ToolCallRequest(call_id="c", name="shell", params={{"command": "seq 1 100000"}})
context = ToolContext(here, str, here / "blobs", Supervisor())
result = asyncio.run(Toolbox.standard().run(call, context))
assert result.whole is None and not result.is_error, result
assert "bytes in all" in result.content and "\\n100000\\n[exit status 0" in result.content, result
assert list((here / "blobs").iterdir()) == []
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", drone], check=True, timeout=20)


@pytest.mark.parametrize(("command", "said"), [("a\0b", "NUL"), ("x" * 200_000, "did not start"), ("", "command")])
async def test_a_command_that_cannot_start_is_an_error(command: str, said: str, run: Run) -> None:
    result = await run("shell", command=command)
    assert result.is_error
    assert said in result.content
    assert len(result.content) < 300


async def test_nothing_is_left_open_by_many_calls(run: Run) -> None:
    await run("shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(run("shell", command="sleep 0.05; seq 1 50000", timeout_s=20) for _ in range(20)))
    assert len(os.listdir("/proc/self/fd")) == before
