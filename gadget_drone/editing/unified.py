"""Unified diffs, git's and plain ones, strict in what they do and lenient in their numbers: models miscount."""

import re
from dataclasses import dataclass, field

from gadget_drone.editing.patches import Action, FilePatch, Hunk, hunk, malformed
from gadget_drone.errors import ToolError

_HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*| .*)?")
_GIT = re.compile(r"diff --git (.+)")
_REFUSED = re.compile(r"(GIT binary patch|Binary files .* differ|copy (from|to) .*|.* mode (120000|160000))")
_MODE = re.compile(r"(new file|deleted file|old|new) mode (\d+)")
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abfnrtv"\\])')
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_NO_NEWLINE = "\\"
_NOTHING = "/dev/null"
_IGNORED = ("index ", "similarity index ", "dissimilarity index ", "Index: ", "====")


@dataclass
class _Section:
    """What the lines before the hunks of a file say."""

    number: int
    """Of its first line, from 0."""
    is_git: bool = False
    names: str = ""
    """Behind `diff --git`."""
    old: str | None = None
    new: str | None = None
    rename_from: str | None = None
    rename_to: str | None = None
    added: bool = False
    deleted: bool = False
    executable: bool | None = None
    hunks: list[Hunk] = field(default_factory=list)


def parse_unified(text: str) -> list[FilePatch]:
    """Raises `ToolError`, with the line, for a patch that is not whole or does what no text patch can."""
    lines = text.split("\n")
    if all(line.endswith("\r") for line in lines if line):
        lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    sections: list[_Section] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if (git := _GIT.fullmatch(line)) is not None:
            sections.append(_Section(at, is_git=True, names=git[1]))
        elif _begins_file(lines, at):
            if not sections or sections[-1].old is not None or sections[-1].hunks:
                sections.append(_Section(at))
            sections[-1].old, sections[-1].new = _name(line[4:]), _name(lines[at + 1][4:])
            at += 1
        elif line.startswith("@@"):
            if not sections or sections[-1].new is None:
                raise malformed(at + 1, line, "no '--- ' and '+++ ' lines with the file's name come before it.")
            at = _hunk(lines, at, sections[-1])
            continue
        elif _REFUSED.fullmatch(line):
            raise malformed(at + 1, line, "only text can be patched; do this with the shell.")
        elif sections and sections[-1].is_git and not sections[-1].hunks:
            _extended(line, sections[-1])
        elif sections and line.strip() and not line.startswith(_IGNORED):
            raise malformed(at + 1, line, "a line of a hunk begins with a blank, + or -, and a hunk with @@.")
        at += 1
    if not sections:
        raise ToolError("This is no patch: it has neither '*** Begin Patch' nor '--- ' and '+++ ' lines.")
    return [_file(section, lines) for section in sections]


