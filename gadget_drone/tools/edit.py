"""The tool `edit`."""

import asyncio
import difflib
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gadget_drone.tools.clip import quoted
from gadget_drone.tools.confined import read_whole, replace_file
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolError, ToolResult, tool

_BOM = "\ufeff"
_MAX_LISTED = 20
_MAX_COMPARED_LINES = 2000  # difflib takes up to 0.1 ms for a pair of lines
_MAX_COMPARED_CHARS = 200
_MAX_SHOWN_LINES = 40
_SIMILAR = 0.6  # difflib.get_close_matches' own


@tool(effect=SideEffect.OTHER)
async def edit(
    context: ToolContext,
    path: Annotated[str, Field(description="File to change, relative to the project directory.")],
    old_text: Annotated[str, Field(min_length=1, description="Text to replace, exactly as in the file.")],
    new_text: Annotated[str, Field(description="Text to put in its place.")],
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
) -> ToolResult:
    """Replace a piece of a text file. old_text must be in the file exactly once, whitespace and all (or set
    replace_all): add lines around it until it is. Line endings may differ; the file keeps its own."""
    return ToolResult(await asyncio.to_thread(_edit, context.project_dir, path, old_text, new_text, replace_all))


def _edit(root: Path, path: str, old: str, new: str, replace_all: bool) -> str:
    old, new = old.removeprefix(_BOM), new.removeprefix(_BOM)
    if old == new:
        raise ToolError("old_text and new_text are the same.")
    data = read_whole(root, path)
    if b"\0" in data:
        raise ToolError(f"{quoted(path)} is a binary file.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{quoted(path)} is not UTF-8 text: change it with the shell.") from error
    mark = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    spans = _find(text, old)
    lines = [text.count("\n", 0, start) + 1 for start, _ in spans[:_MAX_LISTED]]
    listed = ", ".join(map(str, lines)) + (" ..." if len(spans) > _MAX_LISTED else "")
    if not spans:
        raise ToolError(f"old_text is not in {quoted(path)}. {_nearest(_lines(text), _lines(old))}")
    if len(spans) > 1 and not replace_all:
        raise ToolError(
            f"old_text is in {quoted(path)} {len(spans)} times, at lines {listed}: add lines around it to say "
            "which, or set replace_all."
        )
    pieces, done = [mark], 0
    for start, end in spans:
        pieces += text[done:start], _in_style(new, old, text[start:end], text)
        done = end
    pieces.append(text[done:])
    replace_file(root, path, "".join(pieces).encode())
    return f"Replaced {len(spans)} in {path}, at line {listed}."


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _lines(text: str) -> list[str]:
    return _lf(text).removesuffix("\n").split("\n")


def _find(text: str, old: str) -> list[tuple[int, int]]:
    """Where `old` is in `text`, with any line endings. One at its end may be missing at the end of the file."""
    plain, old = _lf(text), _lf(old)
    starts: list[int] = []
    at = plain.find(old)
    while at >= 0:
        starts.append(at)
        at = plain.find(old, at + len(old))
    if not starts and len(old) > 1 and old.endswith("\n") and plain.endswith(old[:-1]):
        starts.append(len(plain) - len(old) + 1)
    # The places in `plain` of line endings that are one longer in `text`.
    longer = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]
    ends = [min(start + len(old), len(plain)) for start in starts]
    return [
        (start + bisect_left(longer, start), end + bisect_left(longer, end))
        for start, end in zip(starts, ends, strict=True)
    ]


def _in_style(new: str, old: str, found: str, text: str) -> str:
    """`new` with the line endings of what was found, or else of the file."""
    sample = found if "\n" in found else text
    if sample.count("\r\n") * 2 > sample.count("\n"):
        new = _lf(new).replace("\n", "\r\n")
    if old.endswith("\n") and not found.endswith("\n"):
        new = new.removesuffix("\n").removesuffix("\r")
    return new


def _nearest(lines: Sequence[str], old: Sequence[str]) -> str:
    """Where `old` may have been meant, with line numbers."""
    start = _best_window(lines, old)
    if start is None:
        return "Nothing in the file is similar to it: read the file again."
    end = min(start + min(len(old), _MAX_SHOWN_LINES), len(lines))
    shown = "\n".join(f"{n}\t{lines[n - 1][:_MAX_COMPARED_CHARS]}" for n in range(start + 1, end + 1))
    same = [line.split() for line in lines[start:end]] == [line.split() for line in old]
    hint = " (only whitespace differs)" if same else ""
    return f"The nearest is at lines {start + 1}-{end}{hint}:\n{shown}"


def _best_window(lines: Sequence[str], old: Sequence[str]) -> int | None:
    """The index of the line where a stretch as long as `old` starts that shares most lines with it."""
    wanted = {stripped for line in old if (stripped := line.strip())}
    sums = [0, *accumulate(line.strip() in wanted for line in lines)]
    scores = [sums[min(i + len(old), len(lines))] - sums[i] for i in range(len(lines))]
    best = max(scores, default=0)
    if best > 0:
        tied = [i for i, score in enumerate(scores) if score == best][:_MAX_LISTED]
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
