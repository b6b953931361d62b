"""The agentic workflow loop."""

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gadget_ai.client import ChatClient, ModelNotice, Restarted, TextDelta, ThinkingDelta
from gadget_ai.collect import Answer, Live, answer
from gadget_ai.errors import LLMError
from gadget_api.events import BlobRef, Notice, Steered, Step, ToolCall, ToolStarted
from gadget_api.messages import INTERRUPTED, ModelMessage, ToolCallRequest, ToolMessage, UserMessage
from gadget_api.turns import SteerOrigin
from gadget_drone.agent.control import Control
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.partial import PartialAnswer
from gadget_drone.editing.seen import SeenFiles
from gadget_drone.stream import EventStream
from gadget_drone.supervised import Supervisor
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Site:
    """Where the tools of a turn work."""

    project_dir: Path
    spool_dir: Path
    keep_blob: Callable[[Path], BlobRef | None]
    """Takes over the spool file of a large output, to be uploaded; None: there is no room for it."""
    supervisor: Supervisor
    seen: SeenFiles = field(default_factory=SeenFiles)


async def run_turn(
    conversation: Conversation,
    client: ChatClient,
    model: str,
    tools: Toolbox,
    events: EventStream,
    control: Control,
    site: Site,
    started_before: Collection[str] = (),
) -> None:
    """Model -> tool calls -> results -> model, with no limit on rounds, until an answer has no tool call.

    `conversation` ends with the prompt, or with whatever a turn that goes on had come to; `started_before` are the
    tool calls in it that may have run. Raises LLMError, Stopping, OSError (the disk does not take the journal).
    """
    while True:
        for call in conversation.open_calls:
            control.check()
            await events.room()
            if call.call_id in started_before and tools.effect_of(call.name) is not SideEffect.READ_ONLY:
                result, duration_ms = ToolResult(INTERRUPTED, is_error=True), 0
            else:
                result, duration_ms = await _run_tool(call, tools, events, site)
            events.emit(
                ToolCall,
                call_id=call.call_id,
                name=call.name,
                params=call.params,
                response=result.content,
                is_error=result.is_error,
                duration_ms=duration_ms,
                blob=site.keep_blob(result.whole) if result.whole is not None else None,
            )
            conversation.add(ToolMessage(call_id=call.call_id, name=call.name, content=result.content))
        for steer in control.take_steers():
            if steer.origin is SteerOrigin.SERVICE and conversation.is_answered:
                continue  # it is about the work, and that is done
            events.emit(Steered, steer_id=steer.steer_id, content=steer.content, origin=steer.origin)
            conversation.add(UserMessage(content=steer.content))
        if conversation.is_answered:
            return
        control.check()
        await events.room()
        partial = PartialAnswer()
        try:
            said = await _ask(client, conversation, tools, events, partial)
        except (LLMError, asyncio.CancelledError) as exc:
            # A cancel that is not the user's ends no turn: who goes on with it asks again.
            ends_turn = control.is_cancelled or isinstance(exc, LLMError)
            if ends_turn and (cut := partial.answer) is not None:
                with suppress(OSError):  # a full disk does not make another end of this one
                    _emit_step(events, conversation, model, cut)
            raise
        _emit_step(events, conversation, model, said)
        conversation.add(ModelMessage.of(said.message))


def _emit_step(events: EventStream, conversation: Conversation, model: str, said: Answer) -> None:
    events.emit(
        Step,
        index=conversation.step_count + 1,
        message=said.message,
        usage=said.usage,
        finish_reason=said.finish_reason,
        model=model,
    )


async def _ask(
    client: ChatClient, conversation: Conversation, tools: Toolbox, events: EventStream, partial: PartialAnswer
) -> Answer:
    """One model call, its thinking and text streamed as they come."""

    def show(live: Live) -> None:
        partial.take(live)
        match live:
            case TextDelta(content):
                events.delta("response", content)
            case ThinkingDelta(content):
                events.delta("thinking", content)
            case ModelNotice(code, message):
                events.emit(Notice, level="warning", code=code, message=message)
            case Restarted(error, attempt, delay_s):
                message = f"{error.message} Trying again in {delay_s:.0f} s (attempt {attempt})."
                events.emit(Notice, level="warning", code="retrying", message=message)

    return await answer(
        client, conversation.encoded, tools.specs, on_live=show, used_call_ids=conversation.used_call_ids
    )


async def _run_tool(call: ToolCallRequest, tools: Toolbox, events: EventStream, site: Site) -> tuple[ToolResult, int]:
    """The call's result and its milliseconds. The journal says that it starts before it does."""
    events.emit(ToolStarted, call_id=call.call_id, name=call.name, params=call.params)
    if tools.effect_of(call.name) is not SideEffect.READ_ONLY:
        await events.synced()
    context = ToolContext(
        project_dir=site.project_dir,
        output=lambda text: events.delta("toolOutput", text, callId=call.call_id),
        spool_dir=site.spool_dir,
        supervisor=site.supervisor,
        seen=site.seen,
    )
    begun = time.monotonic()
    result = await tools.run(call, context)
    return result, int((time.monotonic() - begun) * 1000)
