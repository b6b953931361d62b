"""A conversation in the format of a client. Each message is encoded once, in the order of the request."""

from gadget_ai.client import ChatClient, Encoded
from gadget_api.messages import Message, ModelMessage, ToolMessage


class Transcript:
    """The encoded messages of a conversation. It only grows at its end: each request starts with the one before."""

    def __init__(self, client: ChatClient) -> None:
        self.encoded: list[Encoded] = []
        """The messages to send. If the API accepts no images in tool results, a step with images adds a message."""
        self._client = client
        self._open_calls: set[str] = set()
        self._results: list[ToolMessage] = []
        """The tool results of the last step so far."""

    def add(self, message: Message) -> None:
        """Encodes a message. After the last tool result of a step it also encodes the images of all results."""
        if not isinstance(message, ToolMessage):
            self._add_images()
        self.encoded.append(self._client.encode(message))
        if isinstance(message, ModelMessage):
            self._open_calls = {call.call_id for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            self._results.append(message)
            self._open_calls.discard(message.call_id)
            if not self._open_calls:
                self._add_images()

    def copy(self) -> "Transcript":
        """Returns an independent copy."""
        other = Transcript(self._client)
        other.encoded = list(self.encoded)
        other._open_calls, other._results = set(self._open_calls), list(self._results)
        return other

    def _add_images(self) -> None:
        if any(result.images for result in self._results):
            images = self._client.encode_images(self._results)
            if images is not None:
                self.encoded.append(images)
        self._results.clear()
