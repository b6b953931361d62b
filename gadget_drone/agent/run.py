"""An agent: a loop with its own conversation, tools, models, budget and inbox."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from gadget_ai.client import ModelNotice, Restarted, TextDelta, ThinkingDelta, ToolSpec
from gadget_ai.collect import LiveChunk, ModelAnswer, ask_model
from gadget_ai.errors import LLMError
from gadget_api.events import Notice, Steered, Step
from gadget_api.messages import ModelMessage, UserMessage
from gadget_api.traces import NoTracer, Tracer
from gadget_api.turns import Steer, SteerOrigin
from gadget_drone.agent.budget import Budget
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.models import Models
from gadget_drone.agent.partial import PartialAnswer
from gadget_drone.agent.window import Window

_NO_TRACER = NoTracer()


class AgentTools(Protocol):
    """The tools of one agent, as its loop uses them."""

    @property
    def specs(self) -> Sequence[ToolSpec]: ...

    def before_answer(self) -> None:
        """The model is about to be asked; it takes a while."""

    def news(self) -> list[Steer]:
        """What happened beside the loop and the model should read, such as the end of a background job."""
        ...

    async def run(self, conversation: Conversation, started_before: Collection[str]) -> None:
        """Answers every open call of the conversation; those in `started_before` may have run already.

        Raises Stopping, StoppedByUser, OSError.
        """


@dataclass(frozen=True)
class AgentRun:
    conversation: Conversation
    window: Window
    tools: AgentTools
    models: Models
    budget: Budget
    inbox: Inbox
    emit: Emitter
    tracer: Tracer = _NO_TRACER

    async def run(self, started_before: Collection[str] = ()) -> None:
        """Model -> tool calls -> results -> model, with no limit on rounds, until an answer has no tool call.

        The conversation ends with the prompt, or with what a resumed agent had come to; `started_before` are
        the tool calls in it that may have run. Raises LLMError, Stopping, StoppedByUser, OSError (the disk does not
        take an event).
        """
        await self.tools.run(self.conversation, started_before)
        while True:
            self._put_messages()
            if self.conversation.is_answered:
                return
            self.inbox.check()
            await self.emit.room()
            await self.budget.before_step()
            with self.tracer.span("step", index=self.conversation.step_count + 1):
                made = await self._ask()
                self._emit_step(made)
                self.conversation.add(ModelMessage.of(made.message))
                await self.tools.run(self.conversation, ())

    def _put_messages(self) -> None:
        """Puts the messages that wait before the model. Those of the service are about work, so they end no answer."""
        for steer in self.inbox.take():
            if steer.origin is SteerOrigin.USER or not self.conversation.is_answered:
                self._put(steer)
        if not self.conversation.is_answered:
            for steer in self.tools.news():
                self._put(steer)

    def _put(self, steer: Steer) -> None:
        self.emit(Steered, steer_id=steer.steer_id, content=steer.content, origin=steer.origin)
        self.conversation.add(UserMessage(content=steer.content))

    async def _ask(self) -> ModelAnswer:
        """One answer, from the first model that gives one."""
        self.tools.before_answer()
        await self.window.fit()
        while True:
            partial = PartialAnswer()
            try:
                with self.tracer.span("modelCall", model=self.models.provider.model_id) as span:
                    made = await self._call(partial)
                    span.note(inputTokens=made.usage.input_tokens, responseTokens=made.usage.response_tokens)
            except (LLMError, asyncio.CancelledError) as exc:
                if isinstance(exc, LLMError) and await self._can_ask_again(exc):
                    continue
                # A cancel that is not the user's ends no turn: the agent that resumes it asks again.
                ends_turn = self.inbox.is_cancelled or isinstance(exc, LLMError)
                if ends_turn and (cut := partial.answer) is not None:
                    with suppress(OSError):  # a full disk does not make another end of this one
                        self._emit_step(cut)
                raise
            self.window.learn(made.usage)
            return made

    async def _can_ask_again(self, error: LLMError) -> bool:
        """Makes the conversation shorter, or turns to another model, where that may help."""
        if await self.window.overflowed(error):
            return True
        if not await self.models.next(error, self.emit):
            return False
        self.conversation.speak_to(self.models.client)
        self.window.measure()
        await self.window.fit()
        return True

    async def _call(self, partial: PartialAnswer) -> ModelAnswer:
        """One model call, its thinking and text streamed as they come."""
        emit = self.emit

        def show(live: LiveChunk) -> None:
            partial.take(live)
            match live:
                case TextDelta(content):
                    emit.delta("response", content)
                case ThinkingDelta(content):
                    emit.delta("thinking", content)
                case ModelNotice(code, message):
                    emit(Notice, level="warning", code=code, message=message)
                case Restarted(error, attempt, delay_s):
                    message = f"{error.message} Trying again in {delay_s:.0f} s (attempt {attempt})."
                    emit(Notice, level="warning", code="retrying", message=message)

        return await ask_model(
            self.models.client,
            self.conversation.encoded,
            self.tools.specs,
            on_live=show,
            used_call_ids=self.conversation.used_call_ids,
        )

    def _emit_step(self, made: ModelAnswer) -> None:
        self.emit(
            Step,
            index=self.conversation.step_count + 1,
            message=made.message,
            usage=made.usage,
            finish_reason=made.finish_reason,
            model=self.models.provider.model_id,
        )
