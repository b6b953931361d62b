"""What to do with a conversation that becomes too long for its model. Pure: it plans, and others carry it out.

    fits               nothing
    results are most   Trim: old tool results give way, large ones first, of these the oldest
    else               Summarise: a summary stands for the beginning, the last steps stay word for word

A step is one message of the model and the results of its calls; nothing cuts through one. Sizes are raw tokens
(`context.tokens`), and so is the limit. The log itself stays as it is: a plan ends in a mark that is appended to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.messages import TRIMMED_RESULT, Compaction, Message, ModelMessage, ToolMessage, UserMessage
from gadget_drone.context.facts import Facts
from gadget_drone.context.summary import join
from gadget_drone.context.tokens import BYTES_A_TOKEN, MESSAGE_TOKENS, text_tokens

KEPT_STEPS = 2
"""As many of the last steps stay word for word, where they fit."""

CLEARED = Compaction(kept=0)
"""What `/clear` appends: nothing of what came before is read any more."""

_TRIM_TO, _TRIM_ENOUGH = 0.5, 0.7
"""Of the limit. Trimming goes on down to the first, and is enough when it comes below the second: each compaction costs
the provider's cache, so that one has to last for a while."""
_HALF, _KEEP_SHARE, _SUMMARY_SHARE = 0.5, 0.35, 0.25
"""Of what is left of the limit beside the system prompt and the tools: what the last steps may have, up to where more
is kept with them, and what the summary may have."""
_MAX_SUMMARY_TOKENS = 8_000
_MIN_SUMMARY_TOKENS = 100
_LARGE_TOKENS = 1_000
_WORTH_TOKENS = 50
"""A result that would be smaller by less than this is left alone."""
_TRIMMED_TOKENS = MESSAGE_TOKENS + text_tokens(TRIMMED_RESULT)


class ContextTooLong(GadgetError):
    """The conversation cannot be made to fit."""

    title = "The conversation is too long"

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CONTEXT_TOO_LONG, message)


@dataclass(frozen=True)
class View:
    """A conversation as the model reads it now, without the system message, and where it has to go."""

    messages: Sequence[Message]
    sizes: Sequence[int]
    fixed_tokens: int
    """Of the system prompt and the tools."""
    limit_tokens: int
    prompt_index: int | None = None
    """Which message is the prompt of this turn; None between turns, or when it is in a summary already."""

    @property
    def tokens(self) -> int:
        return self.fixed_tokens + sum(self.sizes)


@dataclass(frozen=True)
class Trim:
    compaction: Compaction


@dataclass(frozen=True)
class Summarise:
    kept: int
    trimmed: tuple[str, ...]
    """Results among those that are kept, which are too large even so."""
    dropped: tuple[Message, ...]
    room_tokens: int
    """For the summary."""

    def compaction(self, facts: Facts, said: str) -> Compaction:
        """With the facts of what is dropped, and the model's notes on it; "" where it made none."""
        room_bytes = (self.room_tokens - MESSAGE_TOKENS) * BYTES_A_TOKEN
        return Compaction(kept=self.kept, summary=join(facts, said, room_bytes), trimmed=self.trimmed)


Plan = Trim | Summarise


def plan(view: View, *, force: bool = False) -> Plan | None:
    """None: there is nothing to do, or nothing that would help. `force` is for a user who asked for it: it summarises
    what is not among the last steps, whether it fits or not.

    Raises ContextTooLong when no plan would make it fit.
    """
    fits = view.tokens <= view.limit_tokens
    if not view.messages or (fits and not force):
        return None
    if not force and (trim := _trim(view)) is not None:
        return trim
    try:
        summarise = _summarise(view, whole_steps=fits)
    except ContextTooLong:
        if fits:
            return None
        raise
    return summarise if fits or summarise is not None else _trim_anything(view)


def _trim(view: View) -> Trim | None:
    """A trim that makes enough room, without touching the last steps."""
    trimmed, freed = _give_way(view, range(_starts(view)[0]), view.tokens - int(_TRIM_TO * view.limit_tokens))
    if view.tokens - freed > _TRIM_ENOUGH * view.limit_tokens:
        return None
    return Trim(Compaction(trimmed=trimmed))


