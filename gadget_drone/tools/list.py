"""The tool `list`."""

import asyncio
from collections import Counter
from typing import Annotated

from pydantic import Field

from gadget_drone.clip import quoted
from gadget_drone.disk.confined import real_path
from gadget_drone.errors import ToolError
from gadget_drone.permissions.covered import Covered
from gadget_drone.tools.access import reads_path
from gadget_drone.tools.looking import look
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

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
    base = directory.relative_to(root)
    prefix = "" if directory == root else f"{base}/"
    files: list[str] = []
    below = Counter[str]()
    """Files below each directory at the last level that is shown."""
    seen = 0

    def take(name: str) -> bool:
        nonlocal seen
        seen += 1
        if hidden.covers(name):
            return seen < _MAX_FILES
        parts = name.removeprefix(prefix).split("/", depth)
        if len(parts) > depth:
            below["/".join(parts[:depth])] += 1
        else:
            files.append("/".join(parts))
        return seen < _MAX_FILES

    hidden = Covered(context.hidden).without(str(base))
    operands = [str(base)] if prefix else []
    ran = await look(context, ["--files", "--null"], operands, separator=b"\0", take=take)
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


def _lines(files: list[str], below: Counter[str]) -> list[str]:
    directories = set(below)
    for path in (*files, *below):
        while (path := path.rpartition("/")[0]) and path not in directories:
            directories.add(path)
    entries = [(_order(directory, True), _directory(directory, below)) for directory in directories]
    entries += [(_order(file, False), file) for file in files]
    return [line for _, line in sorted(entries)]


def _directory(directory: str, below: Counter[str]) -> str:
    count = below[directory]
    return f"{directory}/" if not count else f"{directory}/ ({count} file{'s' if count > 1 else ''})"


def _order(entry: str, is_directory: bool) -> str:
    """Sorts depth first, at each level directories before files. One string, for that compares fast."""
    parents, slash, name = entry.rpartition("/")
    before = "\0" + parents.replace("/", "\0\0") + "\0" if slash else ""
    return f"{before}{chr(not is_directory)}{name}\0"
