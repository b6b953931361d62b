"""Where in a file the lines belong that a model wrote down: a chain of tolerances, and doubt refuses.

    exact > blanks at line ends > indentation > characters that look alike > drift

The first that fits anywhere decides. Each but the last says that the lines are the same but for what a reader does not
see. Drift is lines that differ, and is taken only where nothing is staked on them:

- the edit does not change them: they are context, and stay as they are in the file;
- lines that fit are before and after them, and one of those before says something (six letters)
  and is in the file only once: it pins the place;
- each is like its counterpart (0.7), has the same numbers, and there are few of them (one, or a quarter of the lines);
- the whole is like the place (0.85), and much more so than like any other place (by 0.15).

opencode's edit tool asks for no likeness at all where there is one candidate (threshold 0.0 in its edit.ts), so that
two common lines as anchors move an edit anywhere: hence the floors.
"""

import difflib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gadget_drone.editing.indentation import Reindent, find_reindent, indentation, same
from gadget_drone.editing.lines import Op

LINE_FLOOR = 0.7
FLOOR = 0.85
MARGIN = 0.15
_MAX_DRIFTED = 0.25
_MIN_DRIFT_LINES = 3
MAX_PLACES = 1000
_MAX_COMPARED_LINES = 2_000_000
"""Of all places together, whose indentation is looked at."""
_MAX_VOTES = 1_000_000
_MAX_RIVALS = 20
_MAX_DRIFT_CHARS = 1000
_BLANKS = " \t\f\v\r"
_LOOK_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"\w")
_MIN_LETTERS = 6


class Tolerance(StrEnum):
    """What had to be overlooked; the value completes "matched apart from"."""

    EXACT = ""
    LINE_ENDS = "blanks at line ends"
    INDENTATION = "indentation"
    LOOK_ALIKE = "characters that look alike"
    DRIFT = "context lines that differ"


@dataclass(frozen=True)
class Place:
    start: int
    """Index of its first line."""
    tolerance: Tolerance
    reindent: Reindent
    """Makes the file's indentation of the model's."""


def folded(line: str) -> str:
    """Equal for lines that look alike."""
    return unicodedata.normalize("NFC", line).translate(_LOOK_ALIKE).strip(_BLANKS)


