"""The tool `apply_patch`."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import (
    AS_IT_IS,
    Mode,
    check_writable,
    file_mode,
    find_whole,
    is_symlink,
)
from gadget_drone.editing.begin_patch import BEGIN, parse_begin_patch
from gadget_drone.editing.changes import FileChange, diff_of, make
from gadget_drone.editing.hunks import patched
from gadget_drone.editing.patches import Action, FilePatch
from gadget_drone.editing.reconciling import reconciled
from gadget_drone.editing.replacing import Edited
from gadget_drone.editing.text import Text
from gadget_drone.editing.unified import parse_unified
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

MAX_FILES = 500


def _access(*, patch: str) -> list[Access]:
    files = _parsed(patch)
    paths = [path for file in files for path in (file.path, file.move_to) if path is not None]
    # What does not fit is answered with what is there, and what moves is found under its new name.
    read = [Access(capability=Capability.READ, target=file.path) for file in files if file.action is not Action.ADD]
    return [*read, *(Access(capability=Capability.WRITE, target=path) for path in dict.fromkeys(paths))]


def _preview(context: ToolContext, *, patch: str) -> str:
    return diff_of(_planned(context, patch)[0])


_FORMAT = """A unified diff, or:
*** Begin Patch
*** Update File: a.py
@@ def f():
 context
-old
+new
*** Add File: b.py
+line
*** Delete File: c.py
*** End Patch
"*** Move to: " goes below Update File; "*** End of File" ends a hunk at the end. Paths are relative to the project \
directory."""


@tool(effect=SideEffect.OTHER, access=_access, preview=_preview, previews_diff=True)
async def apply_patch(
    context: ToolContext, patch: Annotated[str, Field(min_length=1, description=_FORMAT)]
) -> ToolResult:
    """Change, add, delete and move text files by one patch, all of it or nothing. Context lines must be as in the file,
    and enough to tell the place; line numbers are hints."""
    return ToolResult(await asyncio.to_thread(_apply, context, patch))


def _apply(context: ToolContext, patch: str) -> str:
    changes, said = _planned(context, patch)
    make(context.project_dir, changes, context.seen)
    return said


def _parsed(patch: str) -> list[FilePatch]:
    """Raises `ToolError` for what is no patch."""
    lines = patch.strip("\n").split("\n")
    if lines[0].startswith("```") and lines[-1].rstrip() == "```":
        lines = lines[1:-1]
    text = "\n".join(lines)
    files = parse_begin_patch(text) if text.lstrip().startswith(BEGIN) else parse_unified(text)
    if not files:
        raise ToolError("The patch names no file.")
    if len(files) > MAX_FILES:
        raise ToolError(f"The patch is of more than {MAX_FILES} files: make several of it.")
    return files


@dataclass
class _File:
    path: str
    target: str
    """What it stands for."""
    before: bytes | None
    now: bytes | None
    """With what the patch has done to it so far."""
    mode: Mode = AS_IT_IS
    gained: bool = False
    """Whether it is what a move or an addition of this patch made."""


@dataclass
class _Plan:
    """What a patch makes of the files, before any is written."""

    context: ToolContext
    files: dict[str, _File] = field(default_factory=dict)
    """By what their paths stand for."""
    said: list[str] = field(default_factory=list)

    def file(self, path: str) -> _File:
        root = self.context.project_dir
        target = self.context.target(path)
        check_writable(root, target)
        if target not in self.files:
            data = find_whole(root, target)
            self.files[target] = _File(path, target, data, data)
        return self.files[target]

    def add(self, patch: FilePatch) -> None:
        file = self.file(patch.path)
        if file.now is not None:
            raise ToolError(f"{quoted(patch.path)} is there already: update it, or delete it first.")
        file.now, file.gained = _encoded(patch.content), True
        file.mode = Mode(executable=patch.executable)
        self.said.append(f"{patch.path}: added.")

    def delete(self, patch: FilePatch) -> None:
        file = self._there(patch.path)
        self._check_no_link(patch.path)
        if patch.hunks:
            rest = self._changed(file, patch, check_only=True)
            if rest:
                raise ToolError(f"{quoted(patch.path)} has more in it than the patch deletes: read it again.")
        elif not file.gained:
            seen = self.context.seen.get(file.target)
            if seen is not None and file.now is not None and not seen.is_of(file.now):
                raise ToolError(
                    f"{quoted(patch.path)} changed on disk since you read it: read it before you delete it."
                )
        file.now = None
        self.said.append(f"{patch.path}: deleted.")

    def update(self, patch: FilePatch) -> None:
        file = self._there(patch.path)
        if patch.hunks:
            file.now = self._changed(file, patch)
        if patch.executable is not None:
            file.mode = replace(file.mode, executable=patch.executable)
        if patch.move_to is not None:
            self._move(file, patch.path, patch.move_to)

    def _move(self, file: _File, path: str, move_to: str) -> None:
        self._check_no_link(path)
        target = self.file(move_to)
        if target is file:
            raise ToolError(f"{quoted(path)} cannot be moved onto itself.")
        if target.now is not None:
            raise ToolError(f"{quoted(move_to)} is there already: nothing can be moved there.")
        mode = file.mode
        if mode.bits is None and file.before is not None:
            mode = replace(mode, bits=file_mode(self.context.project_dir, file.target))
        target.now, target.mode, target.gained = file.now, mode, True
        file.now, file.mode = None, AS_IT_IS
        self.said.append(f"{path}: moved to {move_to}.")

    def _there(self, path: str) -> _File:
        file = self.file(path)
        if file.now is None:
            raise ToolError(f"There is no {quoted(path)}.")
        return file

    def _check_no_link(self, path: str) -> None:
        if is_symlink(self.context.project_dir, path):
            raise ToolError(f"{quoted(path)} is a symlink: delete or move it with the shell.")

    def _changed(self, file: _File, patch: FilePatch, *, check_only: bool = False) -> bytes:
        def change(text: Text, exact: bool) -> Edited:
            return patched(text.content, patch.hunks, patch.path, exact=exact)

        assert file.now is not None
        # What the model has seen is the file on disk; of one that this patch has changed it knows what it did.
        seen = None
        if file.now is file.before:
            seen = self.context.seen.get(file.target)
        after = reconciled(file.now, seen, change, patch.path, proves=True)
        if not check_only:
            self.said.append(after.said)
        return after.data

    def changes(self) -> list[FileChange]:
        """What is written comes first, what is removed last."""
        changed = [
            FileChange(file.path, file.target, file.before, file.now, file.mode)
            for file in self.files.values()
            if file.before is not file.now or file.mode != AS_IT_IS
        ]
        return sorted(changed, key=lambda change: change.after is None)


def _planned(context: ToolContext, patch: str) -> tuple[list[FileChange], str]:
    plan = _Plan(context)
    for file in _parsed(patch):
        {Action.ADD: plan.add, Action.UPDATE: plan.update, Action.DELETE: plan.delete}[file.action](file)
    return plan.changes(), "\n".join(plan.said)


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError("The patch is not valid text: it has half of a surrogate pair.") from error
