"""Conversations to be made shorter."""

from collections.abc import Sequence

from gadget_api.messages import Message, ModelMessage, ToolCallRequest, ToolMessage, UserMessage
from gadget_drone.context.compaction import View
from gadget_drone.context.tokens import message_tokens


def prompt(content: str = "Mend the tests.") -> UserMessage:
    return UserMessage(content=content)


def step(call_id: str, result: str = "ok", name: str = "read", **params: object) -> list[Message]:
    """One call and its result."""
    call = ToolCallRequest(call_id=call_id, name=name, params=params or {"path": f"{call_id}.py"})
    return [
        ModelMessage(content="I look.", tool_calls=(call,)),
        ToolMessage(call_id=call_id, name=name, content=result),
    ]


def view(
    messages: Sequence[Message], limit_tokens: int, *, fixed_tokens: int = 0, prompt_index: int | None = 0
) -> View:
    return View(messages, [message_tokens(m) for m in messages], fixed_tokens, limit_tokens, prompt_index)


def text(tokens: int) -> str:
    """Of about that many tokens."""
    return "abc " * tokens


def fault(messages: Sequence[Message]) -> str | None:
    """What a provider would refuse: each call has one result, right after it, and each result its call."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_calls:
                return f"a result without its call: {message.call_id}"
            open_calls.remove(message.call_id)
            continue
        if open_calls:
            return f"calls without results: {open_calls}"
        if isinstance(message, ModelMessage):
            open_calls = [call.call_id for call in message.tool_calls]
    return f"calls without results: {open_calls}" if open_calls else None
