"""From a turn's events to the messages a model reads.

Used by the web service for the turns that are over, and by the drone when it goes on with a turn after a crash:
one function, so that a history is the same wherever it is built.
"""

import re
from collections.abc import Iterable

from gadget_api.events import Compacted, Steered, Step, ToolCall, TurnEvent
from gadget_api.ids import Id
from gadget_api.images import ImageRef
from gadget_api.messages import (
    INTERRUPTED,
    TRIMMED,
    Compaction,
    FinishReason,
    Message,
    ModelMessage,
    ToolCallRequest,
    ToolMessage,
    UserMessage,
    unanswered,
)
from gadget_api.model import WireModel


class TurnHistory(WireModel):
    """One turn as messages: the prompt, then all that was said and done, and the marks of what was compacted."""

    turn_id: Id
    messages: tuple[Message | Compaction, ...]


class HistoryPage(WireModel):
    """A page of a session's history, oldest turn first."""

    items: tuple[TurnHistory, ...]
    next_cursor: str | None


_COMMANDS = re.compile(r"/(?:compact|clear)(?:\s|$)")


def is_command(prompt: str) -> bool:
    """Whether a prompt speaks to Gadget Code, not to the model: `/compact [what to keep in mind]`, `/clear`."""
    return _COMMANDS.match(prompt) is not None


def read_by_model(log: Iterable[Message | Compaction]) -> list[Message]:
    """The messages that a model is sent for a conversation with compaction marks in it."""
    messages: list[Message] = []
    for entry in log:
        if not isinstance(entry, Compaction):
            messages.append(entry)
            continue
        if entry.kept is not None:
            messages = messages[max(0, len(messages) - entry.kept) :]
        trimmed = set(entry.trimmed)
        messages = [
            message.replace(content=TRIMMED, images=())
            if isinstance(message, ToolMessage) and message.call_id in trimmed
            else message
            for message in messages
        ]
        if entry.summary is not None:
            messages.insert(0, UserMessage(content=entry.summary))
    return messages


def prompt_messages(prompt: str, images: tuple[ImageRef, ...]) -> list[Message | Compaction]:
    """The messages that a turn begins with; none for a command, which is not for the model."""
    return [] if is_command(prompt) else [UserMessage(content=prompt, images=images)]


def work_messages(events: Iterable[TurnEvent], *, is_over: bool = True) -> list[Message | Compaction]:
    """Builds the messages of a turn after its prompt from its events in the order of `seq`.

    `is_over`: the turn has ended. Only then the partial answer of an interrupted model call is included; a turn that
    runs repeats that call.

    Any model accepts the order: a tool result follows its call, and a call that was cut off gets the result
    `INTERRUPTED` before the next message. Calls at the end of the list may have no result yet (`unanswered`).
    """
    messages: list[Message | Compaction] = []
    open_calls: dict[str, ToolCallRequest] = {}
    for event in events:
        if not event.is_in_history:
            continue
        if isinstance(event, ToolCall):
            messages.append(
                ToolMessage(call_id=event.call_id, name=event.name, content=event.response, images=event.images)
            )
            open_calls.pop(event.call_id, None)
            continue
        messages.extend(map(_interrupted, open_calls.values()))
        open_calls.clear()
        match event:
            case Step():
                if event.finish_reason is not FinishReason.INTERRUPTED or is_over:
                    messages.append(ModelMessage.of(event.message))
                    open_calls.update((call.call_id, call) for call in event.message.tool_calls)
            case Compacted():
                messages.append(event.compaction)
            case Steered():
                messages.append(UserMessage(content=event.content))
    return messages


def interrupted_results(messages: Iterable[Message | Compaction]) -> list[ToolMessage]:
    """A result for each call in `messages` that has none."""
    return [_interrupted(call) for call in unanswered(messages)]


def _interrupted(call: ToolCallRequest) -> ToolMessage:
    return ToolMessage(call_id=call.call_id, name=call.name, content=INTERRUPTED)
