"""Running the tool calls of an answer: permission, then the tool, then its result. Calls that only read run side by
side; the others one after the other, in the model's order."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gadget_api.events import BlobRef, ToolCall, ToolStarted
from gadget_api.images import ImageRef
from gadget_api.messages import INTERRUPTED_RESULT, ToolCallRequest, ToolMessage
from gadget_api.traces import Tracer
from gadget_drone.agent.control import Control
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.limits import Limits
from gadget_drone.agent.permission import Permission, Word
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.stream import EventStream
from gadget_drone.tools.tool import Image, SideEffect, ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox

_AT_ONCE = 8
_MAX_WHY_CHARS = 1000


@dataclass(frozen=True)
class Keep:
    """Takes over what is too large for an event, to be uploaded."""

    blob: Callable[[Path], BlobRef | None]
    """The spool file of a large output; None: there is no room for it."""
    image: Callable[[Image], ImageRef | None]


@dataclass(frozen=True)
class Calls:
    conversation: Conversation
    tools: Toolbox
    events: EventStream
    control: Control
    permission: Permission
    limits: Limits
    snapshots: Snapshots
    context: Callable[[ToolCallRequest], Awaitable[ToolContext]]
    finished: Callable[[ToolCallRequest, ToolResult], Awaitable[ToolResult]]
    """Makes of a result what the model is told."""
    keep: Keep
    tracer: Tracer

    async def run(self, started_before: Collection[str]) -> None:
        """Answers every open call of the conversation; those in `started_before` may have run already.

        Raises Stopping, StoppedByUser, OSError.
        """
        for batch in self._batches(self.conversation.open_calls):
            self.control.check()
            await self.events.room()
            admitted: list[tuple[ToolCallRequest, Word]] = []
            for call in batch:
                if call.call_id in started_before and self._changes(call):
                    self._finish(call, ToolResult(INTERRUPTED_RESULT, is_error=True), 0)
                    continue
                await self.limits.before_call(call)
                admitted += await self._admitted(call)
            if len(batch) == 1 and admitted:
                await self._run(*admitted[0])
            elif admitted:
                # While one of them was asked about, the rules may have changed for the others.
                still = [one for call, _ in admitted for one in await self._admitted(call)]
                await _together([self._run(*one) for one in still])

    async def _admitted(self, call: ToolCallRequest) -> list[tuple[ToolCallRequest, Word]]:
        """The call, and the word that it may run; nothing when it may not, and has its result."""
        with self.tracer.span("permission", tool=call.name, call=call.call_id) as span:
            word = await self.permission.word(call)
            span.note(denied=word.refusal is not None)
        if word.refusal is None:
            return [(call, word)]
        self._finish(call, word.refusal, 0, denied=bool(word.because), because=word.because)
        return []

    def _batches(self, calls: Sequence[ToolCallRequest]) -> Iterator[list[ToolCallRequest]]:
        batch: list[ToolCallRequest] = []
        for call in calls:
            if batch and (len(batch) == _AT_ONCE or not all(map(self.tools.parallel, (batch[-1], call)))):
                yield batch
                batch = []
            batch.append(call)
        if batch:
            yield batch

    def _changes(self, call: ToolCallRequest) -> bool:
        return self.tools.effect_of(call) not in (SideEffect.READ_ONLY, SideEffect.RESUMABLE)

    async def _run(self, call: ToolCallRequest, word: Word) -> None:
        """The journal says that the call starts before it does."""
        changes = self._changes(call) and not word.only_reads
        if changes:
            await self.snapshots.taken()
            self.snapshots.note_change()
        self.events.emit(ToolStarted, call_id=call.call_id, name=call.name, params=call.params)
        if changes:
            await self.events.synced()
        begun = time.monotonic()
        with self.tracer.span("tool", tool=call.name, call=call.call_id) as span:
            result = await self.finished(call, await self.tools.run(call, await self.context(call)))
            span.note(isError=result.is_error)
        self._finish(call, result, int((time.monotonic() - begun) * 1000), because=word.because)

    def _finish(
        self,
        call: ToolCallRequest,
        result: ToolResult,
        duration_ms: int,
        *,
        denied: bool = False,
        because: str = "",
    ) -> None:
        self.limits.after_call(call, result.content)
        images = tuple(ref for image in result.images if (ref := self.keep.image(image)) is not None)
        self.events.emit(
            ToolCall,
            call_id=call.call_id,
            name=call.name,
            params=call.params,
            response=result.content,
            is_error=result.is_error,
            duration_ms=duration_ms,
            blob=self.keep.blob(result.whole) if result.whole is not None else None,
            images=images,
            denied=denied,
            because=because[:_MAX_WHY_CHARS],
        )
        message = ToolMessage(call_id=call.call_id, name=call.name, content=result.content, images=images)
        self.conversation.add(message)


async def _together(runs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Raises OSError."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for run in runs:
                tasks.create_task(run)
    except* OSError as group:
        raise group.exceptions[0] from None
