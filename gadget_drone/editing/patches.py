"""A patch as data: what happens to which file. Two formats are read, `unified.py` and `begin_patch.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gadget_drone.clip import quoted
from gadget_drone.editing.lines import Op
from gadget_drone.errors import ToolError


class Action(Enum):
    ADD = auto()
    UPDATE = auto()
    DELETE = auto()


@dataclass(frozen=True)
class Hunk:
    """Some lines that become others."""

    old: list[str]
    new: list[str]
    changes: list[Op]
    where: str
    """Says which hunk this is, for an error."""
    line: int | None = None
    """Where `old` begins, counted from 1, as the patch says."""
    anchors: tuple[str, ...] = ()
    """Lines that stand before it, each within the block of the one before."""
    at_end: bool = False
    """`old` ends where the file ends."""
    final_newline: bool | None = None
    """Whether the file ends with a newline afterwards; None: as it did before."""


@dataclass(frozen=True)
class FilePatch:
    action: Action
    path: str
    move_to: str | None = None
    content: str = ""
    """Of a file to add."""
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None
    """None: as it was."""


def hunk(
    body: Sequence[tuple[str, str]],
    where: str,
    *,
    line: int | None = None,
    anchors: Sequence[str] = (),
    at_end: bool = False,
    final_newline: bool | None = None,
) -> Hunk:
    """Of lines in order, each with its mark: a blank for context, `-` or `+`."""
    old = [text.removesuffix("\r") for mark, text in body if mark != "+"]
    new = [text.removesuffix("\r") for mark, text in body if mark != "-"]
    if all(mark == " " for mark, _ in body):
        raise ToolError(f"{where} changes nothing: it has no line that begins with + or -.")
    return Hunk(old, new, _changes(body), where, line, tuple(anchors), at_end, final_newline)


def _changes(body: Sequence[tuple[str, str]]) -> list[Op]:
    changes: list[Op] = []
    i = j = 0
    at = 0
    while at < len(body):
        same = body[at][0] == " "
        end = at
        while end < len(body) and (body[end][0] == " ") is same:
            end += 1
        removed = sum(mark != "+" for mark, _ in body[at:end])
        added = sum(mark != "-" for mark, _ in body[at:end])
        changes.append(Op(same, i, i + removed, j, j + added))
        i, j, at = i + removed, j + added, end
    return changes


def malformed(number: int, line: str, said: str) -> ToolError:
    """`number` is that of a line of the patch, from 1."""
    return ToolError(f"The patch is malformed at its line {number}, {quoted(line)}: {said}")
