"""The tool `write`."""

import asyncio
from typing import Annotated

from pydantic import Field

from gadget_drone.tools.confined import replace_file
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool


@tool(effect=SideEffect.IDEMPOTENT)
async def write(
    context: ToolContext,
    path: Annotated[str, Field(description="File to write, relative to the project directory.")],
    content: Annotated[str, Field(description="The whole new content.")],
) -> ToolResult:
    """Create a file, or replace all of its content. Missing directories are made. To change a part, use edit."""
    data = content.encode()
    created = await asyncio.to_thread(replace_file, context.project_dir, path, data, make_parents=True)
    return ToolResult(f"{'Created' if created else 'Replaced'} {path}: {len(data)} bytes.")
