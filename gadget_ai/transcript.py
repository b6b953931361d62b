"""A conversation in a client's own form: each message is encoded once, in the order in which it is sent."""

from gadget_ai.client import ChatClient, Encoded
from gadget_api.messages import Message, ModelMessage, ToolMessage


class Transcript:
    """Grows at its end alone, so that each request repeats the one before it."""

    def __init__(self, client: ChatClient) -> None:
        self.encoded: list[Encoded] = []
        """What is sent. One more than there are messages for each step whose results had images, where the API does
        not take them in a result."""
        self._client = client
        self._open_calls: set[str] = set()
        self._results: list[ToolMessage] = []
        """Of the last step, so far."""

    def add(self, message: Message) -> None:
        """Encodes `message`; and, after the last result of a step, the images of its results."""
        if not isinstance(message, ToolMessage):
            self._show()
        self.encoded.append(self._client.encode(message))
        if isinstance(message, ModelMessage):
            self._open_calls = {call.call_id for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            self._results.append(message)
            self._open_calls.discard(message.call_id)
            if not self._open_calls:
                self._show()

    def copy(self) -> "Transcript":
        """Another that begins as this one is."""
        other = Transcript(self._client)
        other.encoded = list(self.encoded)
        other._open_calls, other._results = set(self._open_calls), list(self._results)
        return other

    def _show(self) -> None:
        if any(result.images for result in self._results):
            shown = self._client.encode_images(self._results)
            if shown is not None:
                self.encoded.append(shown)
        self._results.clear()
