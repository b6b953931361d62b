"""The tool `read`."""

import asyncio
import mimetypes
import os
from collections.abc import Iterable, Iterator
from typing import Annotated, BinaryIO

from pydantic import Field

from gadget_api.permissions import Access, Capability
from gadget_drone.clip import quoted
from gadget_drone.disk.confined import MAX_WHOLE_FILE_BYTES, open_file
from gadget_drone.editing.text import decoded
from gadget_drone.errors import ToolError
from gadget_drone.tools.image import image_format, small_image
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

MAX_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_TEXT_BYTES = 63_000
"""Leaves room below the 64,000 of a result for the note on how to go on."""
_MAX_SKIPPED_BYTES = 2**28
_SNIFFED_BYTES = 8000  # as git does to tell binary from text: buffer_is_binary() in its xdiff-interface.c
_PIECE_BYTES = 4 * MAX_LINE_CHARS + 1  # enough for a line at its longest in UTF-8
_MAGIC = {
    b"\x7fELF": "an ELF program or library",
    b"%PDF": "a PDF",
    b"PK\3\4": "a ZIP archive",
    b"\x1f\x8b": "gzip data",
    b"SQLite format 3": "an SQLite database",
}


def _access(*, path: str, start_line: int, end_line: int | None) -> list[Access]:
    return [Access(capability=Capability.READ, target=path)]


@tool(effect=SideEffect.READ_ONLY, access=_access)
async def read(
    context: ToolContext,
    path: Annotated[str, Field(description="File to read, relative to the project directory.")],
    start_line: Annotated[int, Field(ge=1, description="First line, counted from 1.")] = 1,
    end_line: Annotated[int | None, Field(ge=1, description="Last line; leave out to read on.")] = None,
) -> ToolResult:
    """Read a text file, or look at an image (PNG, JPEG, GIF, WebP). Each line comes with its number and a tab in front,
    which are not part of the file. At most 2,000 lines or 63 kB a call, lines are cut at 2,000 characters; the answer
    says how to go on."""
    if end_line is not None and end_line < start_line:
        raise ToolError("end_line is before start_line.")
    return await asyncio.to_thread(_read, context, path, start_line, end_line)


def _read(context: ToolContext, path: str, start: int, wanted: int | None) -> ToolResult:
    target = context.target(path)
    with open_file(context.project_dir, target) as file:
        size = os.fstat(file.fileno()).st_size
        beginning = file.read(_SNIFFED_BYTES)
        if size > MAX_WHOLE_FILE_BYTES:
            _check_text(beginning, path, size)
            file.seek(0)
            return ToolResult(_shown(_streamed(file, start, path), path, start, wanted))
        data = beginning + file.read(MAX_WHOLE_FILE_BYTES - len(beginning) + 1)
    if image_format(data) is not None:
        image = small_image(data, path)
        return ToolResult(f"{path}: {image.media_type}, {image.width}x{image.height} pixels.", images=(image,))
    note = ""
    try:
        text = decoded(data, path)
        content = text.content
        if text.encoding != "utf-8":
            note = f"[the file is {text.name}; write, edit and apply_patch keep that]\n"
    except ToolError:
        _check_text(data, path, size)
        content = data.decode("utf-8", "replace").removeprefix("\ufeff")
        note = "[not valid UTF-8: \ufffd stands for what is not; change it with the shell]\n"
    shown = _shown(_lines(content), path, start, wanted)
    context.seen.note(target, data)
    return ToolResult(shown + note)


def _check_text(data: bytes, path: str, size: int) -> None:
    if b"\0" not in data:
        return
    kind = next((said for magic, said in _MAGIC.items() if data.startswith(magic)), mimetypes.guess_type(path)[0])
    raise ToolError(f"{quoted(path)} is a binary file of {size} bytes ({kind or 'of an unknown type'}).")


def _shown(lines: Iterable[str], path: str, start: int, wanted: int | None) -> str:
    """Lines `start` to `wanted` with their numbers, as far as there is room."""
    last = min(wanted or start + MAX_LINES, start + MAX_LINES - 1)
    shown: list[str] = []
    size = number = 0
    for number, line in enumerate(lines, 1):
        if number < start:
            continue
        text = f"{number}\t{_cut(line)}\n"
        size += len(text.encode("utf-8", "replace"))
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


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}[... the line goes on]"


def _lines(content: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in content.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _streamed(file: BinaryIO, start: int, path: str) -> Iterator[str]:
    """The lines of a large file, of long ones the beginning."""
    number = 0
    while line := file.readline(_PIECE_BYTES):
        number += 1
        piece = line
        while piece and not piece.endswith(b"\n"):
            piece = file.readline(2**16)
            if file.tell() > _MAX_SKIPPED_BYTES:
                break
        if number < start and file.tell() > _MAX_SKIPPED_BYTES:
            raise ToolError(f"Line {start} is more than 256 MiB into {quoted(path)}: use the shell.")
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        yield text.removeprefix("\ufeff") if number == 1 else text
