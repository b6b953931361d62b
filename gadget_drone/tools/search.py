"""The tool `search`."""

import asyncio
from typing import Annotated

from pydantic import Field

from gadget_drone.disk.confined import real_path
from gadget_drone.errors import ToolError
from gadget_drone.permissions.covered import Covered
from gadget_drone.tools.access import reads_path
from gadget_drone.tools.looking import look
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

MAX_LINES = 300
MAX_TEXT_BYTES = 48_000
_MAX_COLUMNS = 400
_MAX_FILE_SIZE = "32M"
_EVERYTHING = frozenset({"*", "**", "**/*", "**/*.*", "*.*"})
"""Given to ripgrep these would undo .gitignore, for a glob that names a file wins over it."""

_NO_LINE_ENDS = "--glob=!*\n*"
"""A name with a line end could not be told from what is printed."""


@tool(effect=SideEffect.READ_ONLY, access=reads_path)
async def search(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000, description="Regular expression (Rust syntax).")],
    path: Annotated[str, Field(description="File or directory in the project.")] = ".",
    glob: Annotated[str | None, Field(max_length=1000, description="Only files such as *.py or src/**/*.ts.")] = None,
    context_lines: Annotated[int, Field(ge=0, le=20, description="Lines to show around each match.")] = 0,
    files_only: Annotated[bool, Field(description="Only say which files match.")] = False,
    ignore_case: bool = False,
) -> ToolResult:
    """Search in files, without those that .gitignore names. The answer has each file's path, then its lines as
    number:line, or number-line for lines around a match."""
    if "\0" in pattern or "\0" in (glob or ""):
        raise ToolError("A pattern cannot contain a NUL character.")
    real = await asyncio.to_thread(real_path, context.project_dir, path)
    root = context.project_dir.resolve()
    hidden = Covered(context.hidden).without(str(real.relative_to(root)))
    lines: list[str] = []
    size = 0
    is_hidden = False

    def take(line: str) -> bool:
        nonlocal is_hidden
        path, is_heading, first = line.partition("\0")  # ripgrep prints no NUL of a file
        if is_heading or files_only:
            is_hidden = hidden.covers(path)
        if is_hidden:
            return True
        return keep(path) and keep(first) if is_heading else keep(line)

    def keep(line: str) -> bool:
        nonlocal size
        size += len(line.encode("utf-8", "replace")) + 1
        if len(lines) >= MAX_LINES or size > MAX_TEXT_BYTES:
            return False
        lines.append(line)
        return True

    wanted = [] if glob is None or glob in _EVERYTHING else [f"--glob={glob}"]
    arguments = ["--heading", "--null", "--with-filename", "--line-number", "--sort=path", f"--context={context_lines}"]
    arguments += [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview", f"--max-filesize={_MAX_FILE_SIZE}"]
    arguments += ["--files-with-matches"] * files_only + ["--ignore-case"] * ignore_case
    operands = [pattern, *([str(real.relative_to(root))] if real != root else [])]
    separator = b"\0" if files_only else b"\n"
    ran = await look(context, [*arguments, *wanted, _NO_LINE_ENDS], operands, separator=separator, take=take)
    if not ran.complete:
        lines.append("[there is more: narrow it down with path, glob or a longer pattern]")
    elif ran.status > 1 and ran.errors:
        raise ToolError(f"The search failed: {ran.errors.strip()[:1000]}")
    return ToolResult("\n".join(lines).rstrip() or "No matches.")
