"""Cases made from real files: of each a function, edited as models do it, well and badly.

What must come of a call is worked out here by plain string replacement of the one line that the edit is about.
"""

import ast
import bisect
import csv
import difflib
import fnmatch
import heapq
import queue
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType

import gadget_api.turn_states
import gadget_drone.disk.confined
import gadget_drone.service.uploads
import gadget_drone.turn.journal
import gadget_drone.workspace.workspace
from tests.tools.case import Case, edited, patched, several

SOURCES: tuple[ModuleType, ...] = (
    bisect,
    csv,
    difflib,
    fnmatch,
    heapq,
    queue,
    shlex,
    textwrap,
    gadget_api.turn_states,
    gadget_drone.service.uploads,
    gadget_drone.turn.journal,
    gadget_drone.disk.confined,
    gadget_drone.workspace.workspace,
)
MARK = "  # changed"
_MIN_LINES = 8
_WORD = re.compile(r"[A-Za-z]{4,}")


@dataclass(frozen=True)
class Sample:
    """A function in a file, and a line of it that is nowhere else."""

    name: str
    text: str
    start: int
    """Index of the function's first line."""
    block: list[str]
    """Its lines, with their endings."""
    target: int
    """Index in `block` of the line to change."""
    drifting: int
    """Index of a line that the edit does not change, with a word to misremember."""

    @property
    def old(self) -> str:
        return "".join(self.block)

    @property
    def line(self) -> str:
        return self.block[self.target].rstrip("\n")

    @property
    def new(self) -> str:
        return "".join(self.changed(self.block))

    @property
    def after(self) -> str:
        return self.text.replace(self.line + "\n", self.line + MARK + "\n", 1)

    def changed(self, block: list[str]) -> list[str]:
        lines = list(block)
        lines[self.target] = lines[self.target].rstrip() + MARK + "\n"
        return lines


def samples() -> Iterator[Sample]:
    for module in SOURCES:
        assert module.__file__ is not None
        text = Path(module.__file__).read_text(encoding="utf-8")
        yield from islice(_samples(module.__name__.rpartition(".")[2], text), 1)


def _samples(name: str, text: str) -> Iterator[Sample]:
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
            continue
        block = lines[node.lineno - 1 : node.end_lineno]
        if len(block) < _MIN_LINES or any(_depth(line) % 4 for line in block) or lines.count(block[0]) > 1:
            continue
        once = [i for i, line in enumerate(block) if i >= 3 and line.strip() and text.count(line) == 1]
        inner = [i for i in range(2, len(block) - 1) if _WORD.search(block[i]) and len(block[i].strip()) > 12]
        pairs = [(i, j) for i in once for j in inner if i != j]
        if pairs and text.count("".join(block)) == 1:
            yield Sample(name, text, node.lineno - 1, block, *pairs[0])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" ")) if line.strip() else 0


def cases() -> Iterator[Case]:
    for sample in samples():
        yield from (*_edits(sample), *_refusals(sample), *_patches(sample))


def _edits(s: Sample) -> Iterator[Case]:
    def case(what: str, before: str | bytes, old: str, new: str, after: str | bytes) -> Case:
        return edited(f"{s.name}-{what}", before, old, new, after)

    yield case("exact", s.text, s.old, s.new, s.after)
    yield case("one line", s.text, s.line, s.line + MARK, s.after)
    yield case(
        "blanks at line ends of old", s.text, s.old.replace("\n", "  \n"), s.new.replace("\n", "  \n"), _trailing(s)
    )
    sloppy = s.old.replace("\n", " \t\n")
    before = s.text.replace(s.old, sloppy)
    line = s.line + " \t\n"
    yield case("blanks at line ends of the file", before, s.old, s.new, before.replace(line, s.line + MARK + "\n", 1))
    crlf, crlf_after = s.text.replace("\n", "\r\n"), s.after.replace("\n", "\r\n")
    yield case("CRLF", crlf, s.old, s.new, crlf_after)
    yield case("CRLF with blanks", crlf, s.old.replace("\n", " \n"), s.new.replace("\n", " \n"), _trailing(s, "\r\n"))
    yield case("BOM", "\ufeff" + s.text, s.old, s.new, "\ufeff" + s.after)
    yield case(
        "UTF-16", ("\ufeff" + crlf).encode("utf-16-le"), s.old, s.new, ("\ufeff" + crlf_after).encode("utf-16-le")
    )
    head = "".join(s.text.splitlines(keepends=True)[: s.start])
    yield case("missing final newline", head + s.old[:-1], s.old, s.new, (head + s.new)[:-1])
    tabs = "".join(map(_tabs, s.text.splitlines(keepends=True)))
    yield case(
        "blanks for tabs", tabs, s.old, s.new, tabs.replace(_tabs(s.line + "\n"), _tabs(s.line + MARK + "\n"), 1)
    )
    yield case("indented more", s.text, textwrap.indent(s.old, "    "), textwrap.indent(s.new, "    "), s.after)
    if _depth(s.block[0]):
        yield case("indented less", s.text, textwrap.dedent(s.old), textwrap.dedent(s.new), s.after)
    drifted = list(s.block)
    drifted[s.drifting] = _misremembered(drifted[s.drifting])
    yield case("a changed word in context", s.text, "".join(drifted), "".join(s.changed(drifted)), s.after)
    if '"' in s.old:
        curly = s.old.replace('"', "\u201d")
        new = "".join(s.changed(curly.splitlines(keepends=True)))
        after = s.text.replace(s.line + "\n", s.line.replace('"', "\u201d") + MARK + "\n", 1)
        yield case("curly quotes", s.text, curly, new, after)
    first = {"old_text": s.block[0], "new_text": s.block[0].rstrip() + MARK + "\n"}
    second = {"old_text": s.line, "new_text": s.line + MARK}
    both = s.after.replace(s.block[0], s.block[0].rstrip() + MARK + "\n", 1)
    yield several(f"{s.name}-two edits, the later first", s.text, [second, first], both)


