"""The tool `shell`."""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.jobs.jobs import MAX_JOBS, TooManyJobs
from gadget_drone.pipes import CHUNK_BYTES, open_pipe
from gadget_drone.supervised import NotStarted, Supervised
from gadget_drone.tools.job import told
from gadget_drone.tools.output import LiveOutput, SpooledOutput
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolError, ToolResult, tool

DRAIN_S = 0.2
"""How long to wait for more once the command has ended: a daemon it left may hold the pipe open for ever."""
_MAX_DRAIN_S = 2.0
_WORTH_TELLING_S = 1.0
_FIRST_WORDS_S = 1.0
"""How long a job is waited for, that its answer may have its first words, or its end."""


def _accesses(command: str, **_: object) -> list[Access]:
    return [Access(capability=Capability.EXECUTE, target=command)]


def _preview(context: ToolContext, command: str, **_: object) -> str:
    return command


@tool(effect=SideEffect.OTHER, access=_accesses, preview=_preview)
async def shell(
    context: ToolContext,
    command: Annotated[str, Field(min_length=1, description="For /bin/sh -c, in the project directory.")],
    timeout_s: Annotated[int, Field(ge=1, le=3600, description="Seconds until it is killed.")] = 120,
    background: Annotated[bool, Field(description="Do not wait for its end; it has no time-out.")] = False,
) -> ToolResult:
    """Run a shell command and wait for its end. Its input is empty. The answer has its output (of large output the
    beginning and the end) and its exit status. Run servers and watchers with background: the answer names a job for
    the tool job."""
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character.")
    if background:
        return await _start_job(context, command)
    printed = SpooledOutput(context.spool_dir)
    started = time.monotonic()
    try:
        ended = await _run(command, context, timeout_s, printed)
        text, whole = await asyncio.to_thread(printed.finish) if printed.is_large else printed.finish()
    except NotStarted as error:
        printed.discard()
        raise ToolError(f"The command did not start: {error.strerror}.") from error
    except BaseException:
        printed.discard()
        raise
    took_s = time.monotonic() - started
    notes = [ended.said + (f" after {took_s:.1f} s" if took_s > _WORTH_TELLING_S else ""), *ended.notes]
    body = text if text.endswith("\n") else f"{text}\n" if text else "(no output)\n"
    return ToolResult(f"{body}[{'; '.join(notes)}]", is_error=ended.failed, whole=whole)


async def _start_job(context: ToolContext, command: str) -> ToolResult:
    try:
        job = await context.jobs.start(command, partial(context.start, _words(command)))
    except TooManyJobs as error:
        raise ToolError(f"{MAX_JOBS} jobs run already: stop one with the tool job.") from error
    except NotStarted as error:
        raise ToolError(f"The command did not start: {error.strerror}.") from error
    # Most that cannot work say so at once.
    await job.wait(_FIRST_WORDS_S)
    if (failure := job.not_started) is not None:
        job.is_end_told = True
        raise ToolError(f"The command did not start: {failure.strerror}.")
    return ToolResult(told(job))


def _words(command: str) -> list[str]:
    return ["/bin/sh", "-c", command]


@dataclass(frozen=True)
class _Ended:
    said: str
    failed: bool
    notes: tuple[str, ...] = ()


async def _run(command: str, context: ToolContext, timeout_s: float, printed: SpooledOutput) -> _Ended:
    # First this: nothing may be cancelled between the start of the command and `_watch`.
    stream, transport, output = await open_pipe()
    with closing(transport), output:
        running = await context.start(_words(command), output=output.fileno())
        output.close()
        pump = asyncio.create_task(_pump(stream, printed, LiveOutput(context.output).feed))
        try:
            return await _watch(running, timeout_s, pump, printed)
        finally:
            transport.close()  # ends the pump
            await asyncio.wait({pump})


async def _watch(running: Supervised, timeout_s: float, pump: asyncio.Task[None], printed: SpooledOutput) -> _Ended:
    has_ended = False
    try:
        async with asyncio.timeout(timeout_s):
            ended = await running.ended()
        has_ended = True
        await _drain(pump, printed)
        said = f"exit status {ended.status}" if ended.status >= 0 else f"killed by signal {-ended.status}"
        if running.ended_because is not None:
            said = f"ended: {running.ended_because}"
        left = "what it started still runs in the background"
        if ended.group is not None:
            left += f", to be ended with: kill -- -{ended.group}"
        return _Ended(said, failed=ended.status != 0, notes=(left,) if ended.is_something_left else ())
    except TimeoutError:
        dead = await running.kill()
        has_ended = True
        await _drain(pump, printed)
        notes = ["raise timeout_s, or run it in the background"]
        if not dead:
            notes.append("something in it could not be killed")
        return _Ended(f"killed: not done within {timeout_s:g} s", failed=True, notes=tuple(notes))
    except ChildProcessError as error:
        raise ToolError("What watched over the command was killed: its outcome is unknown.") from error
    finally:
        if not has_ended:
            await running.kill()


async def _pump(stream: asyncio.StreamReader, printed: SpooledOutput, live: Callable[[bytes], None]) -> None:
    while chunk := await stream.read(CHUNK_BYTES):
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
