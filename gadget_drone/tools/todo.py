"""The tool `todo`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gadget_drone.tools.access import reaches_nothing
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

_MARKS = {"pending": "[ ]", "inProgress": "[>]", "done": "[x]"}


class TodoItem(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    text: Annotated[str, Field(min_length=1, max_length=500)]
    status: Literal["pending", "inProgress", "done"] = "pending"


@tool(effect=SideEffect.READ_ONLY, access=reaches_nothing)
async def todo(
    context: ToolContext,
    items: Annotated[list[TodoItem], Field(max_length=100, description="The whole list, in order.")],
) -> ToolResult:
    """Replace your list of what is to be done, which the user sees. For work of three steps or more: keep one item
    inProgress, and send the list again whenever a step is done."""
    if not items:
        return ToolResult("The list is empty.")
    done = sum(item.status == "done" for item in items)
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in items]
    return ToolResult("\n".join([*lines, f"({done} of {len(items)} done)"]))
