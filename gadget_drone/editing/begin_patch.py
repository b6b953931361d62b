"""The patch format that OpenAI's models are trained on:

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ class App:
    @@     def run(self):
             first = 1
    -        return first
    +        return first + 1
    *** Add File: notes.txt
    +one line
    *** Delete File: old.txt
    *** End Patch

The lines behind `@@` stand somewhere before the change, in the file; `*** End of File` ends a hunk at the file's end.
"""

import re
from dataclasses import dataclass, field

from gadget_drone.editing.patches import Action, FilePatch, Hunk, hunk, malformed
from gadget_drone.errors import ToolError

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_END_OF_FILE = "*** End of File"
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = "*** Move to: "
_NUMBERS = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*")


@dataclass
class _Section:
    action: Action
    path: str
    move_to: str | None = None
    added: list[str] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)


class _Reader:
    """The lines of a patch, one after the other."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def line(self) -> str:
        return self.lines[self.at]

    def error(self, said: str) -> ToolError:
        return malformed(self.at + 1, self.line, said)


def parse_begin_patch(text: str) -> list[FilePatch]:
    """Raises `ToolError`, with the line, for a patch that is not whole."""
    lines = [line.rstrip("\r") for line in text.strip().split("\n")]
    if lines[-1].strip() != _END:
        raise ToolError(f"The patch does not end with {_END!r}: it may have been cut off.")
    lines[-1] = _END
    reader = _Reader(lines)
    reader.at = 1
    patches: list[FilePatch] = []
    while reader.at < len(lines) - 1:
        patches.append(_file(reader))
    return patches


def _file(reader: _Reader) -> FilePatch:
    head = _FILE.fullmatch(reader.line.rstrip())
    if head is None:
        raise reader.error("expected '*** Add File: ', '*** Update File: ' or '*** Delete File: ' and a path.")
    section = _Section(Action[head[1].upper()], head[2].strip())
    first = reader.at
    reader.at += 1
    if section.action is Action.ADD:
        while not reader.line.startswith("*** "):
            if not reader.line.startswith("+"):
                raise reader.error("each line of a file to add begins with +.")
            section.added.append(reader.line[1:])
            reader.at += 1
    elif section.action is Action.UPDATE:
        if reader.line.startswith(_MOVE):
            section.move_to = reader.line.removeprefix(_MOVE).strip()
            reader.at += 1
        while _FILE.match(reader.line) is None and reader.line != _END:
            section.hunks.append(_hunk(reader, section.path))
        if not section.hunks and section.move_to is None:
            raise malformed(first + 1, reader.lines[first], "nothing follows that changes the file.")
    content = "".join(line + "\n" for line in section.added)
    return FilePatch(section.action, section.path, section.move_to, content, tuple(section.hunks))


def _hunk(reader: _Reader, path: str) -> Hunk:
    where = f"The hunk at line {reader.at + 1} of the patch, of {path!r},"
    anchors: list[str] = []
    number: int | None = None
    while reader.line.startswith("@@"):
        if (numbers := _NUMBERS.fullmatch(reader.line)) is not None:
            number = int(numbers[1])
        elif anchor := reader.line.removeprefix("@@").strip():
            anchors.append(anchor.removesuffix("@@").rstrip())
        reader.at += 1
    raw: list[str] = []
    while not reader.line.startswith(("@@", "*** ")):
        if reader.line and reader.line[0] not in " +-":
            raise reader.error("a line of a hunk begins with a blank, + or -.")
        raw.append(reader.line)
        reader.at += 1
    while raw and not raw[-1]:
        raw.pop()  # it sets hunks apart; an empty line of the file has a blank in front
    at_end = reader.line.strip() == _END_OF_FILE
    if at_end:
        reader.at += 1
    elif not reader.line.startswith("@@") and _FILE.match(reader.line) is None and reader.line != _END:
        raise reader.error("no such heading is known.")
    body = [(line[:1] or " ", line[1:]) for line in raw]
    return hunk(body, where, line=number, anchors=anchors, at_end=at_end)
