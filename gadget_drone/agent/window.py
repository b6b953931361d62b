"""Keeping the conversation inside the model's context window: made shorter before it is too late, or when its user
says so."""

from collections.abc import Callable, Sequence

from gadget_ai.client import ToolSpec
from gadget_ai.collect import ask_model
from gadget_ai.errors import LLMError
from gadget_ai.retry import RetryPolicy
from gadget_api.errors import ErrorCode
from gadget_api.events import Compacted, Notice
from gadget_api.messages import Message, Usage
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.models import Models
from gadget_drone.context.commands import Compact, read_command
from gadget_drone.context.compaction import CLEARED
from gadget_drone.context.compactor import Compacting, Compactor
from gadget_drone.context.limits import WindowLimits
from gadget_drone.context.tokens import Calibration, TokenEstimate, message_tokens, tools_tokens

_RETRY = RetryPolicy(retries=1)


class Window:
    def __init__(
        self,
        conversation: Conversation,
        models: Models,
        tools: Sequence[ToolSpec],
        emit: Emitter,
        calibration: Calibration,
        on_compacted: Callable[[], None] = lambda: None,
    ) -> None:
        self._conversation = conversation
        self._models = models
        self._tools = tools
        self._emit = emit
        self._calibration = calibration
        self._on_compacted = on_compacted
        self._spent = Usage()
        self.measure()

    def measure(self) -> None:
        """Measures all anew, for the model that answers now."""
        provider = self._models.provider
        fixed = message_tokens(self._conversation.system) + tools_tokens(self._tools)
        model = f"{provider.id}/{provider.model_id}"
        self._estimate = TokenEstimate(model, self._calibration, fixed_tokens=fixed)
        self._compactor = Compactor(WindowLimits.of(provider), self._estimate)
        self._follow()

    async def fit(self) -> None:
        """Before a model call. Raises ContextTooLong."""
        self._follow()
        made = await self._compactor.compact(
            self._conversation.messages, self._say, prompt_index=self._conversation.prompt_index, force=False
        )
        if made is not None:
            self._take(made)

    def learn(self, usage: Usage) -> None:
        """The model has answered the conversation as it is."""
        self._compactor.answered(usage.input_tokens)

    async def overflowed(self, error: LLMError) -> bool:
        """Whether the conversation is shorter now, because the provider says that it was too long. Raises
        ContextTooLong."""
        if error.code is not ErrorCode.CONTEXT_TOO_LONG:
            return False
        made = await self._compactor.after_overflow(
            self._conversation.messages, self._say, prompt_index=self._conversation.prompt_index
        )
        self._take(made)
        return True

    async def command(self, prompt: str) -> None:
        """`/clear`, or `/compact` with what to keep in mind; there is nothing else that the turn has to do."""
        self._follow()
        asked = read_command(prompt)
        if not isinstance(asked, Compact):
            before = self._estimate.tokens
            self._estimate.replace([])
            self._take(Compacting(CLEARED, [], before, self._estimate.tokens))
            return
        made = await self._compactor.compact(
            self._conversation.messages, self._say, prompt_index=None, focus=asked.focus, force=True
        )
        if made is None:
            message = "There is nothing to compact: the conversation is its last steps alone."
            self._emit(Notice, level="info", code="nothingToCompact", message=message)
        else:
            self._take(made)

    def _follow(self) -> None:
        """What was said since."""
        for message in self._conversation.messages[len(self._estimate.sizes) :]:
            self._estimate.add(message)

    def _take(self, made: Compacting) -> None:
        if made.failure is not None:
            message = f"The summary was made without the model's own notes: {made.failure.message}"
            self._emit(Notice, level="warning", code="plainSummary", message=message)
        self._emit(
            Compacted,
            compaction=made.compaction,
            tokens_before=made.tokens_before,
            tokens_after=made.tokens_after,
            usage=self._spent,
        )
        self._spent = Usage()
        self._conversation.add(made.compaction)
        self._on_compacted()

    async def _say(self, messages: list[Message]) -> str:
        client = self._models.client
        encoded = [client.encode(message) for message in messages]
        said = await ask_model(client, encoded, (), on_live=lambda _: None, retry=_RETRY)
        self._spent = said.usage
        return said.message.content
