"""Cutting text to a number of UTF-8 bytes."""

MAX_CONTENT_BYTES = 64_000
"""Of one tool result in front of the model: about 16,000 tokens."""


def head(text: str, max_bytes: int) -> str:
    """The beginning of `text`, at most `max_bytes` long, no character split."""
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def tail(text: str, max_bytes: int) -> str:
    """The end of `text`, at most `max_bytes` long, no character split."""
    return text.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")


def clip(text: str, max_bytes: int = MAX_CONTENT_BYTES) -> str:
    """`text`, or its head and tail and how much is missing between them. Always valid UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    half = (max_bytes - 100) // 2
    return f"{head(text, half)}\n[... {len(data) - 2 * half} bytes left out ...]\n{tail(text, half)}"


def quoted(text: str, max_chars: int = 100) -> str:
    """`text` from outside, short and printable, for a message."""
    return repr(text if len(text) <= max_chars else text[:max_chars] + "…")
