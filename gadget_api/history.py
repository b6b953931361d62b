"""Builds the messages that a model reads from the events of a turn.

The web service builds the history of every turn with it, also that of a turn which a drone resumes after a crash."""

import re
from collections.abc import Iterable

from gadget_api.events import Compacted, Steered, Step, ToolCall, TurnEvent
from gadget_api.ids import Id
from gadget_api.images import ImageRef
from gadget_api.messages import (
    INTERRUPTED_RESULT,
    TRIMMED_RESULT,
    Compaction,
    FinishReason,
    Message,
    ModelMessage,
    ToolCallRequest,
    ToolMessage,
    UserMessage,
    open_tool_calls,
)
from gadget_api.model import WireModel


class TurnHistory(WireModel):
    """One turn as messages: the prompt, then the model's answers, tool results and compactions."""

    turn_id: Id
    messages: tuple[Message | Compaction, ...]


class HistoryPage(WireModel):
    """A page of a session's history, oldest turn first."""

    items: tuple[TurnHistory, ...]
    next_cursor: str | None


_COMMANDS = re.compile(r"/(?:compact|clear)(?:\s|$)")


def is_command(prompt: str) -> bool:
    """Returns whether a prompt is a command to Gadget Code: `/compact [what to keep in mind]` or `/clear`. The model
    does not read commands."""
    return _COMMANDS.match(prompt) is not None


def messages_for_model(log: Iterable[Message | Compaction]) -> list[Message]:
    """Applies the compactions in a conversation and returns the messages to send to the model."""
    messages: list[Message] = []
    for entry in log:
        if not isinstance(entry, Compaction):
            messages.append(entry)
            continue
        if entry.kept is not None:
            messages = messages[max(0, len(messages) - entry.kept) :]
        trimmed = set(entry.trimmed)
        messages = [
            message.replace(content=TRIMMED_RESULT, images=())
            if isinstance(message, ToolMessage) and message.call_id in trimmed
            else message
            for message in messages
        ]
        if entry.summary is not None:
            messages.insert(0, UserMessage(content=entry.summary))
    return messages


def prompt_messages(prompt: str, images: tuple[ImageRef, ...]) -> list[Message | Compaction]:
    """Returns the first messages of a turn; an empty list for a command."""
    return [] if is_command(prompt) else [UserMessage(content=prompt, images=images)]


def work_messages(events: Iterable[TurnEvent], *, is_over: bool = True) -> list[Message | Compaction]:
    """Builds the messages of a turn after its prompt from its events in the order of `seq`.

    `is_over`: the turn has ended. Only then the partial answer of an interrupted model call is included; a turn that
    runs repeats that call.

    Any model accepts the order: a tool result follows its call, and a call that was cut off gets the result
    `INTERRUPTED_RESULT` before the next message. Only the last calls may have no result yet (`open_tool_calls`).
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
    """Returns the result `INTERRUPTED_RESULT` for each call in `messages` that has no result."""
    return [_interrupted(call) for call in open_tool_calls(messages)]


def _interrupted(call: ToolCallRequest) -> ToolMessage:
    return ToolMessage(call_id=call.call_id, name=call.name, content=INTERRUPTED_RESULT)