def places(bodies: Sequence[str], wanted: Sequence[str]) -> Iterator[list[Place]]:
    """Where `wanted` may be: for each tolerance but drift the places, often none; in order.

    Only whole lines, and at least one that is not blank. Overlapping places count as several; there may be one more
    than 1,000, which says that there are others. With too many whose indentation would have to be compared it ends.
    """
    if not any(line.strip() for line in wanted) or len(wanted) > len(bodies):
        return
    stages: list[tuple[Tolerance, Callable[[str], str], bool]] = [
        (Tolerance.EXACT, str, True),
        (Tolerance.LINE_ENDS, lambda line: line.rstrip(_BLANKS), True),
        (Tolerance.INDENTATION, lambda line: line.strip(_BLANKS), False),
        (Tolerance.LOOK_ALIKE, folded, False),
    ]
    for tolerance, key, keeps_indentation in stages:
        starts = list(_equal_runs([key(line) for line in bodies], [key(line) for line in wanted]))
        if keeps_indentation:
            yield [Place(start, tolerance, same) for start in starts]
            continue
        if len(starts) > max(2, min(MAX_PLACES, _MAX_COMPARED_LINES // len(wanted))):
            return
        found = ((start, _reindent(bodies, wanted, start, range(len(wanted)))) for start in starts)
        yield [Place(start, tolerance, reindent) for start, reindent in found if reindent is not None]


def drifted_place(bodies: Sequence[str], wanted: Sequence[str], changes: Sequence[Op]) -> Place | None:
    """The one place where `wanted` is but for some context lines; None where there is none, or any doubt."""
    count = len(wanted)
    if count > len(bodies):
        return None
    file, ours = [folded(line) for line in bodies], [folded(line) for line in wanted]
    if sum(1 for line in ours if line) < _MIN_DRIFT_LINES:
        return None
    votes = _votes(file, ours)
    if votes is None or not votes:
        return None
    ranked = votes.most_common(_MAX_RIVALS + 1)
    scores = {start: _score(file, ours, start) for start, _ in ranked}
    best = max(scores, key=lambda start: scores[start])
    rivals = [score for start, score in scores.items() if start != best]
    if len(votes) > len(ranked):  # the others have fewer equal lines; taken to be wholly like otherwise
        rivals.append((ranked[-1][1] + LINE_FLOOR * (_weight(ours) - ranked[-1][1])) / _weight(ours))
    if scores[best] < FLOOR or scores[best] - max(rivals, default=0.0) < MARGIN:
        return None
    drifted = [i for i in range(count) if file[best + i] != ours[i]]
    if not drifted or len(drifted) > max(1, _MAX_DRIFTED * count) or not _is_context(drifted, changes, count):
        return None
    if not all(_is_like(file[best + i], ours[i]) for i in drifted):
        return None
    seen_times = Counter(file)
    pins = [line for line in ours[: drifted[0]] if _says(line) and seen_times[line] == 1]
    if not pins or not any(ours[drifted[-1] + 1 :]):
        return None
    reindent = _reindent(bodies, wanted, best, [i for i in range(count) if i not in drifted])
    return None if reindent is None else Place(best, Tolerance.DRIFT, reindent)


def _equal_runs(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """Where `wanted` is in `keys`, at most 1,001 times. A line becomes a character, so that str.find, which is linear
    even for hostile input, does the work."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(wanted), 1)}
    if len(numbers) > 0x10FFFF:
        return
    text = "".join([chr(numbers.get(key, 0)) for key in keys])
    needle = "".join([chr(numbers[key]) for key in wanted])
    at = text.find(needle)
    for _ in range(MAX_PLACES + 1):
        if at < 0:
            return
        yield at
        at = text.find(needle, at + 1)


def _reindent(bodies: Sequence[str], wanted: Sequence[str], start: int, fitting: Sequence[int]) -> Reindent | None:
    return find_reindent(
        (indentation(wanted[i]), indentation(bodies[start + i])) for i in fitting if wanted[i].strip(_BLANKS)
    )


def _votes(file: Sequence[str], ours: Sequence[str]) -> Counter[int] | None:
    """Start -> how many characters of `ours` are in equal lines there; None where that takes too long to count."""
    where: defaultdict[str, list[int]] = defaultdict(list)
    wanted = set(ours)
    for number, line in enumerate(file):
        if line in wanted:
            where[line].append(number)
    if sum(len(where[line]) for line in ours if line) > _MAX_VOTES:
        return None
    votes = Counter[int]()
    for i, line in enumerate(ours):
        if line:
            for number in where[line]:
                if 0 <= number - i <= len(file) - len(ours):
                    votes[number - i] += len(line)
    return votes


def _weight(lines: Sequence[str]) -> int:
    return sum(map(len, lines))


def _score(file: Sequence[str], ours: Sequence[str], start: int) -> float:
    """How like the place is, from 0 to 1: each line counts by its length."""
    total = hit = 0.0
    for i, line in enumerate(ours):
        weight = max(len(line), len(file[start + i]))
        total += weight
        hit += weight * (1.0 if line == file[start + i] else _likeness(line, file[start + i]))
    return hit / total if total else 0.0


def _likeness(one: str, other: str) -> float:
    if max(len(one), len(other)) > _MAX_DRIFT_CHARS:
        return 0.0
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _is_like(one: str, other: str) -> bool:
    return _NUMBER.findall(one) == _NUMBER.findall(other) and _likeness(one, other) >= LINE_FLOOR


def _says(line: str) -> bool:
    return len(_LETTER.findall(line)) >= _MIN_LETTERS


def _is_context(drifted: Sequence[int], changes: Sequence[Op], count: int) -> bool:
    """Whether the edit leaves the drifted lines alone, and puts nothing beside them."""
    staked: set[int] = set()
    for op in changes:
        if not op.same:
            staked.update(range(op.old_start, op.old_end))
            if op.old_start == op.old_end:
                staked.update((op.old_start - 1, op.old_end))
    return not staked.intersection(drifted)
