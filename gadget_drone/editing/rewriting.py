"""Putting new lines in the place of old ones, so that what stays the same keeps its bytes."""

from collections.abc import Sequence

from gadget_drone.editing.indentation import indentation
from gadget_drone.editing.lines import Lines, Op, ops
from gadget_drone.editing.matching import Place


def rewritten(lines: Lines, place: Place, new: Sequence[str], changes: Sequence[Op]) -> str | None:
    """The text in the place of the lines there: those that stay as they are in the file, the others from `new`, with
    the file's indentation and line endings. None where an indentation of `new` has no counterpart."""
    bodies: list[str] = []
    endings: list[str] = []
    count = changes[-1].old_end if changes else 0
    default = lines.style(place.start, place.start + count)
    for op in changes:
        start, end = place.start + op.old_start, place.start + op.old_end
        if op.same:
            bodies += lines.bodies[start:end]
            endings += lines.endings[start:end]
            continue
        own = lines.endings[start:end]
        for offset, line in enumerate(new[op.new_start : op.new_end]):
            indent = place.reindent(indentation(line)) if line.strip() else indentation(line)
            if indent is None:
                return None
            bodies.append(indent + line[len(indentation(line)) :])
            endings.append(own[offset] if offset < len(own) else default)
    last = lines.endings[place.start + count - 1] if count else default
    endings = [ending or default for ending in endings]
    if endings and not last:
        endings[-1] = ""
    return "".join(body + ending for body, ending in zip(bodies, endings, strict=True))


def restyled(new: str, old: str, found: str, default: str) -> str:
    """`new`, which takes the place of `found`, written as `old` by the model, with the line endings of `found`.

    A line that `old` has too keeps its own; `default` is for the others, where `found` has several kinds or none.
    """
    endings = [ending for ending in Lines.of(found).endings if ending]
    segments, before = plain(new).split("\n"), plain(old).split("\n")
    if len(set(endings)) < 2:
        return (endings[0] if endings else default).join(segments)
    chosen = [default] * len(segments)
    for op in ops(before, segments):
        pairs = zip(range(op.old_start, op.old_end), range(op.new_start, op.new_end), strict=False)
        for i, j in pairs:
            if i < len(endings):
                chosen[j] = endings[i]
    return "".join(segment + ending for segment, ending in zip(segments, [*chosen[:-1], ""], strict=True))


def plain(text: str) -> str:
    r"""`text` with each line ending as \n."""
    return text.replace("\r\n", "\n")
