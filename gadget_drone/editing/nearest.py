"""Where a text that is not in a file may have been meant: to be shown, never to be changed."""

import difflib
from collections.abc import Sequence
from itertools import accumulate

_MAX_TIED = 20
_MAX_COMPARED_LINES = 2000  # difflib takes up to 0.1 ms for a pair of lines
_MAX_COMPARED_CHARS = 200
_MAX_SHOWN_LINES = 40
_SIMILAR = 0.6  # difflib.get_close_matches' own


def nearest(lines: Sequence[str], old: Sequence[str]) -> str:
    """A sentence and the lines, with their numbers."""
    start = _best_window(lines, old)
    if start is None:
        return "Nothing in the file is similar to it: read the file again."
    end = min(start + min(len(old), _MAX_SHOWN_LINES), len(lines))
    same = [line.split() for line in lines[start:end]] == [line.split() for line in old]
    hint = " (only whitespace differs)" if same else ""
    return f"The nearest is at lines {start + 1}-{end}{hint}:\n{numbered(lines, start, end)}"


def numbered(lines: Sequence[str], start: int, end: int) -> str:
    """Lines `start:end`, as `read` shows them, but shorter."""
    return "\n".join(f"{n}\t{lines[n - 1][:_MAX_COMPARED_CHARS]}" for n in range(start + 1, end + 1))


def _best_window(lines: Sequence[str], old: Sequence[str]) -> int | None:
    """The index of the line where a stretch as long as `old` starts that shares most lines with it."""
    wanted = {stripped for line in old if (stripped := line.strip())}
    sums = [0, *accumulate(line.strip() in wanted for line in lines)]
    scores = [sums[min(i + len(old), len(lines))] - sums[i] for i in range(len(lines))]
    best = max(scores, default=0)
    if best > 0:
        tied = [i for i, score in enumerate(scores) if score == best][:_MAX_TIED]
        return max(tied, key=lambda i: _likeness("\n".join(lines[i : i + len(old)]), "\n".join(old), _SIMILAR / 10))
    anchor = max(wanted, key=len, default="")
    offset = next((i for i, line in enumerate(old) if line.strip() == anchor), 0)
    likeness = [_likeness(line.strip(), anchor, _SIMILAR) for line in lines[:_MAX_COMPARED_LINES]]
    if max(likeness, default=0.0) == 0.0:
        return None
    return max(likeness.index(max(likeness)) - offset, 0)


def _likeness(one: str, other: str, at_least: float) -> float:
    """From 0 to 1; 0 below `at_least`, which is much faster to find out."""
    pair = difflib.SequenceMatcher(None, one[:_MAX_COMPARED_CHARS], other[:_MAX_COMPARED_CHARS], autojunk=False)
    if pair.real_quick_ratio() < at_least or pair.quick_ratio() < at_least:
        return 0.0
    ratio = pair.ratio()
    return ratio if ratio >= at_least else 0.0
