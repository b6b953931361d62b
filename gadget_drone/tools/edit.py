"""The tool `edit`."""

import asyncio
import difflib
import re
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
    matches = list(_pattern(old).finditer(text))
    lines = [text.count("\n", 0, match.start()) + 1 for match in matches[:_MAX_LISTED]]
    listed = ", ".join(map(str, lines)) + (" ..." if len(matches) > _MAX_LISTED else "")
    if not matches:
        raise ToolError(f"old_text is not in {quoted(path)}. {_nearest(text.splitlines(), old.splitlines())}")
    if len(matches) > 1 and not replace_all:
        raise ToolError(
            f"old_text is in {quoted(path)} {len(matches)} times, at lines {listed}: add lines around it to say "
            "which, or set replace_all."
        )
    pieces, end = [mark], 0
    for match in matches:
        pieces += text[end : match.start()], _in_style(new, match, text)
        end = match.end()
    pieces.append(text[end:])
    replace_file(root, path, "".join(pieces).encode())
    return f"Replaced {len(matches)} in {path}, at line {listed}."


def _pattern(old: str) -> re.Pattern[str]:
    """Matches `old` with any line endings; where it ends with one, the end of a file without one matches too."""
    lines = [re.escape(line) for line in old.replace("\r\n", "\n").split("\n")]
    if len(lines) > 1 and not lines[-1]:
        return re.compile("\r?\n".join(lines[:-1]) + r"(?:\r?\n|\Z)")
    return re.compile("\r?\n".join(lines))


def _in_style(new: str, match: re.Match[str], text: str) -> str:
    """`new` with the line endings of what it replaces, or else of the file."""
    sample = match.group() if "\n" in match.group() else text
    if sample.count("\r\n") * 2 > sample.count("\n"):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    if match.re.pattern.endswith(r"\Z)") and not match.group().endswith("\n"):
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
