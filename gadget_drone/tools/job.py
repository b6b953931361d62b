"""The tool `job`."""

from typing import Annotated, Literal

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.clip import clip, quoted
from gadget_drone.errors import ToolError
from gadget_drone.jobs.job import MAX_INPUT_BYTES, InputClosed, Job
from gadget_drone.permissions.patterns import UNREADABLE
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

Action = Literal["list", "read", "write", "stop", "wait"]

_MAX_TOLD_BYTES = 60_000
_ANSWER_S = 1.0
"""How long what a job answers to its input is waited for."""
_SHOWN_COMMAND_CHARS = 200


def _effect(action: Action, **_: object) -> SideEffect:
    match action:
        case "list" | "read" | "wait":
            return SideEffect.READ_ONLY
        case "stop":
            return SideEffect.IDEMPOTENT
        case "write":
            return SideEffect.OTHER


def _accesses(action: Action, input: str | None, **_: object) -> list[Access]:
    """What a program is told may do whatever its command may: a shell takes commands, and what it is told now may be
    the middle of one. So it counts as it is written, and as what cannot be read."""
    if action != "write" or not input:
        return []
    return [Access(capability=Capability.EXECUTE, target=target) for target in (input, UNREADABLE + input)]


def _preview(context: ToolContext, action: Action, job_id: str | None, input: str | None, **_: object) -> str:
    if action != "write":
        return ""
    job = _find(context, job_id)
    return f"Input for: {job.command}\n{input or '(its end)'}"


@tool(effect=_effect, access=_accesses, preview=_preview)
async def job(
    context: ToolContext,
    action: Action,
    job_id: Annotated[str | None, Field(max_length=100, description="For all but list.")] = None,
    input: Annotated[
        str | None, Field(description='For write, with the "\\n" that ends a line; empty closes the input.')
    ] = None,
    wait_s: Annotated[int, Field(ge=0, le=600, description="For wait: seconds at most.")] = 30,
    pattern: Annotated[
        str | None, Field(min_length=1, max_length=1000, description="For wait: plain text to wait for.")
    ] = None,
) -> ToolResult:
    """Look after commands that run in the background. read, write, wait and stop answer with what was printed since the
    last of them. wait ends with new output (or with pattern), or when the command has ended."""
    if action == "list":
        return ToolResult(
            "\n".join(f"{job.id} ({job.state}): {_short(job)}" for job in context.jobs.all()) or "No jobs."
        )
    found = _find(context, job_id)
    notes: list[str] = []
    match action:
        case "wait":
            await found.wait(wait_s, pattern)
            if pattern is not None and not found.has_printed(pattern, unread=True):
                earlier = "; it is in what was read before" if found.has_printed(pattern, unread=False) else ""
                notes.append(f"{quoted(pattern)} was not printed{earlier}")
        case "write":
            notes += await _write(found, input)
        case "stop":
            if not await found.stop():
                notes.append("something in it could not be killed")
    return ToolResult(told(found, notes))


def told(job: Job, notes: list[str] | None = None) -> str:
    """What `job` printed since the last time, and how it is."""
    text, dropped = job.read()
    job.is_end_told = job.is_end_told or not job.is_running
    before = f"[{dropped} bytes before this were not kept]\n" if dropped else ""
    body = clip(text, _MAX_TOLD_BYTES)
    body += "" if body.endswith("\n") else "\n" if body else "(no new output)\n"
    return f"{before}{body}[{'; '.join((f'job {job.id}: {job.state}', *(notes or ())))}]"


async def _write(job: Job, given: str | None) -> list[str]:
    if given is None:
        raise ToolError("write needs input; an empty one closes the job's input.")
    data = given.encode()
    if len(data) > MAX_INPUT_BYTES:
        raise ToolError(f"Input may be {MAX_INPUT_BYTES} bytes at once: put more in a file.")
    if not data:
        job.close_input()
        await job.wait(_ANSWER_S)
        return ["its input is closed"]
    try:
        taken = await job.write(data)
    except InputClosed as error:
        await job.settle()
        raise ToolError(f"Job {job.id} takes no input any more ({job.state}).") from error
    await job.wait(_ANSWER_S)
    return [] if taken == len(data) else [f"it took only {taken} of {len(data)} bytes"]


def _find(context: ToolContext, job_id: str | None) -> Job:
    found = context.jobs.find(job_id or "")
    if found is None:
        there = ", ".join(job.id for job in context.jobs.all())
        raise ToolError(
            f"There is no job {quoted(job_id or '')}; "
            + (f"there are: {there}." if there else "none runs. Jobs end with the drone: start it again.")
        )
    return found


def _short(job: Job) -> str:
    line = " ".join(job.command.split())
    return line if len(line) <= _SHOWN_COMMAND_CHARS else line[:_SHOWN_COMMAND_CHARS] + "…"