def _begins_file(lines: list[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _extended(line: str, section: _Section) -> None:
    if (mode := _MODE.fullmatch(line)) is not None:
        kind, bits = mode.groups()
        section.added = section.added or kind == "new file"
        section.deleted = section.deleted or kind == "deleted file"
        if kind.startswith("new"):
            section.executable = bool(int(bits, 8) & 0o111)
    elif line.startswith("rename from "):
        section.rename_from = _name(line.removeprefix("rename from "))
    elif line.startswith("rename to "):
        section.rename_to = _name(line.removeprefix("rename to "))


def _name(text: str) -> str:
    """A path as it is written in a header: with a time behind a tab, or quoted as C does."""
    if text.startswith('"') and text.rstrip().endswith('"'):
        raw = text.rstrip()[1:-1].encode()
        return _ESCAPE.sub(
            lambda found: bytes([int(found[1], 8) & 255]) if found[1].isdigit() else _ESCAPED.get(found[1], found[1]),
            raw,
        ).decode("utf-8", "surrogateescape")
    return text.partition("\t")[0].rstrip()


def _ends_hunk(lines: list[str], at: int) -> bool:
    return at >= len(lines) or bool(_GIT.match(lines[at])) or lines[at].startswith("@@") or _begins_file(lines, at)


def _hunk(lines: list[str], at: int, section: _Section) -> int:
    """Adds the hunk that begins at `at` to its section; the index behind it."""
    head = _HUNK.fullmatch(lines[at])
    if head is None:
        raise malformed(at + 1, lines[at], "a hunk begins as in '@@ -1,3 +1,4 @@'.")
    name = section.new if section.new != _NOTHING else section.old
    where = f"The hunk at line {at + 1} of the patch, of {name!r},"
    end = _end_by_counts(lines, at, head)
    if end is None:
        end = at + 1
        while not _ends_hunk(lines, end):
            end += 1
        while end > at + 1 and not lines[end - 1].rstrip("\r"):
            end -= 1
    body: list[tuple[str, str]] = []
    flagged: set[str] = set()
    for number in range(at + 1, end):
        line = lines[number]
        mark = line[:1].replace("\r", "") or " "
        if mark == _NO_NEWLINE and body:
            flagged.add(body[-1][0])
        elif mark not in " +-":
            raise malformed(number + 1, line, "a line of a hunk begins with a blank, + or -.")
        else:
            body.append((mark, line[1:]))
    loses, gains = flagged == {"+"}, flagged == {"-"}
    first = int(head[1]) if head[1] is not None else None
    section.hunks.append(
        hunk(body, where, line=first, at_end=bool(flagged), final_newline=gains if loses or gains else None)
    )
    return end


def _end_by_counts(lines: list[str], at: int, head: re.Match[str]) -> int | None:
    """The index behind the hunk as its header counts its lines; None where the count is wrong, or none is there."""
    if head[1] is None:
        return None
    old, new = (int(head[group]) if head[group] is not None else 1 for group in (2, 4))
    end = at + 1
    while (old > 0 or new > 0) and end < len(lines):
        mark = lines[end][:1].replace("\r", "") or " "
        if mark not in " +-\\":
            return None
        old -= mark in " -"
        new -= mark in " +"
        end += 1
    if end < len(lines) and lines[end].startswith(_NO_NEWLINE):
        end += 1
    after = end
    while after < len(lines) and not lines[after].strip():
        after += 1
    return end if old == new == 0 and _ends_hunk(lines, after) else None


def _file(section: _Section, lines: list[str]) -> FilePatch:
    old, new = _paths(section, lines)
    added, deleted = section.added or section.old == _NOTHING, section.deleted or section.new == _NOTHING
    hunks = tuple(section.hunks)
    if added:
        if any(hunk.old for hunk in hunks) or len(hunks) > 1:
            raise malformed(section.number + 1, lines[section.number], f"{new!r} is new, but has old lines.")
        body = hunks[0].new if hunks else []
        content = "\n".join(body) + ("\n" if body and hunks[0].final_newline is not False else "")
        return FilePatch(Action.ADD, new, content=content, executable=section.executable)
    if deleted:
        if any(hunk.new for hunk in hunks):
            raise malformed(section.number + 1, lines[section.number], f"{old!r} is deleted, but has new lines.")
        return FilePatch(Action.DELETE, old, hunks=hunks)
    if not hunks and old == new and section.executable is None:
        raise malformed(section.number + 1, lines[section.number], "nothing follows that changes the file.")
    move_to = new if old != new and section.rename_to is not None else None
    path = old if move_to is not None else new
    return FilePatch(Action.UPDATE, path, move_to, hunks=hunks, executable=section.executable)


def _paths(section: _Section, lines: list[str]) -> tuple[str, str]:
    """The old and the new path, without git's `a/` and `b/`."""
    if section.rename_from is not None and section.rename_to is not None:
        return section.rename_from, section.rename_to
    old, new = section.old, section.new
    if old is None or new is None:  # a change of mode alone, or of an empty file: both names are the same
        half = len(section.names) // 2
        old, new = _name(section.names[:half]), _name(section.names[half + 1 :])
    if old == new == _NOTHING:
        raise malformed(section.number + 1, lines[section.number], "it names no file.")
    bare_old, bare_new = old.removeprefix("a/"), new.removeprefix("b/")
    has_prefixes = (bare_old != old or old == _NOTHING) and (bare_new != new or new == _NOTHING)
    if has_prefixes:
        old, new = bare_old, bare_new
    return (new if old == _NOTHING else old), (old if new == _NOTHING else new)
