"""Several replacements in one text, all or none. Each is looked for in the text as it was before the first of them, and
none may touch what another replaces: so their order means nothing, and none can go wrong by what another put there."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gadget_drone.editing.lines import Lines, ops
from gadget_drone.editing.matching import MAX_PLACES, Place, Tolerance, drifted_place, places
from gadget_drone.editing.nearest import nearest
from gadget_drone.editing.rewriting import plain, restyled, rewritten
from gadget_drone.editing.text import BOM
from gadget_drone.errors import ToolError

_MAX_LISTED = 20
_MAX_COUNTED = 1000


@dataclass(frozen=True)
class Replacement:
    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True)
class Edited:
    content: str
    said: str
    """What was done where, for the model."""


@dataclass(frozen=True)
class _Span:
    """`new` takes the place of `text[start:end]`."""

    start: int
    end: int
    new: str
    number: int
    """Of the replacement, from 1."""
    tolerance: Tolerance


def replaced(text: str, replacements: Sequence[Replacement], path: str, *, exact: bool = False) -> Edited:
    """`text`, which has no byte order mark, with all replacements made. `exact` tolerates other line endings only.

    Raises `ToolError` when one is not in the text, is there several times without `everywhere`, or overlaps another.
    """
    spans: list[_Span] = []
    for number, replacement in enumerate(replacements, 1):
        which = f" of edit {number}" if len(replacements) > 1 else ""
        spans += _spans(text, replacement, path, number, which, exact)
    spans.sort(key=lambda span: (span.start, span.end))
    for one, other in pairwise(spans):
        if other.start < one.end:
            both = sorted((one.number, other.number))
            raise ToolError(
                f"Edits {both[0]} and {both[1]} overlap at line {_line(text, other.start)}: make one edit of them."
            )
    pieces, done = list[str](), 0
    for span in spans:
        pieces += text[done : span.start], span.new
        done = span.end
    pieces.append(text[done:])
    content = "".join(pieces)
    if content == text:
        raise ToolError("This changes nothing: what would be put there is what is there.")
    return Edited(content, _said(text, spans, path, len(replacements)))


def _spans(text: str, wanted: Replacement, path: str, number: int, which: str, exact: bool) -> list[_Span]:
    old, new = wanted.old.removeprefix(BOM), wanted.new.removeprefix(BOM)
    if not old:
        raise ToolError(f"old_text{which} is empty: to add text, give a line that is there, and it with the new one.")
    if old == new:
        raise ToolError(f"old_text and new_text{which} are the same.")
    found = list(_exact(text, old, everywhere=wanted.everywhere))
    if found:
        if len(found) > 1 and not wanted.everywhere:
            raise _ambiguous([_line(text, start) for start, _ in found[:_MAX_LISTED]], len(found), which, path, "")
        style = _style(text)
        return [
            _Span(start, end, _literal(new, old, text[start:end], style), number, Tolerance.EXACT)
            for start, end in found
        ]
    lines = Lines.of(text)
    tolerant = [] if exact else _tolerant(lines, old, new, wanted.everywhere, which, path)
    if not tolerant:
        raise _missing(lines, old, new, which, path)
    offsets = lines.offsets()
    return [
        _Span(offsets[place.start], offsets[end], changed, number, place.tolerance) for place, end, changed in tolerant
    ]


def _exact(text: str, old: str, *, everywhere: bool) -> Iterator[tuple[int, int]]:
    """Where `old` is in `text`, with any line endings: with `everywhere` side by side, else each place, though they
    overlap, at most 1,000. A line ending at the end of `old` may be missing at the end of the file."""
    bare, old = plain(text), plain(old)
    # The places in `bare` of line endings that are one longer in `text`.
    longer = [m.start() - n for n, m in enumerate(re.finditer("\r\n", text))] if len(bare) < len(text) else []
    count, at = 0, bare.find(old)
    while at >= 0 and (everywhere or count <= _MAX_COUNTED):
        count += 1
        yield at + bisect_left(longer, at), at + len(old) + bisect_left(longer, at + len(old))
        at = bare.find(old, at + (len(old) if everywhere else 1))
    if not count and len(old) > 1 and old.endswith("\n") and bare.endswith(old[:-1]):
        at = len(bare) - len(old) + 1
        yield at + bisect_left(longer, at), len(text)


def _literal(new: str, old: str, found: str, style: str) -> str:
    """`new` in the place of `found`, with its line endings."""
    if plain(old).endswith("\n") and not found.endswith("\n"):
        old, new = plain(old).removesuffix("\n"), plain(new).removesuffix("\n")
    return restyled(new, old, found, style)


def _style(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def _tolerant(
    lines: Lines, old: str, new: str, everywhere: bool, which: str, path: str
) -> list[tuple[Place, int, str]]:
    """Places, the index behind their last line, and their new text; only whole lines are looked for."""
    before, after = plain(old).split("\n"), plain(new).split("\n")
    if before[-1] == "":  # whole lines: what takes their place is, too, though its last newline be forgotten
        before.pop()
        if after[-1] == "":
            after.pop()
    changes = ops(before, after)
    for found in places(lines.bodies, before):
        if len(found) > (MAX_PLACES if everywhere else 1):
            numbers = [place.start + 1 for place in found]
            raise _ambiguous(numbers[:_MAX_LISTED], len(numbers), which, path, found[0].tolerance)
        if everywhere:
            found = _side_by_side(found, len(before))
        made = [(place, text) for place in found if (text := rewritten(lines, place, after, changes)) is not None]
        if made:
            return [(place, place.start + len(before), text) for place, text in made]
    place = None if everywhere else drifted_place(lines.bodies, before, changes)
    if place is None or (text := rewritten(lines, place, after, changes)) is None:
        return []
    return [(place, place.start + len(before), text)]


def _side_by_side(found: Sequence[Place], count: int) -> list[Place]:
    taken: list[Place] = []
    for place in found:
        if not taken or place.start >= taken[-1].start + count:
            taken.append(place)
    return taken


def _ambiguous(numbers: Sequence[int], count: int, which: str, path: str, apart_from: str) -> ToolError:
    listed = ", ".join(map(str, numbers)) + (" ..." if count > len(numbers) else "")
    times = f"{count} times" if count <= _MAX_COUNTED else f"more than {_MAX_COUNTED} times"
    apart = f" (apart from {apart_from})" if apart_from else ""
    return ToolError(
        f"old_text{which} is in {path!r} {times}{apart}, at lines {listed}: add lines around it to say which, "
        "or set replace_all."
    )


def _missing(lines: Lines, old: str, new: str, which: str, path: str) -> ToolError:
    wanted = plain(old).removesuffix("\n").split("\n")
    there = next((found for found in places(lines.bodies, plain(new).removesuffix("\n").split("\n")) if found), [])
    if there and new.strip() and len(there) == 1:
        return ToolError(
            f"old_text{which} is not in {path!r}, but new_text is, at line {there[0].start + 1}: is it done already?"
        )
    return ToolError(f"old_text{which} is not in {path!r}. {nearest(lines.bodies, wanted)}")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _said(text: str, spans: Sequence[_Span], path: str, count: int) -> str:
    listed = ", ".join(str(_line(text, span.start)) for span in spans[:_MAX_LISTED])
    listed += " ..." if len(spans) > _MAX_LISTED else ""
    said = f"Replaced {len(spans)} in {path}, at line {listed}."
    overlooked = dict.fromkeys(span.tolerance for span in spans if span.tolerance is not Tolerance.EXACT)
    if overlooked:
        said += f" Found apart from {' and '.join(overlooked)}: check the place."
    return said
