"""The tool `glob`."""

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from gadget_drone.clip import quoted
from gadget_drone.disk.confined import real_path
from gadget_drone.errors import ToolError
from gadget_drone.permissions.covered import Covered
from gadget_drone.tools.access import reads_path
from gadget_drone.tools.looking import look
from gadget_drone.tools.path_glob import PathGlob
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

MAX_FILES = 500
_MAX_LOOKED_AT = 200_000
_MAX_TEXT_BYTES = 48_000


@tool(effect=SideEffect.READ_ONLY, access=reads_path)
async def glob(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=1000, description="Such as **/*.py or src/*.{ts,tsx}.")],
    path: Annotated[str, Field(description="Directory in the project.")] = ".",
    sort: Literal["path", "newest"] = "path",
) -> ToolResult:
    """Find files by name, without those that .gitignore names."""
    directory = await asyncio.to_thread(real_path, context.project_dir, path)
    if not directory.is_dir():
        raise ToolError(f"{quoted(path)} is not a directory.")
    try:
        wanted = PathGlob(pattern)
    except ValueError as error:
        raise ToolError(f"The pattern will not do: {error}.") from error
    root = context.project_dir.resolve()
    base = directory.relative_to(root)
    below = "" if directory == root else f"{base}/"
    hidden = Covered(context.hidden).without(str(base))
    files: list[str] = []
    looked_at = size = 0

    def take(name: str) -> bool:
        nonlocal looked_at, size
        looked_at += 1
        if wanted.fits(name.removeprefix(below)) and not hidden.covers(name):
            size += len(name.encode("utf-8", "replace")) + 1
            if len(files) >= MAX_FILES or size > _MAX_TEXT_BYTES:
                return False
            files.append(name)
        return looked_at < _MAX_LOOKED_AT

    order = "--sortr=modified" if sort == "newest" else "--sort=path"
    operands = [str(base)] if below else []
    ran = await look(context, ["--files", "--null", order], operands, separator=b"\0", take=take)
    if ran.status > 1 and not looked_at:
        raise ToolError(f"Looking for files in {quoted(path)} failed: {ran.errors.strip()[:500]}")
    lines = [*files] or ["No files."]
    if not ran.complete:
        lines.append("[there is more: narrow it down with path or a longer pattern]")
    return ToolResult("\n".join(lines))
