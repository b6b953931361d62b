"""The tool `list`."""

import asyncio
from collections import Counter
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field

from gadget_drone.tools.access import reads_path
from gadget_drone.tools.clip import quoted
from gadget_drone.tools.confined import real_path
from gadget_drone.tools.ripgrep import ripgrep, visible
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolError, ToolResult, tool

MAX_ENTRIES = 1000
_MAX_FILES = 200_000


@tool(effect=SideEffect.READ_ONLY, access=reads_path)
async def list_(
    context: ToolContext,
    path: Annotated[str, Field(description="Directory in the project.")] = ".",
    depth: Annotated[int, Field(ge=1, le=20, description="How many levels to show.")] = 2,
) -> ToolResult:
    """List the files of a directory, without those that .gitignore names. Directories come first, with the number of
    files below those that are not opened."""
    directory = await asyncio.to_thread(real_path, context.project_dir, path)
    if not directory.is_dir():
        raise ToolError(f"{quoted(path)} is not a directory.")
    root = context.project_dir.resolve()
    files: list[PurePosixPath] = []
    below = Counter[PurePosixPath]()
    """Files below each directory at the last level that is shown."""
    seen = 0

    def take(name: str) -> bool:
        nonlocal seen
        seen += 1
        file = PurePosixPath(name).relative_to(base)
        if len(file.parts) > depth:
            below[PurePosixPath(*file.parts[:depth])] += 1
        else:
            files.append(file)
        return seen < _MAX_FILES

    # From the root, which is what hidden patterns are relative to.
    base = directory.relative_to(root)
    arguments = ["--files", "--null", *visible(context.hidden), *([] if directory == root else ["--", str(base)])]
    ran = await ripgrep(arguments, root, separator=b"\0", take=take)
    if ran.status > 1 and not seen:
        raise ToolError(f"Listing {quoted(path)} failed: {ran.errors.strip()[:500]}")
    lines = await asyncio.to_thread(_lines, files, below)
    if not lines:
        return ToolResult("(no files)")
    if len(lines) > MAX_ENTRIES:
        left_out = len(lines) - MAX_ENTRIES
        lines[MAX_ENTRIES:] = [f"[{left_out} more entries: list a directory below, or with a smaller depth]"]
    if not ran.complete:
        lines.append(f"[there are more than {_MAX_FILES} files; the rest was not looked at]")
    return ToolResult("\n".join(lines))


def _lines(files: list[PurePosixPath], below: Counter[PurePosixPath]) -> list[str]:
    directories = {parent for file in (*files, *below) for parent in file.parents if parent.name} | below.keys()
    entries = [(_order(directory, True), _directory(directory, below)) for directory in directories]
    entries += [(_order(file, False), str(file)) for file in files]
    return [line for _, line in sorted(entries)]


def _directory(directory: PurePosixPath, below: Counter[PurePosixPath]) -> str:
    count = below[directory]
    return f"{directory}/" if not count else f"{directory}/ ({count} file{'s' if count > 1 else ''})"


def _order(entry: PurePosixPath, is_directory: bool) -> list[tuple[bool, str]]:
    """Sorts depth first, at each level directories before files."""
    *parents, name = entry.parts
    return [*((False, parent) for parent in parents), (not is_directory, name)]
