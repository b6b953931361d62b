"""Text from outside, on one line."""


def one_line(text: str, max_chars: int = 200) -> str:
    """`text` on one line, printable, and no longer than that."""
    text = " ".join(text[: 4 * max_chars].split())
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
