"""The agentic workflow loop."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from gadget_ai.client import ModelNotice, Restarted, TextDelta, ThinkingDelta
from gadget_ai.collect import LiveChunk, ModelAnswer, ask_model
from gadget_ai.errors import LLMError
from gadget_api.events import Notice, Steered, Step
from gadget_api.ids import new_id
from gadget_api.messages import ModelMessage, UserMessage
from gadget_api.traces import Tracer
from gadget_api.turns import SteerOrigin
from gadget_drone.agent.calls import Calls
from gadget_drone.agent.control import Control
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.limits import Limits
from gadget_drone.agent.models import Models
from gadget_drone.agent.partial import PartialAnswer
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.window import Window
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.stream import EventStream
from gadget_drone.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Loop:
    """What a turn's loop goes round with."""

    conversation: Conversation
    models: Models
    tools: Toolbox
    events: EventStream
    control: Control
    calls: Calls
    limits: Limits
    window: Window
    snapshots: Snapshots
    jobs: Jobs
    tracer: Tracer

    async def run(self, started_before: Collection[str] = ()) -> None:
        """Model -> tool calls -> results -> model, with no limit on rounds, until an answer has no tool call.

        The conversation ends with the prompt, or with whatever a turn that goes on had come to; `started_before` are
        the tool calls in it that may have run. Raises LLMError, Stopping, StoppedByUser, OSError (the disk does not
        take the journal).
        """
        await self.calls.run(started_before)
        while True:
            self._put_steers()
            if self.conversation.is_answered:
                return
            self.control.check()
            await self.events.room()
            await self.limits.before_step()
            with self.tracer.span("step", index=self.conversation.step_count + 1):
                said = await self._ask()
                self._emit_step(said)
                self.conversation.add(ModelMessage.of(said.message))
                await self.calls.run(())

    def _put_steers(self) -> None:
        for steer in self.control.take_steers():
            if steer.origin is SteerOrigin.SERVICE and self.conversation.is_answered:
                continue  # it is about the work, and that is done
            self.events.emit(Steered, steer_id=steer.steer_id, content=steer.content, origin=steer.origin)
            self.conversation.add(UserMessage(content=steer.content))
        if not self.conversation.is_answered:
            for job in self.jobs.ended():
                said = f"[From Gadget Code, not from the user: job {job.id} is over ({job.state}): {job.command:.200}]"
                self.events.emit(Steered, steer_id=new_id(), content=said, origin=SteerOrigin.SERVICE)
                self.conversation.add(UserMessage(content=said))

    async def _ask(self) -> ModelAnswer:
        """One answer, from whichever model gives one."""
        if self.jobs.are_running:
            self.snapshots.note_change()
        self.snapshots.take()
        await self.window.fit()
        while True:
            partial = PartialAnswer()
            try:
                with self.tracer.span("modelCall", model=self.models.provider.model_id) as span:
                    said = await self._call(partial)
                    span.note(inputTokens=said.usage.input_tokens, responseTokens=said.usage.response_tokens)
            except (LLMError, asyncio.CancelledError) as exc:
                if isinstance(exc, LLMError) and await self._mended(exc):
                    continue
                # A cancel that is not the user's ends no turn: who goes on with it asks again.
                ends_turn = self.control.is_cancelled or isinstance(exc, LLMError)
                if ends_turn and (cut := partial.answer) is not None:
                    with suppress(OSError):  # a full disk does not make another end of this one
                        self._emit_step(cut)
                raise
            self.window.learn(said.usage)
            return said

    async def _mended(self, error: LLMError) -> bool:
        """Whether asking again may help: of another model, or with less."""
        if await self.window.overflowed(error):
            return True
        if not await self.models.next(error, self.events):
            return False
        self.conversation.speak_to(self.models.client)
        self.window.measure()
        await self.window.fit()
        return True

    async def _call(self, partial: PartialAnswer) -> ModelAnswer:
        """One model call, its thinking and text streamed as they come."""
        events = self.events

        def show(live: LiveChunk) -> None:
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

        return await ask_model(
            self.models.client,
            self.conversation.encoded,
            self.tools.specs,
            on_live=show,
            used_call_ids=self.conversation.used_call_ids,
        )

    def _emit_step(self, said: ModelAnswer) -> None:
        provider = self.models.provider
        self.events.emit(
            Step,
            index=self.conversation.step_count + 1,
            message=said.message,
            usage=said.usage,
            finish_reason=said.finish_reason,
            model=provider.model_id,
        )