def _summarise(view: View, *, whole_steps: bool) -> Summarise | None:
    """None where so little comes before what has to stay that a summary would free nothing. `whole_steps`: it fits as
    it is, so that the last steps stay in any case."""
    free = view.limit_tokens - view.fixed_tokens
    if free < 2 * _MIN_SUMMARY_TOKENS:
        raise ContextTooLong(
            f"The system prompt and the tools alone have about {view.fixed_tokens} tokens, and the model reads "
            f"{max(0, view.limit_tokens)}: choose a model with a larger context window, or set a larger one for it."
        )
    wanted = min(_MAX_SUMMARY_TOKENS, max(_MIN_SUMMARY_TOKENS, int(free * _SUMMARY_SHARE)))
    for start, trimmed, kept in _last_parts(view, free, whole_steps=whole_steps):
        room = min(wanted, sum(view.sizes[:start]) * 3 // 4, free - kept)
        if room >= _MIN_SUMMARY_TOKENS:
            return Summarise(len(view.messages) - start, trimmed, tuple(view.messages[:start]), room)
    return None


def _last_parts(view: View, free: int, *, whole_steps: bool) -> Iterator[tuple[int, tuple[str, ...], int]]:
    """What may be kept, the best first: where it begins, which results in it have to give way all the same, and the
    tokens it then has."""
    starts = _starts(view)
    if whole_steps:
        yield starts[0], (), sum(view.sizes[starts[0] :])
        return
    if view.prompt_index is not None:
        starts = sorted({view.prompt_index, *starts})
    for start in starts:
        kept = sum(view.sizes[start:])
        if kept <= _HALF * free:
            yield _extended(view, start, kept, int(_KEEP_SHARE * free))
    for start in starts[-2:]:
        kept = sum(view.sizes[start:])
        trimmed: tuple[str, ...] = ()
        if kept > free - _MIN_SUMMARY_TOKENS:
            trimmed, freed = _give_way(view, range(start, len(view.messages)), kept - int(_HALF * free))
            kept -= freed
        yield start, trimmed, kept


def _trim_anything(view: View) -> Trim:
    """The results of the last steps too: there is nothing else."""
    free = view.limit_tokens - view.fixed_tokens
    trimmed, freed = _give_way(view, range(len(view.messages)), sum(view.sizes) - int(_HALF * free))
    if view.tokens - freed > view.limit_tokens:
        raise _does_not_fit(view)
    return Trim(Compaction(trimmed=trimmed))


def _extended(view: View, start: int, kept: int, wanted: int) -> tuple[int, tuple[str, ...], int]:
    """More of what came before `start`, as long as all of it has at most `wanted` tokens."""
    size = kept
    for index in range(start - 1, -1, -1):
        size += view.sizes[index]
        if size > wanted:
            break
        if not isinstance(view.messages[index], ToolMessage):
            start, kept = index, size
    return start, (), kept


def _starts(view: View) -> list[int]:
    """Where the last steps begin, the one before the last first; then where what the user said after them begins, if
    he did. Never empty, ascending."""
    messages = view.messages
    steps = [index for index in range(len(messages)) if isinstance(messages[index], ModelMessage)][-KEPT_STEPS:]
    if messages and not isinstance(messages[-1], UserMessage):
        return steps or [0]
    last = max(0, len(messages) - 1)
    if view.prompt_index is not None and view.prompt_index > (steps[-1] if steps else -1):
        last = view.prompt_index
    return [*steps, last]


def _give_way(view: View, indices: Iterable[int], need: int) -> tuple[tuple[str, ...], int]:
    """The calls whose results are removed so that `need` tokens become free, in order, and how many do: large ones
    first, of these the oldest."""
    worth = [
        (view.sizes[index] - _TRIMMED_TOKENS, message.call_id)
        for index in indices
        if isinstance(message := view.messages[index], ToolMessage)
        and message.content != TRIMMED_RESULT
        and view.sizes[index] - _TRIMMED_TOKENS >= _WORTH_TOKENS
    ]
    chosen: set[str] = set()
    freed = 0
    for saved, call_id in sorted(worth, key=lambda one: one[0] < _LARGE_TOKENS):  # stable: the oldest stay first
        if freed >= need:
            break
        chosen.add(call_id)
        freed += saved
    return tuple(call_id for _, call_id in worth if call_id in chosen), freed


def _does_not_fit(view: View) -> ContextTooLong:
    room = view.limit_tokens - view.fixed_tokens
    if view.prompt_index is not None and view.sizes[view.prompt_index] > room - _MIN_SUMMARY_TOKENS:
        return ContextTooLong(
            f"The prompt has about {view.sizes[view.prompt_index]} tokens, and this model has room for {room}: shorten "
            "it, put the long part into a file of the project, or choose a model with a larger context window."
        )
    return ContextTooLong(
        f"The last step alone does not fit into the {room} tokens that this model has room for: choose a model with a "
        "larger context window, or begin again with /clear."
    )