def _refusals(s: Sample) -> Iterator[Case]:
    def case(what: str, before: str, old: str, new: str, says: str) -> Case:
        return edited(f"{s.name}-{what}", before, old, new, None, says)

    yield case("twice", s.text + "\n" + s.old, s.old, s.new, "2 times")
    yield case("twice but for blanks", s.text + "\n" + s.old, s.old.replace("\n", " \n"), s.new, "2 times")
    indented = s.text + "\n\nclass Other:\n" + textwrap.indent(s.old, "    " * 3)
    deep = "    " * 5
    old, new = textwrap.indent(s.old, deep), textwrap.indent(s.new, deep)
    yield case("twice but for indentation", indented, old, new, "2 times")
    yield case("missing", s.text, s.old[::-1].strip("\n"), s.new, "is not in")
    other = list(s.block)
    other[0] = re.sub(r"def (\w+)", r"def \1_other", other[0])
    assert other[0] != s.block[0]
    yield case("another function of the same body", s.text, "".join(other), "".join(s.changed(other)), "is not in")
    twins = s.text + "\n" + "".join(other).replace(s.line, s.line + "  # twin")
    third = list(s.block)
    third[0] = re.sub(r"def (\w+)", r"def \1_third", third[0])
    yield case("a third of two near duplicates", twins, "".join(third), "".join(s.changed(third)), "is not in")
    wrong = list(s.block)
    wrong[s.target] = _misremembered(wrong[s.target]) if _WORD.search(s.line) else "nothing of this kind\n"
    yield case("the line to change is not so", s.text, "".join(wrong), "".join(s.changed(wrong)), "is not in")
    overlapping = [
        {"old_text": s.old, "new_text": s.new},
        {"old_text": s.line, "new_text": s.line + "  # other"},
    ]
    yield several(f"{s.name}-overlapping", s.text, overlapping, None, "overlap")
    one_missing = [{"old_text": s.line, "new_text": s.line + MARK}, {"old_text": "no such\nlines", "new_text": "x"}]
    yield several(f"{s.name}-one of two is missing", s.text, one_missing, None, "of edit 2 is not in")


def _patches(s: Sample) -> Iterator[Case]:
    path = f"src/{s.name}.py"
    files = {path: s.text}
    after = {path: s.after}

    def diff(before: str = s.text) -> list[str]:
        old, new = before.splitlines(keepends=True), s.after.splitlines(keepends=True)
        return list(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))

    yield patched(f"{s.name}-unified", files, "".join(diff()), after)
    yield patched(f"{s.name}-git", files, f"diff --git a/{path} b/{path}\nindex 1..2 100644\n" + "".join(diff()), after)
    moved = re.sub(r"@@ -\d+,\d+ \+\d+,\d+ @@", "@@ -7,70 +8,70 @@", "".join(diff()))
    yield patched(f"{s.name}-unified with wrong numbers", files, moved, after)
    bare = re.sub(r"@@ .* @@", "@@", "".join(diff()))
    yield patched(f"{s.name}-unified without numbers", files, bare, after)
    crlf = {path: s.text.replace("\n", "\r\n")}
    yield patched(f"{s.name}-unified of CRLF", crlf, "".join(diff()), {path: s.after.replace("\n", "\r\n")})
    stale = "".join(diff()).replace("-" + s.line, "-" + s.line + " and more")
    yield patched(f"{s.name}-unified that does not fit", files, stale, None, "is not in the file")
    context = s.block[s.target - 2 : s.target]
    body = "".join(" " + line for line in context) + f"-{s.line}\n+{s.line}{MARK}\n"
    head = f"*** Begin Patch\n*** Update File: {path}\n"
    yield patched(f"{s.name}-begin patch", files, f"{head}@@ {s.block[0].strip()}\n{body}*** End Patch", after)
    yield patched(f"{s.name}-begin patch cut off", files, f"{head}@@\n{body}", None, "cut off")
    other = f"{head}@@ def no_such_function():\n{body}*** End Patch"
    yield patched(f"{s.name}-begin patch with a wrong anchor", files, other, None, "no such line")


def _trailing(s: Sample, ending: str = "\n") -> str:
    """The model wrote the changed line with two blanks (LF) or one (CRLF) behind it: that is what it asked for."""
    blanks = "  " if ending == "\n" else " "
    return s.text.replace(s.line + "\n", s.line + MARK + blanks + "\n", 1).replace("\n", ending)


def _tabs(line: str) -> str:
    depth = len(line) - len(line.lstrip(" "))
    return "\t" * (depth // 4) + " " * (depth % 4) + line.lstrip(" ")


def _misremembered(line: str) -> str:
    """`line` with the last letter of its longest word changed."""
    word = max(_WORD.findall(line), key=len)
    return line.replace(word, word[:-1] + ("x" if word[-1] != "x" else "y"), 1)
