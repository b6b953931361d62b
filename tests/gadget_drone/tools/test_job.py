import asyncio
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gadget_drone.jobs.jobs import MAX_JOBS, Jobs
from gadget_drone.jobs.ring import RING_BYTES, Ring
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext, ToolResult
from tests.gadget_drone.tools.conftest import Run
from tests.gadget_drone.tools.test_shell import file_with, is_running, until


def the_id(result: ToolResult) -> str:
    return result.content.rpartition("[job ")[2].partition(":")[0]


@pytest.fixture(autouse=True)
def first_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the answer, however slow the machine is: a command here prints something, or ends."""
    monkeypatch.setattr("gadget_drone.tools.shell._FIRST_WORDS_S", 20.0)


@pytest.fixture
async def cat(run: Run) -> str:
    return the_id(await run("shell", command="echo ready; cat", background=True))


async def test_a_command_in_the_background_answers_with_its_first_words(run: Run) -> None:
    started = time.monotonic()
    result = await run("shell", command="echo ready; sleep 600", background=True)
    assert time.monotonic() - started < 5
    assert not result.is_error
    assert result.content.startswith("ready\n[job ")
    assert re.search(r": running for \d+ s]", result.content)
    assert f"{the_id(result)} (running for " in (await run("job", action="list")).content


async def test_one_that_ends_at_once_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gadget_drone.jobs.job.SETTLE_S", 20.0)
    result = await run("shell", command="echo no such option; exit 2", background=True)
    assert result.content.startswith("no such option\n[job ")
    assert re.search(r"exit status 2 after \d+\.\d s", result.content)


async def test_what_is_printed_is_read_once_in_pieces(project: Path, run: Run) -> None:
    os.mkfifo(project / "go")
    job = the_id(await run("shell", command="echo one; cat go; sleep 600", background=True))
    assert (await run("job", action="read", job_id=job)).content.startswith("(no new output)\n[job ")
    waiting = asyncio.ensure_future(run("job", action="wait", job_id=job, wait_s=60))
    await asyncio.to_thread((project / "go").write_text, "two\nthree\n")
    assert (await asyncio.wait_for(waiting, 10)).content.startswith("two\nthree\n[job ")


async def test_a_wait_ends_with_the_command_or_its_time(project: Path, run: Run) -> None:
    os.mkfifo(project / "go")
    job = the_id(await run("shell", command="echo a; cat go; exit 3", background=True))
    short = await run("job", action="wait", job_id=job, wait_s=0)
    assert "running for" in short.content
    waiting = asyncio.ensure_future(run("job", action="wait", job_id=job, wait_s=600))
    await asyncio.to_thread((project / "go").write_text, "")
    assert "exit status 3 after" in (await asyncio.wait_for(waiting, 20)).content


async def test_a_wait_for_a_text_is_not_ended_by_another(project: Path, run: Run) -> None:
    os.mkfifo(project / "go")
    command = "echo begin; cat go; echo 'listening on (*) 80'; sleep 600"
    job = the_id(await run("shell", command=command, background=True))
    waiting = asyncio.ensure_future(run("job", action="wait", job_id=job, wait_s=60, pattern="listening on (*)"))
    await asyncio.to_thread((project / "go").write_text, "other\n")
    assert (await asyncio.wait_for(waiting, 10)).content.startswith("other\nlistening on (*) 80\n[job ")
    again = await run("job", action="wait", job_id=job, wait_s=0, pattern="listening")
    assert "'listening' was not printed; it is in what was read before" in again.content
    assert "it is in" not in (await run("job", action="wait", job_id=job, wait_s=0, pattern="absent")).content


async def test_a_job_takes_input_until_it_is_closed(cat: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gadget_drone.tools.job._ANSWER_S", 20.0)
    assert (await run("job", action="write", job_id=cat, input="hello\n")).content.startswith("hello\n[job ")
    closed = await run("job", action="write", job_id=cat, input="")
    assert "exit status 0" in closed.content
    late = await run("job", action="write", job_id=cat, input="x")
    assert late.is_error
    assert "takes no input any more (exit status 0" in late.content
    assert "needs input" in (await run("job", action="write", job_id=cat)).content


async def test_a_job_that_does_not_read_its_input_hangs_nobody(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gadget_drone.jobs.job.WRITE_S", 0.3)
    job = the_id(await run("shell", command="echo on; sleep 600", background=True))
    for _ in range(4):
        result = await run("job", action="write", job_id=job, input="x" * 65_536)
    assert "it took only 0 of 65536 bytes" in result.content
    assert (await run("job", action="write", job_id=job, input="x" * 65_537)).is_error


async def test_a_job_that_ends_while_it_is_written_to_is_noticed(run: Run) -> None:
    job = the_id(await run("shell", command="echo on; sleep 2", background=True))
    await run("job", action="write", job_id=job, input="x" * 65_536)
    result = await asyncio.wait_for(run("job", action="write", job_id=job, input="x" * 65_536), 20)
    assert "takes no input any more" in result.content  # its end may be told later than that
    assert "exit status 0 after" in (await run("job", action="wait", job_id=job)).content


async def test_stop_ends_whatever_it_started(project: Path, run: Run) -> None:
    command = "echo on; (trap '' TERM; echo $$ >> pids; setsid sh -c 'echo $$ >> pids; sleep 600') & wait"
    job = the_id(await run("shell", command=command, background=True))
    pids = await file_with(project / "pids", 2)
    result = await run("job", action="stop", job_id=job)
    assert "stopped after" in result.content
    assert "could not be killed" not in result.content
    assert not any(is_running(int(pid)) for pid in pids)
    assert "stopped after" in (await run("job", action="stop", job_id=job)).content


async def test_what_a_job_leaves_running_is_said_and_can_be_stopped(project: Path, run: Run, jobs: Jobs) -> None:
    job = the_id(await run("shell", command="sleep 600 & echo $! > pid; echo left", background=True))
    await until(lambda: not jobs.are_running)
    assert "something that it started still runs" in (await run("job", action="read", job_id=job)).content
    pid = int((await file_with(project / "pid"))[0])
    stopped = await run("job", action="stop", job_id=job)
    assert "exit status 0 after" in stopped.content
    assert "still runs" not in stopped.content
    assert not is_running(pid)


async def test_more_than_is_kept_is_dropped_from_the_beginning(project: Path, run: Run) -> None:
    os.mkfifo(project / "go")
    job = the_id(await run("shell", command="echo on; cat go; seq 1 1000000; sleep 600", background=True))
    await asyncio.to_thread((project / "go").write_text, "")
    result = await run("job", action="wait", job_id=job, wait_s=60, pattern="\n1000000\n")
    assert "bytes before this were not kept]" in result.content
    assert "\n1000000\n[job " in result.content
    assert len(result.content.encode()) <= 64_000
    assert (await run("job", action="read", job_id=job)).content.startswith("(no new output)")


async def test_a_character_that_is_split_between_two_reads_is_whole(project: Path, run: Run) -> None:
    os.mkfifo(project / "go")
    job = the_id(await run("shell", command=r"printf 'a\303'; cat go; sleep 600", background=True))
    await asyncio.to_thread((project / "go").write_bytes, b"\xa9!\n")
    assert (await run("job", action="wait", job_id=job, wait_s=10)).content.startswith("é!\n")


async def test_the_end_of_a_job_is_told_once(project: Path, jobs: Jobs, run: Run) -> None:
    for go in ("first", "second"):
        os.mkfifo(project / go)
    told = the_id(await run("shell", command="echo on; cat first", background=True))
    untold = the_id(await run("shell", command="echo on; cat second; exit 4", background=True))
    assert jobs.ended() == ()
    for go in ("first", "second"):
        await asyncio.to_thread((project / go).write_text, "")
    await run("job", action="wait", job_id=told, wait_s=60, pattern="never")
    await until(lambda: not jobs.are_running)
    ended = jobs.ended()
    assert [(job.id, job.has_failed) for job in ended] == [(untold, True)]
    assert jobs.ended() == ()


async def test_a_job_that_is_not_there_is_an_error(run: Run) -> None:
    assert "Jobs end with the drone" in (await run("job", action="read", job_id="ffff")).content
    assert (await run("job", action="list")).content == "No jobs."


async def test_a_job_that_cannot_start_is_an_error_and_leaves_nothing_open(context: ToolContext, run: Run) -> None:
    await run("shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    for command in ("x" * 200_000, "a\0b"):
        assert (await run("shell", command=command, background=True)).is_error
    await context.jobs.close()
    await until(lambda: len(os.listdir("/proc/self/fd")) == before)


async def test_as_many_run_as_may_and_those_that_ended_make_room(run: Run, jobs: Jobs) -> None:
    await run("shell", command="true", background=True)
    for _ in range(MAX_JOBS):
        assert not (await run("shell", command="echo on; sleep 600", background=True)).is_error
    assert all(job.is_running for job in jobs.all())
    refused = await run("shell", command="true", background=True)
    assert refused.is_error
    assert refused.content == "16 jobs run already: stop one with the tool job."


async def test_close_ends_all_and_gives_everything_back(project: Path, run: Run, jobs: Jobs) -> None:
    await run("shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    for command in ("sleep 600", "trap '' TERM; sleep 600", "setsid sleep 600 &", "cat", "exit 1"):
        await run("shell", command=f"echo on; echo $$ >> pids; {command}", background=True)
    pids = await file_with(project / "pids", 5)
    started = time.monotonic()
    await jobs.close()
    assert time.monotonic() - started < 6
    assert not any(is_running(int(pid)) for pid in pids)
    await until(lambda: len(os.listdir("/proc/self/fd")) == before)


DRONE = """
import asyncio, pathlib, sys
from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
here = pathlib.Path(sys.argv[1])
async def work():
    context = ToolContext(here, str, here, Supervisor())
    params = {"command": sys.argv[2], "background": True}
    print(await Toolbox.standard().run(ToolCallRequest(call_id="c", name="shell", params=params), context), flush=True)
    await asyncio.sleep(600)
