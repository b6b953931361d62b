"""The tool `write`."""

import asyncio
from typing import Annotated

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import MAX_WHOLE_FILE_BYTES, check_writable, find_whole
from gadget_drone.editing.changes import FileChange, diff_of, make
from gadget_drone.editing.reconciling import Reconciled, reconciled
from gadget_drone.editing.replacing import Edited
from gadget_drone.editing.rewriting import plain, restyled
from gadget_drone.editing.text import BOM, Text, decoded
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool


def _access(*, path: str, content: str) -> list[Access]:
    return [Access(capability=Capability.WRITE, target=path)]


def _preview(context: ToolContext, *, path: str, content: str) -> str:
    return diff_of([_planned(context, path, content)[0]])


@tool(effect=SideEffect.IDEMPOTENT, access=_access, preview=_preview, previews_diff=True)
async def write(
    context: ToolContext,
    path: Annotated[str, Field(description="File to write, relative to the project directory.")],
    content: Annotated[str, Field(description="The whole new content.")],
) -> ToolResult:
    """Create a file, with its directories, or replace all of one that you have read. To change a part, use edit."""
    return ToolResult(await asyncio.to_thread(_write, context, path, content))


def _write(context: ToolContext, path: str, content: str) -> str:
    change, said = _planned(context, path, content)
    make(context.project_dir, [change], context.seen)
    return said


def _planned(context: ToolContext, path: str, content: str) -> tuple[FileChange, str]:
    target = context.target(path)
    check_writable(context.project_dir, target)
    before = find_whole(context.project_dir, target)
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError("The content is not valid text: it has half of a surrogate pair.") from error
    if len(data) > MAX_WHOLE_FILE_BYTES:
        raise ToolError(f"The content is larger than {MAX_WHOLE_FILE_BYTES // 2**20} MiB: use the shell.")
    if before is None:
        return FileChange(path, target, None, data), f"Created {path}: {len(data)} bytes."
    after = _replaced(context, path, before, content)
    if after.data == before:
        return FileChange(path, target, before, before), f"{path} has this content already."
    return FileChange(path, target, before, after.data), after.said


def _replaced(context: ToolContext, path: str, before: bytes, content: str) -> Reconciled:
    there = decoded(before, path)
    ours = there.encoded(_as_there(content, there), path)
    if there.content == "" or ours == before:
        return Reconciled(ours, f"Replaced {path}: {len(ours)} bytes.")
    seen = context.seen.get(context.target(path))
    if seen is None:
        raise ToolError(f"{quoted(path)} is there already, and you have not read it: read it first.")

    def change(text: Text, exact: bool) -> Edited:
        return Edited(_as_there(content, text), f"Replaced {path}: {len(content.encode())} bytes.")

    return reconciled(before, seen, change, path, proves=False)


def _as_there(content: str, text: Text) -> str:
    """`content` with the line endings of the file, unless it brings its own."""
    content = content.removeprefix(BOM)
    if text.lone_returns or "\r\n" not in text.content or "\r\n" in content:
        return content
    style = "\r\n" if text.content.count("\r\n") * 2 > text.content.count("\n") else "\n"
    return restyled(content, plain(text.content), text.content, style)
