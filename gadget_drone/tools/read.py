"""The tool `read`."""

import asyncio
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from gadget_drone.tools.clip import quoted
from gadget_drone.tools.confined import open_file
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolError, ToolResult, tool

MAX_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_TEXT_BYTES = 63_000
"""Leaves room below the 64,000 of a result for the note on how to go on."""
_MAX_SKIPPED_BYTES = 2**28
_SNIFFED_BYTES = 8000  # as git does to tell binary from text: buffer_is_binary() in its xdiff-interface.c
_PIECE_BYTES = 4 * MAX_LINE_CHARS + 1  # enough for a line at its longest in UTF-8


@tool(effect=SideEffect.READ_ONLY)
async def read(
    context: ToolContext,
    path: Annotated[str, Field(description="File to read, relative to the project directory.")],
    start_line: Annotated[int, Field(ge=1, description="First line, counted from 1.")] = 1,
    end_line: Annotated[int | None, Field(ge=1, description="Last line; leave out to read on.")] = None,
) -> ToolResult:
    """Read a text file. Each line comes with its number and a tab in front, which are not part of the file. At most
    2,000 lines or 63 kB a call, lines are cut at 2,000 characters; the answer says how to go on."""
    if end_line is not None and end_line < start_line:
        raise ToolError("end_line is before start_line.")
    last = min(end_line or start_line + MAX_LINES, start_line + MAX_LINES - 1)
    return ToolResult(await asyncio.to_thread(_read, context.project_dir, path, start_line, last, end_line))


def _read(root: Path, path: str, start: int, last: int, wanted: int | None) -> str:
    with open_file(root, path) as file:
        if b"\0" in file.read(_SNIFFED_BYTES):
            raise ToolError(f"{quoted(path)} is a binary file.")
        file.seek(0)
        shown: list[str] = []
        size = number = 0
        while (line := _next_line(file)) is not None:
            number += 1
            if number < start:
                if file.tell() > _MAX_SKIPPED_BYTES:
                    raise ToolError(f"Line {start} is more than 256 MiB into {quoted(path)}: use the shell.")
                continue
            text = f"{number}\t{_shown(line, first=number == 1)}\n"
            size += len(text.encode())
            if number > last or size > MAX_TEXT_BYTES:
                if wanted is None or number <= wanted:
                    shown.append(f"[there is more: go on with start_line={number}]\n")
                break
            shown.append(text)
    if number == 0:
        return "(the file is empty)"
    if number < start:
        raise ToolError(f"{quoted(path)} has only {number} lines.")
    return "".join(shown)


def _next_line(file: BinaryIO) -> bytes | None:
    """The next line, or its beginning where it is long; None at the end of the file."""
    line = piece = file.readline(_PIECE_BYTES)
    if not line:
        return None
    while piece and not piece.endswith(b"\n"):
        piece = file.readline(2**16)
        if file.tell() > _MAX_SKIPPED_BYTES:
            break
    return line


def _shown(line: bytes, *, first: bool) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if first:
        text = text.removeprefix("\ufeff")
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}[... the line goes on]"