asyncio.run(work())
"""


async def test_no_job_outlives_the_drone(project: Path) -> None:
    command = "echo $$ >> pids; setsid sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 600'"
    drone = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRONE, str(project), command, stdout=subprocess.PIPE
    )
    try:
        pids = await file_with(project / "pids", 2)
        drone.kill()
        await drone.communicate()
        async with asyncio.timeout(5):
            await until(lambda: not any(is_running(int(pid)) for pid in pids))
    finally:
        with suppress(ProcessLookupError):
            drone.kill()


async def test_the_end_of_the_supervisor_ends_a_job(run: Run, supervisor: Supervisor, jobs: Jobs) -> None:
    await run("shell", command="echo on; sleep 600", background=True)
    supervisor.close()
    async with asyncio.timeout(5):
        await until(lambda: not jobs.are_running)
    assert "its outcome is unknown" in jobs.all()[0].state


def test_a_ring_keeps_the_end_and_counts_what_it_dropped() -> None:
    ring = Ring()
    whole = bytearray()
    for n in range(40):
        chunk = bytes([n]) * 100_000
        ring.feed(chunk)
        whole += chunk
        assert ring.end == len(whole)
        assert min(len(whole), RING_BYTES) <= ring.end - ring.start <= 2 * RING_BYTES + len(chunk)
        assert ring.since(0) == whole[ring.start :]
    assert ring.start > 0
    assert ring.since(ring.end - 5) == whole[-5:]
    assert ring.since(ring.end) == b""
