"""The tool `edit`."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from gadget_api.permissions import Access, Capability
from gadget_drone.disk.confined import check_writable, read_whole
from gadget_drone.editing.changes import FileChange, diff_of, make
from gadget_drone.editing.reconciling import reconciled
from gadget_drone.editing.replacing import Edited, Replacement, replaced
from gadget_drone.editing.text import Text
from gadget_drone.tools.tool import SideEffect, Tool, ToolContext, ToolResult, tool

MAX_EDITS = 100


class Edit(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    old_text: Annotated[str, Field(min_length=1, description="Text to replace, as in the file.")]
    new_text: Annotated[str, Field(description="Text to put in its place.")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False


Edits = Annotated[list[Edit], Field(min_length=1, max_length=MAX_EDITS, description="Made together: all or none.")]


def _access(*, path: str, edits: Sequence[Edit]) -> list[Access]:
    # What does not fit is answered with what is there.
    return [Access(capability=what, target=path) for what in (Capability.READ, Capability.WRITE)]


def _preview(context: ToolContext, *, path: str, edits: Sequence[Edit]) -> str:
    return diff_of([_planned(context, path, edits)[0]])


@tool(effect=SideEffect.OTHER, access=_access, preview=_preview, previews_diff=True)
async def edit(
    context: ToolContext,
    path: Annotated[str, Field(description="File to change, relative to the project directory.")],
    edits: Edits,
) -> ToolResult:
    """Replace pieces of a text file. Each old_text must be in the file exactly once (or set replace_all): add lines
    around it until it is. All are looked for in the file as it is before the call, and may not overlap. The file keeps
    its line endings and encoding."""
    return ToolResult(await asyncio.to_thread(_edit, context, path, edits))


def _lift_a_single_edit(params: Any) -> Any:
    """`edits` where a model wrote the fields of its one edit beside `path`, as most other agents' tools have them, or
    no list around it, or the list as JSON within a string, as small models do."""
    single = {"old_text", "new_text", "replace_all"}
    if not isinstance(params, dict):
        return params
    if "edits" in params:
        return params | {"edits": _listed(params["edits"])}
    if not single & params.keys():
        return params
    rest = {name: value for name, value in params.items() if name not in single}
    return rest | {"edits": [{name: params[name] for name in params.keys() & single}]}


def _listed(edits: Any) -> Any:
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except ValueError:
            return edits
    return [edits] if isinstance(edits, dict) else edits


def _lenient(strict: Tool) -> Tool:
    lift: dict[str, Any] = {"lift": model_validator(mode="before")(_lift_a_single_edit)}
    return replace(strict, arguments=create_model("edit", __base__=strict.arguments, __validators__=lift))


edit = _lenient(edit)


def _edit(context: ToolContext, path: str, edits: Sequence[Edit]) -> str:
    change, said = _planned(context, path, edits)
    make(context.project_dir, [change], context.seen)
    return said


def _planned(context: ToolContext, path: str, edits: Sequence[Edit]) -> tuple[FileChange, str]:
    root, target = context.project_dir, context.target(path)
    data = read_whole(root, target)
    check_writable(root, target)
    replacements = [Replacement(edit.old_text, edit.new_text, edit.replace_all) for edit in edits]

    def change(text: Text, exact: bool) -> Edited:
        return replaced(text.content, replacements, path, exact=exact)

    after = reconciled(data, context.seen.get(target), change, path, proves=True)
    return FileChange(path, target, data, after.data), after.said
