"""What the model is sent: messages in its client's own form, encoded once each, always in an order any model takes."""

from collections.abc import Iterable, Sequence

from gadget_ai.client import ChatClient, Encoded
from gadget_api.messages import Message, ModelMessage, ToolCallRequest, ToolMessage


class Conversation:
    """`history` is what came before this turn, encoded already."""

    def __init__(
        self, client: ChatClient, system: Message, history: Sequence[Encoded], used_call_ids: set[str]
    ) -> None:
        self._client = client
        self._encoded: list[Encoded] = [client.encode(system), *history]
        self._open_calls: dict[str, ToolCallRequest] = {}
        self.used_call_ids = used_call_ids
        self.step_count = 0
        """Model calls of this turn."""
        self.is_answered = False
        """Whether the last message is an answer without tool calls."""

    @property
    def encoded(self) -> Sequence[Encoded]:
        return self._encoded

    @property
    def open_calls(self) -> list[ToolCallRequest]:
        """Tool calls without a result, in the order the model asked for them."""
        return list(self._open_calls.values())

    def add(self, *messages: Message) -> None:
        for message in messages:
            self._encoded.append(self._client.encode(message))
            self.is_answered = False
            if isinstance(message, ModelMessage):
                self.step_count += 1
                self.is_answered = not message.tool_calls
                for call in message.tool_calls:
                    self._open_calls[call.call_id] = call
                    self.used_call_ids.add(call.call_id)
            elif isinstance(message, ToolMessage):
                self._open_calls.pop(message.call_id, None)


def call_ids(messages: Iterable[Message]) -> set[str]:
    return {call.call_id for message in messages if isinstance(message, ModelMessage) for call in message.tool_calls}
