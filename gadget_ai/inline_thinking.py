"""Separates thinking that a server leaves in the text: `<think>...</think>` before the answer."""

from gadget_ai.client import TextDelta, ThinkingDelta

_TAGS = ("<think>", "<thinking>")
"""Reasoning models write the first (DeepSeek R1, Qwen 3). Our own histories have the second (`ModelMessage.of`), and
models imitate it."""


class InlineThinking:
    """Splits one answer into thinking and text. Only a tag at the start counts, so an answer may contain the tags."""

    def __init__(self) -> None:
        self._held = ""
        self._end: str | None = None
        """The closing tag that ends the thinking."""
        self._past = False
        self._trim = False

    def feed(self, text: str) -> list[TextDelta | ThinkingDelta]:
        """Returns the deltas of `text`. Holds back text that may be the start of a tag."""
        if self._past:
            return self._text(text)
        self._held += text
        if self._end is None:
            start = self._held.lstrip()
            tag = next((tag for tag in _TAGS if start.startswith(tag)), None)
            if tag is None:
                return [] if any(known.startswith(start) for known in _TAGS) else self.flush()
            self._end = f"</{tag[1:]}"
            self._held = start[len(tag) :]
        thinking, found, rest = self._held.partition(self._end)
        if found:
            self._past = self._trim = True
            self._held = ""
            return [*_thinking(thinking), *self._text(rest)]
        keep = next((n for n in range(len(self._end) - 1, 0, -1) if self._held.endswith(self._end[:n])), 0)
        thinking, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return _thinking(thinking)

    def flush(self) -> list[TextDelta | ThinkingDelta]:
        """Returns the text that was held back. Everything after it is text."""
        held, self._held, self._past = self._held, "", True
        return _thinking(held) if self._end is not None else self._text(held)

    def _text(self, text: str) -> list[TextDelta | ThinkingDelta]:
        if self._trim:
            text = text.lstrip()
        if not text:
            return []
        self._trim = False
        return [TextDelta(text)]


def _thinking(text: str) -> list[TextDelta | ThinkingDelta]:
    return [ThinkingDelta(text)] if text else []
