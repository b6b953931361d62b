"""What the model is sent: messages, and the same in its client's own form, encoded once each, always in an order any
model takes."""

from collections.abc import Iterable, Sequence

from gadget_ai.client import ChatClient, Encoded
from gadget_ai.transcript import Transcript
from gadget_api.history import messages_for_model
from gadget_api.messages import Compaction, Message, ModelMessage, SystemMessage, ToolCallRequest, ToolMessage


class Log:
    """Messages as the model reads them, beside their encoded form."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self.messages: list[Message] = []
        self.transcript = Transcript(client)

    def add(self, entry: Message | Compaction) -> None:
        if isinstance(entry, Compaction):
            self._encode(self._client, messages_for_model([*self.messages, entry]))
        else:
            self.messages.append(entry)
            self.transcript.add(entry)

    def speak_to(self, client: ChatClient) -> None:
        self._encode(client, self.messages)

    def copy(self) -> "Log":
        other = Log(self._client)
        other.messages, other.transcript = list(self.messages), self.transcript.copy()
        return other

    def _encode(self, client: ChatClient, messages: Sequence[Message]) -> None:
        self._client = client
        self.transcript = Transcript(client)
        for message in messages:
            self.transcript.add(message)
        self.messages = list(messages)


class Conversation:
    """`history` is what came before this turn; it becomes this conversation's own."""

    def __init__(self, client: ChatClient, system: SystemMessage, history: Log, used_call_ids: set[str]) -> None:
        self.system = system
        self._encoded_system = client.encode(system)
        self._log = history
        self._open_calls: dict[str, ToolCallRequest] = {}
        self.used_call_ids = used_call_ids
        self.step_count = 0
        """Model calls of this turn."""
        self.is_answered = False
        """Whether the last message is an answer without tool calls."""
        self.prompt_index: int | None = len(history.messages)
        """Where in `messages` this turn's prompt is; None when it is in a summary."""

    @property
    def log(self) -> Log:
        """What came before this turn, and what it has added."""
        return self._log

    @property
    def messages(self) -> Sequence[Message]:
        """Without the system prompt."""
        return self._log.messages

    @property
    def encoded(self) -> list[Encoded]:
        return [self._encoded_system, *self._log.transcript.encoded]

    @property
    def open_calls(self) -> list[ToolCallRequest]:
        """Tool calls without a result, in the order the model asked for them."""
        return list(self._open_calls.values())

    def add(self, *entries: Message | Compaction) -> None:
        for entry in entries:
            if isinstance(entry, Compaction):
                self._follow_prompt(entry)
            else:
                self._note(entry)
            self._log.add(entry)

    def speak_to(self, client: ChatClient) -> None:
        """Goes on with another model."""
        self._encoded_system = client.encode(self.system)
        self._log.speak_to(client)

    def _note(self, message: Message) -> None:
        self.is_answered = False
        if isinstance(message, ModelMessage):
            self.step_count += 1
            self.is_answered = not message.tool_calls
            for call in message.tool_calls:
                self._open_calls[call.call_id] = call
                self.used_call_ids.add(call.call_id)
        elif isinstance(message, ToolMessage):
            self._open_calls.pop(message.call_id, None)

    def _follow_prompt(self, compaction: Compaction) -> None:
        if self.prompt_index is None or compaction.kept is None:
            return
        dropped = max(0, len(self.messages) - compaction.kept)
        moved = self.prompt_index - dropped
        self.prompt_index = None if moved < 0 else moved + (compaction.summary is not None)


def call_ids(entries: Iterable[Message | Compaction]) -> set[str]:
    return {call.call_id for entry in entries if isinstance(entry, ModelMessage) for call in entry.tool_calls}
