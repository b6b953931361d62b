"""What the model is sent: messages, and the same in its client's own form, encoded once each, always in an order any
model takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gadget_ai.client import ChatClient, Encoded
from gadget_api.history import read_by_model
from gadget_api.messages import Compaction, Message, ModelMessage, SystemMessage, ToolCallRequest, ToolMessage


@dataclass
class Transcript:
    """Messages beside their encoded form."""

    messages: list[Message] = field(default_factory=list)
    encoded: list[Encoded] = field(default_factory=list)

    def add(self, client: ChatClient, message: Message) -> None:
        self.messages.append(message)
        self.encoded.append(client.encode(message))

    def compact(self, client: ChatClient, compaction: Compaction) -> None:
        """What stays as it is keeps its bytes."""
        known = {id(message): encoded for message, encoded in zip(self.messages, self.encoded, strict=True)}
        kept = read_by_model([*self.messages, compaction])
        self.encoded = [known[id(m)] if id(m) in known else client.encode(m) for m in kept]
        self.messages = kept

    def encode_again(self, client: ChatClient) -> None:
        """For another client."""
        self.encoded = [client.encode(message) for message in self.messages]

    def copy(self) -> "Transcript":
        return Transcript(list(self.messages), list(self.encoded))


class Conversation:
    """`history` is what came before this turn; it becomes this conversation's own."""

    def __init__(self, client: ChatClient, system: SystemMessage, history: Transcript, used_call_ids: set[str]) -> None:
        self._client = client
        self._system = system
        self._encoded_system = client.encode(system)
        self._transcript = history
        self._open_calls: dict[str, ToolCallRequest] = {}
        self.used_call_ids = used_call_ids
        self.step_count = 0
        """Model calls of this turn."""
        self.is_answered = False
        """Whether the last message is an answer without tool calls."""

    @property
    def messages(self) -> Sequence[Message]:
        """Without the system prompt."""
        return self._transcript.messages

    @property
    def encoded(self) -> list[Encoded]:
        return [self._encoded_system, *self._transcript.encoded]

    @property
    def open_calls(self) -> list[ToolCallRequest]:
        """Tool calls without a result, in the order the model asked for them."""
        return list(self._open_calls.values())

    def add(self, *entries: Message | Compaction) -> None:
        for entry in entries:
            if isinstance(entry, Compaction):
                self._transcript.compact(self._client, entry)
                continue
            self._transcript.add(self._client, entry)
            self.is_answered = False
            if isinstance(entry, ModelMessage):
                self.step_count += 1
                self.is_answered = not entry.tool_calls
                for call in entry.tool_calls:
                    self._open_calls[call.call_id] = call
                    self.used_call_ids.add(call.call_id)
            elif isinstance(entry, ToolMessage):
                self._open_calls.pop(entry.call_id, None)

    def speak_to(self, client: ChatClient) -> None:
        """Goes on with another model."""
        self._client = client
        self._encoded_system = client.encode(self._system)
        self._transcript.encode_again(client)


def call_ids(entries: Iterable[Message | Compaction]) -> set[str]:
    return {call.call_id for entry in entries if isinstance(entry, ModelMessage) for call in entry.tool_calls}
