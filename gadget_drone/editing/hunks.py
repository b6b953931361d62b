"""The hunks of a patch, applied to a text. Each belongs in one place only; in doubt the whole patch is refused."""

import re
from collections.abc import Sequence

from gadget_drone.editing.indentation import indentation
from gadget_drone.editing.lines import Lines
from gadget_drone.editing.matching import MAX_PLACES, Place, Tolerance, drifted_place, folded, places
from gadget_drone.editing.nearest import nearest
from gadget_drone.editing.patches import Hunk
from gadget_drone.editing.replacing import Edited
from gadget_drone.editing.rewriting import rewritten
from gadget_drone.errors import ToolError

_MAX_LISTED = 20
_TAB = 4
_CLOSES = re.compile(r"[\s)\]}>;,]*(end)?[\s)\]}>;,]*")
_OPENS = re.compile(r"\s*\{\s*")


def patched(text: str, hunks: Sequence[Hunk], path: str, *, exact: bool = False) -> Edited:
    """`text` with all hunks applied. They are in the order of the file, and do not overlap.

    `exact` tolerates other line endings only. Raises `ToolError` for a hunk that is nowhere, or in several places.
    """
    lines = Lines.of(text)
    pieces: list[str] = []
    numbers: list[int] = []
    overlooked: dict[Tolerance, None] = {}
    done = 0
    for hunk in hunks:
        if not hunk.old:
            _check_appends(lines, hunk, done)
            start, end, changed = len(lines), len(lines), _appended(lines, hunk)
        else:
            place, changed = _locate(lines, hunk, done, path, exact)
            start, end = place.start, place.start + len(hunk.old)
            if place.tolerance is not Tolerance.EXACT:
                overlooked[place.tolerance] = None
        if end == len(lines) and hunk.new:
            changed = _ended(changed, lines, hunk.final_newline)
        pieces += lines.text(done, start), changed
        numbers.append(start + 1)
        done = end
    pieces.append(lines.text(done))
    content = "".join(pieces)
    if hunks and content == text:
        raise ToolError(f"The patch changes nothing in {path!r}: what it would put there is what is there.")
    listed = ", ".join(map(str, numbers[:_MAX_LISTED])) + (" ..." if len(numbers) > _MAX_LISTED else "")
    said = f"{path}: changed at line {listed}."
    if overlooked:
        said += f" Found apart from {' and '.join(overlooked)}: check the place."
    return Edited(content, said)


def _ended(changed: str, lines: Lines, final_newline: bool | None) -> str:
    """The end of the file with or without its final newline; it came as the file has it now."""
    has_newline = not len(lines) or bool(lines.endings[-1])
    if final_newline is None or final_newline is has_newline:
        return changed
    return changed + lines.style() if final_newline else changed.removesuffix("\n").removesuffix("\r")


def _check_appends(lines: Lines, hunk: Hunk, done: int) -> None:
    if len(lines) and not hunk.at_end:
        raise ToolError(f"{hunk.where} says not where to add its lines: give some lines of the file around them.")
    if done == len(lines) and done:
        raise ToolError(f"{hunk.where} overlaps the one before: make one of both.")


def _appended(lines: Lines, hunk: Hunk) -> str:
    style = lines.style()
    added = style.join(hunk.new)
    if not len(lines):
        return added + style
    return added + style if lines.endings[-1] else style + added


def _locate(lines: Lines, hunk: Hunk, after: int, path: str, exact: bool) -> tuple[Place, str]:
    scopes = _scopes(lines.bodies, hunk, path)
    for found in places(lines.bodies, hunk.old):
        fitting = [place for place in found if _fits(place, hunk, after, scopes, len(lines))]
        if len(fitting) > 1:
            fitting = [place for place in fitting if _is_where_said(place, hunk)] or fitting
        if len(fitting) > 1 or len(found) > MAX_PLACES:
            listed = ", ".join(str(place.start + 1) for place in fitting[:_MAX_LISTED])
            more = " ..." if len(fitting) > _MAX_LISTED else ""
            raise ToolError(
                f"{hunk.where} fits in {len(fitting)} places, at lines {listed}{more}: add lines to say which."
            )
        if fitting and (text := rewritten(lines, fitting[0], hunk.new, hunk.changes)) is not None:
            return fitting[0], text
        if exact:
            break
    place = None if exact else drifted_place(lines.bodies, hunk.old, hunk.changes)
    if place is None or not _fits(place, hunk, after, scopes, len(lines)):
        raise _missing(lines, hunk, after, path)
    text = rewritten(lines, place, hunk.new, hunk.changes)
    if text is None:
        raise _missing(lines, hunk, after, path)
    return place, text


def _is_where_said(place: Place, hunk: Hunk) -> bool:
    return place.start + 1 == hunk.line and place.tolerance in (Tolerance.EXACT, Tolerance.LINE_ENDS)


def _fits(place: Place, hunk: Hunk, after: int, scopes: Sequence[tuple[int, int]], count: int) -> bool:
    """Whether the hunk may be at `place`: behind the one before, where its anchors are, at the end if it says so."""
    if place.start < after or (hunk.at_end and place.start + len(hunk.old) != count):
        return False
    staked = [op for op in hunk.changes if not op.same]
    first, last = place.start + staked[0].old_start, place.start + staked[-1].old_end
    return any(start <= first and last <= end for start, end in scopes)


def _scopes(bodies: Sequence[str], hunk: Hunk, path: str) -> list[tuple[int, int]]:
    """The lines in which the hunk may change something: the blocks that its anchors open, or all."""
    scopes = [(0, len(bodies))]
    for anchor in hunk.anchors:
        wanted = folded(anchor)
        inside = sorted({i for start, end in scopes for i in range(start, end)})
        lines = [(i, folded(bodies[i])) for i in inside]
        hits = [i for i, line in lines if line == wanted] or [i for i, line in lines if line.startswith(wanted)]
        if not hits:
            raise ToolError(f"{hunk.where} is said to be below {anchor!r}, but {path!r} has no such line there.")
        scopes = [(i, min(_block_end(bodies, i), *(end for start, end in scopes if start <= i < end))) for i in hits]
    return scopes


def _block_end(bodies: Sequence[str], at: int) -> int:
    """Behind the block that line `at` opens, by its indentation; the end of the file where it opens none."""
    depth = _depth(bodies[at])
    is_open = False
    for i in range(at + 1, len(bodies)):
        if not bodies[i].strip() or (not is_open and _OPENS.fullmatch(bodies[i])):
            continue
        if _depth(bodies[i]) > depth:
            is_open = True
        elif not is_open:
            return len(bodies)
        elif not _CLOSES.fullmatch(bodies[i]):
            return i
    return len(bodies)


def _depth(line: str) -> int:
    return len(indentation(line).expandtabs(_TAB))


def _missing(lines: Lines, hunk: Hunk, after: int, path: str) -> ToolError:
    again = next((found for found in places(lines.bodies, hunk.new) if found), [])
    if len(again) == 1 and any(line.strip() for line in hunk.new):
        return ToolError(
            f"{hunk.where} is not there, but its new lines are, at line {again[0].start + 1}: done already?"
        )
    for found in places(lines.bodies, hunk.old):
        if found:
            numbers = ", ".join(str(place.start + 1) for place in found[:_MAX_LISTED])
            where = "before the hunk above it" if found[-1].start < after else "not where the patch says"
            return ToolError(f"{hunk.where} fits only at line {numbers} of {path!r}, which is {where}.")
    return ToolError(f"{hunk.where} is not in the file. {nearest(lines.bodies, hunk.old)}")
