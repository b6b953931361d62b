"""`<think>...</think>` in front of an answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gadget_ai.client import TextDelta, ThinkingDelta
from gadget_ai.inline_thinking import InlineThinking


def split(parts: list[str]) -> tuple[str, str]:
    """Thinking and text."""
    splitter = InlineThinking()
    deltas = [delta for part in parts for delta in splitter.feed(part)] + splitter.flush()
    assert all(delta.content for delta in deltas)
    return (
        "".join(delta.content for delta in deltas if isinstance(delta, ThinkingDelta)),
        "".join(delta.content for delta in deltas if isinstance(delta, TextDelta)),
    )


CASES = [
    ("<think>Hm.</think>\n\nYes.", "Hm.", "Yes."),
    ("\n<thinking>Hm.</thinking>\nYes.", "Hm.", "Yes."),
    ("<think>a < b </thin", "a < b </thin", ""),
    ("<think></think>Yes.", "", "Yes."),
    ("Yes. <think>no</think>", "", "Yes. <think>no</think>"),
    ("  Yes.", "", "  Yes."),
    ("<thi", "", "<thi"),
    ("<b>Yes</b>", "", "<b>Yes</b>"),
    ("<think>Hm.</think>Use </think>.", "Hm.", "Use </think>."),
    ("", "", ""),
]


@pytest.mark.parametrize(("whole", "thinking", "text"), CASES)
@settings(deadline=None)
@given(data=st.data())
def test_any_split_of_the_text_gives_the_same(whole: str, thinking: str, text: str, data: st.DataObject) -> None:
    edges = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parts = [whole[start:end] for start, end in zip([0, *edges], [*edges, len(whole)], strict=True)]
    assert split(parts) == (thinking, text)


def test_plain_text_is_not_held_back() -> None:
    assert InlineThinking().feed("Y") == [TextDelta("Y")]
