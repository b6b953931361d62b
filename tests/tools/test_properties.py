"""Whatever is in a file and however wrong the model remembers it: an edit changes one intended region, or nothing."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from gadget_drone.editing.lines import Lines, ops
from gadget_drone.editing.matching import folded
from gadget_drone.editing.replacing import Replacement, replaced
from gadget_drone.errors import ToolError

# Few words, so that there are duplicates and near duplicates.
WORDS = st.sampled_from(["alpha", "beta", "gamma_1", "gamma_2", "return", "x", "é", "e\u0301", "“q”", '"q"', "{", "}"])
LINES = st.builds(
    lambda indent, words, trail: indent + " ".join(words) + trail,
    st.sampled_from(["", "    ", "\t", "        ", "\t\t", "  "]),
    st.lists(WORDS, max_size=4),
    st.sampled_from(["", "", "", " ", "\t"]),
)
ENDINGS = st.sampled_from(["\n", "\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    bodies = draw(st.lists(LINES, min_size=1, max_size=25))
    endings = [draw(ENDINGS) for _ in bodies]
    if bodies[-1] and draw(st.booleans()):
        endings[-1] = ""
    return bodies, endings


@st.composite
def damaged(draw: st.DrawFn, lines: list[str]) -> list[str]:
    """`lines` as a model may remember them."""
    lines = list(lines)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        match draw(st.integers(0, 6)):
            case 0:
                lines[at] = line.rstrip()
            case 1:
                lines = [("    " + one if one.strip() else one) for one in lines]
            case 2:
                lines = [one.replace("\t", "    ") for one in lines]
            case 3:
                lines[at] = unicodedata.normalize("NFC", line).replace("“", '"').replace("”", '"')
            case 4:
                lines[at] = line.replace("alpha", "alphas").replace("return", "returns")
            case 5:
                lines[at] = line + draw(WORDS)
            case _:
                lines[at] = draw(LINES)
    return lines


def key(lines: list[str]) -> list[str]:
    return [folded(line) for line in lines]


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_an_edit_changes_the_intended_lines_or_nothing(data: st.DataObject) -> None:
    bodies, endings = data.draw(files())
    start = data.draw(st.integers(0, len(bodies) - 1))
    end = data.draw(st.integers(start + 1, len(bodies)))
    old = data.draw(damaged(bodies[start:end]))
    new = data.draw(damaged(old))
    with_end = data.draw(st.booleans())
    tail = "\n" if with_end else ""
    text = "".join(body + ending for body, ending in zip(bodies, endings, strict=True))
    # What the model wrote down may be what is elsewhere: then that is what it asked for.
    keys, wanted = key(bodies), key(old)
    elsewhere = [i for i in range(len(keys) - len(wanted) + 1) if keys[i : i + len(wanted)] == wanted and i != start]
    try:
        after = replaced(text, [Replacement("\n".join(old) + tail, "\n".join(new) + tail)], "f").content
    except ToolError:
        return
    if elsewhere or "\n".join(old) in text.replace("\r\n", "\n"):
        return
    offsets = Lines(bodies, endings).offsets()
    assert after.startswith(text[: offsets[start]])
    assert after[offsets[start] :].endswith(text[offsets[end] :])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_lines_that_an_exact_edit_does_not_name_stay_byte_for_byte(data: st.DataObject) -> None:
    bodies, endings = data.draw(files())
    at = data.draw(st.integers(0, len(bodies) - 1))
    bodies[at] = "the one line of its kind"
    text = "".join(body + ending for body, ending in zip(bodies, endings, strict=True))
    new = "\n".join(data.draw(st.lists(LINES, min_size=1, max_size=3)))
    after = replaced(text, [Replacement(bodies[at], new)], "f").content
    offsets = Lines(bodies, endings).offsets()
    assert after.startswith(text[: offsets[at]])
    assert after.endswith(endings[at] + text[offsets[at + 1] :])


@given(st.lists(LINES, max_size=30), st.lists(LINES, max_size=30))
def test_ops_cover_both_sides_in_order(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    i = j = 0
    for op in ops(old, new):
        assert (op.old_start, op.new_start) == (i, j)
        i, j = op.old_end, op.new_end
        if op.same:
            assert old[op.old_start : op.old_end] == new[op.new_start : op.new_end]
        made += new[op.new_start : op.new_end]
    assert (i, j, made) == (len(old), len(new), new)


@given(st.text(alphabet="ab \t\r\n\u2028", max_size=60))
def test_lines_are_the_text(text: str) -> None:
    lines = Lines.of(text)
    assert lines.text() == text
    assert all(lines.endings[:-1])
