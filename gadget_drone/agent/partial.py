"""What a model call under way has said so far: kept when the call is cut off for good."""

import orjson

from gadget_ai.client import Restarted, TextDelta, ThinkingDelta
from gadget_ai.collect import MAX_MODEL_ANSWER_BYTES, LiveChunk, ModelAnswer
from gadget_api.messages import AssistantMessage, FinishReason, Usage
from gadget_drone.clip import clip

_CLIPPED_BYTES = MAX_MODEL_ANSWER_BYTES // 12
"""Of each of the two texts, when both do not fit: no byte of UTF-8 is more than six in JSON."""


class PartialAnswer:
    def __init__(self) -> None:
        self._thinking: list[str] = []
        self._content: list[str] = []

    def take(self, live: LiveChunk) -> None:
        match live:
            case TextDelta(content):
                self._content.append(content)
            case ThinkingDelta(content):
                self._thinking.append(content)
            case Restarted():
                self._thinking.clear()
                self._content.clear()

    @property
    def answer(self) -> ModelAnswer | None:
        """Without tool calls and usage, and small enough for an event; None when nothing was said."""
        thinking, content = _text(self._thinking), _text(self._content)
        if not thinking and not content:
            return None
        if len(orjson.dumps([thinking, content])) > MAX_MODEL_ANSWER_BYTES:
            thinking, content = clip(thinking, _CLIPPED_BYTES), clip(content, _CLIPPED_BYTES)
        message = AssistantMessage(thinking=thinking, content=content)
        return ModelAnswer(message, Usage(), FinishReason.INTERRUPTED)


def _text(pieces: list[str]) -> str:
    # A cut may leave half of a surrogate pair.
    return "".join(pieces).encode(errors="replace").decode()
