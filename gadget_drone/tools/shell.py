"""The tool `shell`."""

import asyncio
import os
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from gadget_drone.environment import child_environment
from gadget_drone.process_group import is_group_alive, kill_group
from gadget_drone.tools.output import LiveOutput, SpooledOutput
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolError, ToolResult, tool

DRAIN_S = 0.2
"""How long to wait for more once the command has ended: a daemon it left may hold the pipe open for ever."""
_MAX_DRAIN_S = 2.0
_CHUNK_BYTES = 2**18

# A guard in the command's own process group waits on a pipe that the drone alone holds open: when the drone dies,
# however it dies, the guard kills the group. It is ended and waited for before the outer shell goes, so that it is
# nobody's orphan. ($1 is the command: nothing of it is put into this text.)
_GUARDED = """
exec 3<&0 </dev/null
(read -r _ <&3 || kill -KILL 0) >/dev/null 2>&1 &
guard=$!
/bin/sh -c "$1" 3<&-
status=$?
kill $guard 2>/dev/null
wait $guard 2>/dev/null
exit $status
"""


@tool(effect=SideEffect.OTHER)
async def shell(
    context: ToolContext,
    command: Annotated[str, Field(min_length=1, description="Command for /bin/sh -c, run in the project directory.")],
    timeout_s: Annotated[int, Field(ge=1, le=3600, description="Seconds until it is killed.")] = 120,
) -> ToolResult:
    """Run a shell command and wait for its end. Nothing can be typed in: its input is empty. The answer has its output
    (of large output the beginning and the end) and its exit status. A server or watcher must go to the background with
    its output in a file: `server > server.log 2>&1 &`."""
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character.")
    printed = SpooledOutput(context.spool_dir)
    started = time.monotonic()
    try:
        ended = await _run(command, context, timeout_s, printed)
        text, whole = await asyncio.to_thread(printed.finish)
    except BaseException:
        printed.discard()
        raise
    notes = [f"{ended.said} after {time.monotonic() - started:.1f} s", *ended.notes]
    body = text if text.endswith("\n") else f"{text}\n" if text else "(no output)\n"
    return ToolResult(f"{body}[{'; '.join(notes)}]", is_error=ended.failed, whole=whole)


@dataclass(frozen=True)
class _Ended:
    said: str
    failed: bool
    notes: tuple[str, ...] = ()


async def _run(command: str, context: ToolContext, timeout_s: float, printed: SpooledOutput) -> _Ended:
    reading, printing = os.pipe()
    guarding, held = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            _GUARDED,
            "sh",
            command,
            cwd=context.project_dir,
            env=child_environment(),
            stdin=guarding,
            stdout=printing,
            stderr=printing,
            start_new_session=True,
        )
    except OSError as error:
        os.close(reading)
        os.close(held)
        raise ToolError(f"The command did not start: {error.strerror}.") from error
    except BaseException:
        os.close(reading)
        os.close(held)
        raise
    finally:
        os.close(printing)
        os.close(guarding)
    try:
        return await _watch(process, reading, timeout_s, printed, LiveOutput(context.output).feed)
    finally:
        os.close(held)


async def _watch(
    process: Process, reading: int, timeout_s: float, printed: SpooledOutput, live: Callable[[bytes], None]
) -> _Ended:
    stream = asyncio.StreamReader(limit=_CHUNK_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
    )
    pump = asyncio.create_task(_pump(stream, printed, live))
    try:
        async with asyncio.timeout(timeout_s):
            status = await process.wait()
        await _drain(pump, printed)
        said = f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
        left = f"what it started still runs in the background, to be ended with: kill -- -{process.pid}"
        return _Ended(said, failed=status != 0, notes=(left,) if is_group_alive(process.pid) else ())
    except TimeoutError:
        dead = await kill_group(process.pid)
        await _drain(pump, printed)
        notes = () if dead else (f"process group {process.pid} could not be killed",)
        return _Ended(f"killed: not done within {timeout_s:g} s", failed=True, notes=notes)
    finally:
        if process.returncode is None:
            await kill_group(process.pid)
            await process.wait()
        transport.close()  # ends the pump
        await asyncio.wait({pump})


async def _pump(stream: asyncio.StreamReader, printed: SpooledOutput, live: Callable[[bytes], None]) -> None:
    while chunk := await stream.read(_CHUNK_BYTES):
        printed.feed(chunk)
        live(chunk)
        if printed.is_large:
            await asyncio.to_thread(printed.spool, chunk)


async def _drain(pump: asyncio.Task[None], printed: SpooledOutput) -> None:
    """Waits until the pipe is closed, or silent for a moment, or flowing for too long."""
    deadline = time.monotonic() + _MAX_DRAIN_S
    seen = -1
    while not pump.done() and seen != printed.size and time.monotonic() < deadline:
        seen = printed.size
        await asyncio.wait({pump}, timeout=DRAIN_S)
    if pump.done():
        pump.result()
