"""Running the tool calls of an answer: permission, then the tool, then its result. Calls that only read run side by
side; the others one after the other, in the model's order."""

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from gadget_ai.client import ToolSpec
from gadget_api.events import BlobRef, ToolCall, ToolStarted
from gadget_api.ids import new_id
from gadget_api.images import ImageRef
from gadget_api.messages import INTERRUPTED_RESULT, ToolCallRequest, ToolMessage
from gadget_api.traces import Tracer
from gadget_api.turns import Steer, SteerOrigin
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.permission import Permission, Permit
from gadget_drone.agent.repeats import Repeats
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.tools.tool import Image, SideEffect, ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox

_AT_ONCE = 8
_FROM_US = "[From Gadget Code, not from the user:"
_MAX_WHY_CHARS = 1000


class Place(Protocol):
    """Where an agent's calls run."""

    async def context(self, call: ToolCallRequest) -> ToolContext:
        """What the call gets, by the policy as it is now."""
        ...

    async def render(self, call: ToolCallRequest, result: ToolResult) -> ToolResult:
        """Renders a tool result for the model."""
        ...

    def keep_output(self, spool: Path) -> BlobRef | None:
        """Takes over the file of an output that is too large for an event. None: there is no room for it."""

    def keep_image(self, image: Image) -> ImageRef | None: ...


@dataclass(frozen=True)
class ToolRunner:
    """Implements `AgentTools`."""

    toolbox: Toolbox
    emit: Emitter
    inbox: Inbox
    permission: Permission
    repeats: Repeats
    snapshots: Snapshots
    place: Place
    jobs: Jobs
    may_begin: asyncio.Event
    """No tool runs before it is set."""
    tracer: Tracer

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.toolbox.specs

    def before_answer(self) -> None:
        """Takes a checkpoint while the model thinks."""
        if self.jobs.are_running:
            self.snapshots.note_change()
        self.snapshots.take()

    def news(self) -> list[Steer]:
        """The background jobs that have ended."""
        return [
            Steer(
                steer_id=new_id(),
                content=f"{_FROM_US} job {job.id} is over ({job.state}): {job.command:.200}]",
                origin=SteerOrigin.SERVICE,
            )
            for job in self.jobs.ended()
        ]

    async def run(self, conversation: Conversation, started_before: Collection[str]) -> None:
        for batch in self._batches(conversation.open_calls):
            await self.may_begin.wait()
            self.inbox.check()
            await self.emit.room()
            permitted: list[tuple[ToolCallRequest, Permit]] = []
            for call in batch:
                if call.call_id in started_before and self._changes(call):
                    self._finish(conversation, call, ToolResult(INTERRUPTED_RESULT, is_error=True), 0)
                    continue
                await self.repeats.before_call(call)
                permitted += await self._permitted(conversation, call)
            if len(batch) == 1 and permitted:
                await self._run(conversation, *permitted[0])
            elif permitted:
                # While the user was asked about one of them, the rules may have changed for the others.
                still = [one for call, _ in permitted for one in await self._permitted(conversation, call)]
                await _side_by_side([self._run(conversation, *one) for one in still])

    async def _permitted(
        self, conversation: Conversation, call: ToolCallRequest
    ) -> list[tuple[ToolCallRequest, Permit]]:
        """The call with its permit; nothing when it may not run, and has its result."""
        with self.tracer.span("permission", tool=call.name, call=call.call_id) as span:
            permit = await self.permission.permit(call)
            span.note(denied=permit.refusal is not None)
        if permit.refusal is None:
            return [(call, permit)]
        self._finish(conversation, call, permit.refusal, 0, denied=bool(permit.because), because=permit.because)
        return []

    def _batches(self, calls: Sequence[ToolCallRequest]) -> Iterator[list[ToolCallRequest]]:
        batch: list[ToolCallRequest] = []
        for call in calls:
            if batch and (len(batch) == _AT_ONCE or not all(map(self.toolbox.parallel, (batch[-1], call)))):
                yield batch
                batch = []
            batch.append(call)
        if batch:
            yield batch

    def _changes(self, call: ToolCallRequest) -> bool:
        return self.toolbox.effect_of(call) not in (SideEffect.READ_ONLY, SideEffect.RESUMABLE)

    async def _run(self, conversation: Conversation, call: ToolCallRequest, permit: Permit) -> None:
        """The disk has the event that the call starts before it does: so a crash never runs it twice."""
        changes = self._changes(call) and not permit.only_reads
        if changes:
            await self.snapshots.taken()
            self.snapshots.note_change()
        self.emit(ToolStarted, call_id=call.call_id, name=call.name, params=call.params)
        if changes:
            await self.emit.synced()
        begun = time.monotonic()
        with self.tracer.span("tool", tool=call.name, call=call.call_id) as span:
            context = replace(await self.place.context(call), targets=permit.targets)
            result = await self.toolbox.run(call, context)
            result = await self.place.render(call, result)
            span.note(isError=result.is_error)
        self._finish(conversation, call, result, int((time.monotonic() - begun) * 1000), because=permit.because)

    def _finish(
        self,
        conversation: Conversation,
        call: ToolCallRequest,
        result: ToolResult,
        duration_ms: int,
        *,
        denied: bool = False,
        because: str = "",
    ) -> None:
        self.repeats.after_call(call, result.content)
        images = tuple(ref for image in result.images if (ref := self.place.keep_image(image)) is not None)
        self.emit(
            ToolCall,
            call_id=call.call_id,
            name=call.name,
            params=call.params,
            response=result.content,
            is_error=result.is_error,
            duration_ms=duration_ms,
            blob=self.place.keep_output(result.whole) if result.whole is not None else None,
            images=images,
            denied=denied,
            because=because[:_MAX_WHY_CHARS],
        )
        message = ToolMessage(call_id=call.call_id, name=call.name, content=result.content, images=images)
        conversation.add(message)


async def _side_by_side(runs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Raises OSError."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for run in runs:
                tasks.create_task(run)
    except* OSError as group:
        raise group.exceptions[0] from None
