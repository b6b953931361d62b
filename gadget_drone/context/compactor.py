"""Makes a conversation shorter when it has to be, and gives up when that does not help: a compaction that frees nothing
is not tried again and again."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gadget_ai.errors import LLMError
from gadget_ai.windows import LIKELY_WINDOW, UNKNOWN_WINDOW
from gadget_api.history import messages_for_model
from gadget_api.messages import Compaction, Message, ToolMessage
from gadget_drone.context.compaction import ContextTooLong, Summarise, View, plan
from gadget_drone.context.facts import facts_of, outcome_of
from gadget_drone.context.limits import WindowLimits
from gadget_drone.context.summary import summary_request
from gadget_drone.context.tokens import BYTES_A_TOKEN, TokenEstimate

log = logging.getLogger(__name__)

Say = Callable[[list[Message]], Awaitable[str]]
"""Asks the model, without tools, and gives its text. Raises LLMError."""

MIN_FREED = 0.1
"""Of the conversation: a compaction that freed less than this was the last one."""
MAX_IN_A_ROW = 3
"""Compactions with less than `_APART` answers between them."""
_APART = 2
_LOWERED = 0.8
_RECORD_SHARE = 0.6
_MAX_RECORD_BYTES = 400_000


@dataclass(frozen=True)
class Compacting:
    """A compaction that was made. Whoever made it appends the mark to the log."""

    compaction: Compaction
    messages: list[Message]
    """As the model reads them now."""
    tokens_before: int
    tokens_after: int
    failure: LLMError | None = None
    """Why the model's own notes are missing."""


class Compactor:
    """Of one turn with one model. `estimate` is of the conversation that is compacted, and is kept in step with it."""

    def __init__(self, limits: WindowLimits, estimate: TokenEstimate) -> None:
        self._limit_tokens = limits.input_tokens
        self._is_unknown = limits.window_tokens == UNKNOWN_WINDOW
        self._estimate = estimate
        self._is_stuck = False
        self._has_overflowed = False
        self._in_a_row = 0
        self._answers = 0
        self._outcomes: dict[str, str] = {}
        """Of commands whose results were removed, for the facts of a later summary."""

    @property
    def limit_tokens(self) -> int:
        """What a request may have, as the provider counts; lower than the window says once it refused less."""
        return self._limit_tokens

    @property
    def is_due(self) -> bool:
        """Whether the conversation has to be made shorter before the model is asked again."""
        return self._estimate.tokens > self._limit_tokens

    def answered(self, input_tokens: int) -> None:
        """The model has answered; the provider counted that many tokens of input, or 0."""
        self._estimate.reported(input_tokens)
        self._has_overflowed = False
        self._answers += 1

    async def compact(
        self, messages: Sequence[Message], say: Say, *, prompt_index: int | None, focus: str | None = None, force: bool
    ) -> Compacting | None:
        """None: nothing has to be done, or can be. `force`: the user asked for it, with `focus` or without.

        Raises ContextTooLong when it cannot be made to fit, or when the last compactions did not help.
        """
        if not force and not self.is_due:
            return None
        if force:
            self._is_stuck, self._in_a_row = False, 0
        elif self._is_stuck or (self._in_a_row >= MAX_IN_A_ROW and self._answers < _APART):
            raise ContextTooLong(
                "The conversation fills the model's context window again and again, and making it shorter does not "
                "help: ask for less at once, choose a model with a larger context window, or begin again with /clear."
            )
        ratio = self._estimate.ratio
        limit = int(self._limit_tokens / ratio)
        view = View(messages, self._estimate.sizes, self._estimate.fixed_tokens, limit, prompt_index)
        planned = plan(view, force=force)
        if planned is None:
            return None
        failure = None
        if isinstance(planned, Summarise):
            try:
                said = await say(_request(planned, limit, focus))
            except LLMError as exc:
                log.warning("the model makes no notes for the summary: %s", exc.message)
                said, failure = "", exc
            mark = planned.compaction(facts_of(planned.dropped, self._outcomes), said)
        else:
            mark = planned.compaction
        return self._made(messages, mark, failure)

    async def after_overflow(self, messages: Sequence[Message], say: Say, *, prompt_index: int | None) -> Compacting:
        """The provider refused the conversation as too long: so its window is smaller than was thought.

        Raises ContextTooLong when that happens again before the model has answered.
        """
        made = None
        if not self._has_overflowed:
            self._has_overflowed = True
            refused = self._estimate.tokens
            if self._is_unknown and refused > WindowLimits(LIKELY_WINDOW).input_tokens:
                refused = WindowLimits(LIKELY_WINDOW).input_tokens
            self._limit_tokens = int(_LOWERED * min(self._limit_tokens, refused))
            made = await self.compact(messages, say, prompt_index=prompt_index, force=False)
        if made is None:
            raise ContextTooLong(
                "The provider says that the conversation is too long, even now that it was made shorter: set the "
                "model's real context window at its provider, or begin again with /clear."
            )
        return made

    def _made(self, messages: Sequence[Message], mark: Compaction, failure: LLMError | None) -> Compacting:
        trimmed = set(mark.trimmed)
        self._outcomes |= {
            message.call_id: outcome_of(message)
            for message in messages
            if isinstance(message, ToolMessage) and message.name == "shell" and message.call_id in trimmed
        }
        before = self._estimate.tokens
        read = messages_for_model([*messages, mark])
        self._estimate.replace(read)
        after = self._estimate.tokens
        self._is_stuck = before - after < MIN_FREED * before
        self._in_a_row = self._in_a_row + 1 if self._answers < _APART else 1
        self._answers = 0
        return Compacting(mark, read, before, after, failure)


def _request(planned: Summarise, limit: int, focus: str | None) -> list[Message]:
    """The request for the notes; the record in it is shortened so that it fits the model, too."""
    answer_bytes = planned.room_tokens * BYTES_A_TOKEN // 2
    record_bytes = min(_MAX_RECORD_BYTES, int(limit * _RECORD_SHARE) * BYTES_A_TOKEN)
    return summary_request(planned.dropped, max_bytes=record_bytes, answer_bytes=answer_bytes, focus=focus)
