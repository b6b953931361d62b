"""Unified diffs of texts, as `git diff` writes them."""

from collections.abc import Iterator, Sequence

from gadget_drone.editing.lines import Op, ops

_CONTEXT = 3
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified_diff(before: str, after: str, old_name: str, new_name: str) -> str:
    """How `before` becomes `after`; "" where they are the same. Not always the shortest, but always right."""
    old, new = _lines(before), _lines(after)
    hunks = [_hunk(old, new, group) for group in _grouped(ops(old, new))]
    return f"--- {old_name}\n+++ {new_name}\n{''.join(hunks)}" if hunks else ""


def shown(diff: str, max_lines: int = 60, max_chars: int = 4000) -> str:
    """A diff for a message: whole lines of its beginning, and how many more there are."""
    lines = diff.splitlines(keepends=True)
    taken, size = 0, 0
    while taken < min(len(lines), max_lines) and size + len(lines[taken]) <= max_chars:
        size += len(lines[taken])
        taken += 1
    left = len(lines) - taken
    return "".join(lines[:taken]) + (f"[... {left} more lines of this diff]\n" if left else "")


def _lines(text: str) -> list[str]:
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _grouped(found: Sequence[Op]) -> Iterator[list[Op]]:
    """The changes with three lines around them; near ones together."""
    group: list[Op] = []
    for number, op in enumerate(found):
        if not op.same:
            group.append(op)
            continue
        head = min(_CONTEXT, op.old_end - op.old_start) if group else 0
        is_last = number == len(found) - 1
        if group and (is_last or op.old_end - op.old_start > 2 * _CONTEXT):
            yield [*group, Op(True, op.old_start, op.old_start + head, op.new_start, op.new_start + head)]
            group = []
        if group:
            group.append(op)
        elif not is_last:
            group = []
            tail = min(_CONTEXT, op.old_end - op.old_start)
            group.append(Op(True, op.old_end - tail, op.old_end, op.new_end - tail, op.new_end))
    if any(not op.same for op in group):
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Op]) -> str:
    first, last = group[0], group[-1]
    head = f"@@ -{_range(first.old_start, last.old_end)} +{_range(first.new_start, last.new_end)} @@\n"
    body: list[str] = []
    for op in group:
        if op.same:
            body += (" " + line for line in old[op.old_start : op.old_end])
        else:
            body += ("-" + line for line in old[op.old_start : op.old_end])
            body += ("+" + line for line in new[op.new_start : op.new_end])
    return head + "".join(line if line.endswith("\n") else line + _NO_NEWLINE for line in body)


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"
