"""Cases written by hand: patches of both formats, whole and broken."""

from collections.abc import Iterator

from tests.tools.case import Case, patched

_TEXT = "a\nb\nc\nd\ne\nf\ng\nh\ni\n"
_CLASSES = (
    "class A:\n    def run(self):\n        x = 1\n        return x\n\n\n"
    "class B:\n    def run(self):\n        x = 1\n        return x\n"
)


def begin(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def unified(*lines: str, old: str = "a/f", new: str = "b/f") -> str:
    return "\n".join((f"--- {old}", f"+++ {new}", *lines, ""))


def cases() -> Iterator[Case]:
    yield from (*_begin(), *_begin_places(), *_unified(), *_git(), *_broken(), *_several())


def _begin() -> Iterator[Case]:
    yield patched("bp: add", {}, begin("*** Add File: new/f.txt", "+one", "+", "+two"), {"new/f.txt": "one\n\ntwo\n"})
    yield patched("bp: add what is there", {"f": "a\n"}, begin("*** Add File: f", "+b"), None, "is there already")
    yield patched("bp: add nothing", {}, begin("*** Add File: f"), {"f": ""})
    yield patched("bp: delete", {"f": "a\n", "g": "b\n"}, begin("*** Delete File: f"), {"f": None})
    yield patched("bp: delete what is not there", {}, begin("*** Delete File: f"), None, "There is no 'f'")
    yield patched("bp: delete a binary", {"f": b"\0\1"}, begin("*** Delete File: f"), {"f": None})
    yield patched(
        "bp: update",
        {"f": _TEXT},
        begin("*** Update File: f", "@@", " b", "-c", "+C", " d"),
        {"f": _TEXT.replace("c", "C")},
    )
    yield patched(
        "bp: update without @@",
        {"f": _TEXT},
        begin("*** Update File: f", " b", "-c", "+C"),
        {"f": _TEXT.replace("c", "C")},
    )
    yield patched(
        "bp: two hunks",
        {"f": _TEXT},
        begin("*** Update File: f", "@@", "-b", "+B", "@@", "-h", "+H"),
        {"f": "a\nB\nc\nd\ne\nf\ng\nH\ni\n"},
    )
    yield patched(
        "bp: hunks out of order",
        {"f": _TEXT},
        begin("*** Update File: f", "@@", "-h", "+H", "@@", "-b", "+B"),
        None,
        "before the hunk above",
    )
    yield patched(
        "bp: move",
        {"f": "a\nb\n"},
        begin("*** Update File: f", "*** Move to: sub/g", "@@", "-a", "+A"),
        {"f": None, "sub/g": "A\nb\n"},
    )
    yield patched(
        "bp: move alone, binary",
        {"f": b"\0\1"},
        begin("*** Update File: f", "*** Move to: g"),
        {"f": None, "g": b"\0\1"},
    )
    yield patched(
        "bp: move onto another",
        {"f": "a\n", "g": "b\n"},
        begin("*** Update File: f", "*** Move to: g", "@@", "-a", "+A"),
        None,
        "is there already",
    )
    yield patched(
        "bp: move onto itself",
        {"f": "a\n"},
        begin("*** Update File: f", "*** Move to: ./f", "@@", "-a", "+A"),
        None,
        "onto itself",
    )
    yield patched(
        "bp: end of file",
        {"f": "x\na\nx\n"},
        begin("*** Update File: f", "@@", "-x", "+y", "*** End of File"),
        {"f": "x\na\ny\n"},
    )
    yield patched(
        "bp: end of file that is not",
        {"f": "x\na\n"},
        begin("*** Update File: f", "@@", "-x", "+y", "*** End of File"),
        None,
        "fits only at line 1",
    )
    yield patched(
        "bp: append", {"f": "a\n"}, begin("*** Update File: f", "@@", "+b", "*** End of File"), {"f": "a\nb\n"}
    )
    yield patched(
        "bp: append without a final newline",
        {"f": "a"},
        begin("*** Update File: f", "@@", "+b", "*** End of File"),
        {"f": "a\nb"},
    )
    yield patched("bp: append to an empty file", {"f": ""}, begin("*** Update File: f", "@@", "+b"), {"f": "b\n"})
    yield patched(
        "bp: nowhere to add", {"f": "a\nb\n"}, begin("*** Update File: f", "@@", "+c"), None, "says not where"
    )
    yield patched(
        "bp: CRLF", {"f": "a\r\nb\r\n"}, begin("*** Update File: f", " a", "-b", "+c", "+d"), {"f": "a\r\nc\r\nd\r\n"}
    )
    yield patched(
        "bp: patch in CRLF",
        {"f": "a\nb\n"},
        begin("*** Update File: f", " a", "-b", "+c").replace("\n", "\r\n"),
        {"f": "a\nc\n"},
    )
    yield patched(
        "bp: missing final newline stays so",
        {"f": "a\nb"},
        begin("*** Update File: f", " a", "-b", "+c"),
        {"f": "a\nc"},
    )
    yield patched("bp: BOM", {"f": "\ufeffa\nb\n"}, begin("*** Update File: f", "-a", "+c"), {"f": "\ufeffc\nb\n"})
    yield patched(
        "bp: in a fence", {"f": "a\n"}, "```\n" + begin("*** Update File: f", "-a", "+b") + "\n```", {"f": "b\n"}
    )
    yield patched(
        "bp: context keeps its blanks",
        {"f": "a  \n\tb\n"},
        begin("*** Update File: f", " a", "-    b", "+    c"),
        {"f": "a  \n\tc\n"},
    )
    yield patched(
        "bp: empty context line",
        {"f": "a\n\nb\n"},
        begin("*** Update File: f", " a", "", "-b", "+c"),
        {"f": "a\n\nc\n"},
    )
    yield patched(
        "bp: blank line between hunks",
        {"f": _TEXT},
        begin("*** Update File: f", "@@", "-b", "+B", "", "@@", "-h", "+H"),
        {"f": "a\nB\nc\nd\ne\nf\ng\nH\ni\n"},
    )
    yield patched(
        "bp: line that begins like a heading",
        {"f": "*** x\n"},
        begin("*** Update File: f", "-*** x", "+*** y"),
        {"f": "*** y\n"},
    )


def _begin_places() -> Iterator[Case]:
    change = ("-        return x", "+        return y")
    second = _CLASSES[: _CLASSES.index("class B")] + _CLASSES[_CLASSES.index("class B") :].replace(
        "return x", "return y"
    )
    first = _CLASSES.replace("return x", "return y", 1)
    yield patched(
        "bp: in two places",
        {"f": _CLASSES},
        begin("*** Update File: f", "@@", *change),
        None,
        "fits in 2 places, at lines 4, 10",
    )
    yield patched(
        "bp: below the second class",
        {"f": _CLASSES},
        begin("*** Update File: f", "@@ class B:", *change),
        {"f": second},
    )
    yield patched(
        "bp: below the first class", {"f": _CLASSES}, begin("*** Update File: f", "@@ class A:", *change), {"f": first}
    )
    yield patched(
        "bp: anchors in anchors",
        {"f": _CLASSES},
        begin("*** Update File: f", "@@ class B:", "@@     def run(self):", *change),
        {"f": second},
    )
    yield patched(
        "bp: an anchor's beginning", {"f": _CLASSES}, begin("*** Update File: f", "@@ class B", *change), {"f": second}
    )
    yield patched(
        "bp: an anchor that is twice",
        {"f": _CLASSES},
        begin("*** Update File: f", "@@ def run(self):", *change),
        None,
        "fits in 2 places",
    )
    lacking = _CLASSES.replace("return x", "return 0", 1)
    yield patched(
        "bp: not in the block of its anchor",
        {"f": lacking},
        begin("*** Update File: f", "@@ class A:", *change),
        None,
        "not where the patch says",
    )
    braces = "void a()\n{\n    x();\n}\nvoid b()\n{\n    x();\n}\n"
    yield patched(
        "bp: braces below the anchor",
        {"f": braces},
        begin("*** Update File: f", "@@ void a()", "-    x();", "+    y();"),
        {"f": braces.replace("x", "y", 1)},
    )
    yield patched(
        "bp: anchor repeated as context",
        {"f": _CLASSES},
        begin(
            "*** Update File: f", "@@ class B:", " class B:", "     def run(self):", "-        x = 1", "+        x = 2"
        ),
        {"f": _CLASSES[:-30] + _CLASSES[-30:].replace("x = 1", "x = 2")},
    )
    yield patched(
        "bp: order decides",
        {"f": _CLASSES},
        begin("*** Update File: f", "@@", "-class B:", "+class C:", "@@", *change),
        {"f": second.replace("class B", "class C")},
    )


def _unified() -> Iterator[Case]:
    after = _TEXT.replace("c", "C")
    yield patched(
        "ud: plain", {"f": _TEXT}, unified("@@ -2,3 +2,3 @@", " b", "-c", "+C", " d", old="f", new="f"), {"f": after}
    )
    yield patched(
        "ud: times in the header",
        {"f": _TEXT},
        unified("@@ -2,3 +2,3 @@", " b", "-c", "+C", " d", old="f\t2026-01-01 00:00:00", new="f\t2026-01-02"),
        {"f": after},
    )
    yield patched(
        "ud: section heading",
        {"f": _TEXT},
        unified("@@ -2,3 +2,3 @@ def nothing():", " b", "-c", "+C", " d"),
        {"f": after},
    )
    yield patched("ud: add", {}, unified("@@ -0,0 +1,2 @@", "+one", "+two", old="/dev/null"), {"f": "one\ntwo\n"})
    yield patched(
        "ud: add without a final newline",
        {},
        unified("@@ -0,0 +1 @@", "+one", "\\ No newline at end of file", old="/dev/null"),
        {"f": "one"},
    )
    yield patched("ud: delete", {"f": "a\nb\n"}, unified("@@ -1,2 +0,0 @@", "-a", "-b", new="/dev/null"), {"f": None})
    yield patched(
        "ud: delete less than there is",
        {"f": "a\nb\nc\n"},
        unified("@@ -1,2 +0,0 @@", "-a", "-b", new="/dev/null"),
        None,
        "has more in it",
    )
    yield patched(
        "ud: final newline given",
        {"f": "a\nb"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "\\ No newline at end of file", "+b"),
        {"f": "a\nb\n"},
    )
    yield patched(
        "ud: final newline taken",
        {"f": "a\nb\n"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "+b", "\\ No newline at end of file"),
        {"f": "a\nb"},
    )
    yield patched(
        "ud: without a final newline",
        {"f": "a\nb"},
        unified("@@ -1,2 +1,2 @@", "-a", "+A", " b", "\\ No newline at end of file"),
        {"f": "A\nb"},
    )
    yield patched(
        "ud: the number decides between equals",
        {"f": "x\n=\nx\n=\nx\n"},
        unified("@@ -3 +3 @@", "-x", "+y"),
        {"f": "x\n=\ny\n=\nx\n"},
    )
    yield patched(
        "ud: the number fits none of them",
        {"f": "x\n=\nx\n=\nx\n"},
        unified("@@ -2 +2 @@", "-x", "+y"),
        None,
        "fits in 3 places",
    )
    yield patched(
        "ud: no number for equals", {"f": "x\n=\nx\n"}, unified("@@ @@", "-x", "+y"), None, "fits in 2 places"
    )
    yield patched(
        "ud: removed line like a header",
        {"f": "-- a/x\n++ b/x\nc\n"},
        unified("@@ -1,3 +1,3 @@", "--- a/x", "+++ b/y", " ++ b/x", " c"),
        {"f": "++ b/y\n++ b/x\nc\n"},
    )
    yield patched(
        "ud: empty context without its blank",
        {"f": "a\n\nb\n"},
        unified("@@ -1,3 +1,3 @@", " a", "", "-b", "+c"),
        {"f": "a\n\nc\n"},
    )
    yield patched(
        "ud: line numbers off",
        {"f": "0\n" * 30 + _TEXT},
        unified("@@ -2,3 +2,3 @@", " b", "-c", "+C", " d"),
        {"f": "0\n" * 30 + after},
    )
    yield patched(
        "ud: counts off",
        {"f": _TEXT},
        unified("@@ -2,9 +2,1 @@", " b", "-c", "+C", " d", "@@ -7 +7 @@", "-g", "+G"),
        {"f": after.replace("g", "G")},
    )
    yield patched("ud: insertion without context", {"f": _TEXT}, unified("@@ -2,0 +3 @@", "+x"), None, "says not where")
    yield patched(
        "ud: words before it",
        {"f": _TEXT},
        "Here is the patch:\n\n" + unified("@@ -2,3 +2,3 @@", " b", "-c", "+C", " d"),
        {"f": after},
    )
    yield patched(
        "ud: a folder called a",
        {"a/f": "x\n"},
        unified("@@ -1 +1 @@", "-x", "+y", old="a/f", new="a/f"),
        {"a/f": "y\n"},
    )


def _git() -> Iterator[Case]:
    rename = "diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n"
    yield patched("git: rename", {"f": "a\nb\n"}, rename, {"f": None, "g": "a\nb\n"})
    yield patched(
        "git: rename and change",
        {"f": "a\nb\n"},
        rename + unified("@@ -1,2 +1,2 @@", "-a", "+A", " b", new="b/g"),
        {"f": None, "g": "A\nb\n"},
    )
    yield patched(
        "git: new file",
        {},
        "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n"
        + unified("@@ -0,0 +1 @@", "+x", old="/dev/null", new="b/n"),
        {"n": "x\n"},
    )
    yield patched("git: new empty file", {}, "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n", {"n": ""})
    yield patched(
        "git: deleted file",
        {"f": "x\n"},
        "diff --git a/f b/f\ndeleted file mode 100644\n" + unified("@@ -1 +0,0 @@", "-x", new="/dev/null"),
        {"f": None},
    )
    yield patched(
        "git: quoted name",
        {"\u00e4 b": "x\n"},
        unified("@@ -1 +1 @@", "-x", "+y", old='"a/\\303\\244 b"', new='"b/\\303\\244 b"'),
        {"\u00e4 b": "y\n"},
    )
    yield patched(
        "git: binary",
        {"f": b"\0"},
        "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n",
        None,
        "only text",
    )
    yield patched(
        "git: binary files differ",
        {"f": b"\0"},
        "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
        None,
        "only text",
    )
    yield patched(
        "git: a symlink",
        {},
        "diff --git a/n b/n\nnew file mode 120000\n" + unified("@@ -0,0 +1 @@", "+/etc", old="/dev/null", new="b/n"),
        None,
        "only text",
    )
    yield patched("git: a submodule", {}, "diff --git a/n b/n\nnew file mode 160000\n", None, "only text")
    yield patched("git: copy", {"f": "a\n"}, "diff --git a/f b/g\ncopy from f\ncopy to g\n", None, "only text")
    yield patched(
        "git: into .git",
        {},
        unified("@@ -0,0 +1 @@", "+x", old="/dev/null", new="b/.git/hooks/post-commit"),
        None,
        "may not change",
    )
    yield patched(
        "git: out of the project",
        {},
        unified("@@ -0,0 +1 @@", "+x", old="/dev/null", new="b/../../x"),
        None,
        "leads out",
    )


def _broken() -> Iterator[Case]:
    files = {"f": _TEXT}
    yield patched("broken: nothing", files, "\n", None, "no patch")
    yield patched("broken: prose", files, "Please change c to C.", None, "no patch")
    yield patched("broken: no end", files, "*** Begin Patch\n*** Update File: f\n-c\n+C", None, "cut off")
    yield patched("broken: an empty one", files, begin(), None, "names no file")
    yield patched("broken: no heading", files, begin("-c", "+C"), None, "its line 2")
    yield patched("broken: an unknown heading", files, begin("*** Replace File: f", "+C"), None, "its line 2")
    yield patched(
        "broken: a heading within",
        files,
        begin("*** Update File: f", "-c", "*** Rename to: g"),
        None,
        "no such heading",
    )
    yield patched(
        "broken: context without a blank",
        files,
        begin("*** Update File: f", "b", "-c", "+C"),
        None,
        "begins with a blank",
    )
    yield patched("broken: added lines without +", files, begin("*** Add File: g", "one"), None, "begins with +")
    yield patched("broken: only context", files, begin("*** Update File: f", " b", " c"), None, "changes nothing")
    yield patched("broken: nothing to update", files, begin("*** Update File: f"), None, "nothing follows")
    yield patched(
        "broken: the change is none", files, begin("*** Update File: f", " b", "-c", "+c"), None, "changes nothing in"
    )
    yield patched("broken: hunk without a file", files, "@@ -1 +1 @@\n-a\n+b\n", None, "no '--- ' and '+++ '")
    yield patched("broken: header alone", files, "--- a/f\n+++ b/f\n", None, "nothing follows")
    yield patched(
        "broken: a line of prose in a hunk",
        files,
        unified("@@ -2,3 +2,3 @@", " b", "and then", "-c", "+C"),
        None,
        "its line 5",
    )
    yield patched(
        "broken: nothing to nothing",
        files,
        unified("@@ -1 +1 @@", "-a", "+b", old="/dev/null", new="/dev/null"),
        None,
        "names no file",
    )
    yield patched(
        "broken: new with old lines",
        files,
        unified("@@ -1 +1 @@", "-a", "+b", old="/dev/null", new="b/g"),
        None,
        "has old lines",
    )
    yield patched("broken: already applied", files, begin("*** Update File: f", " a", "-x", "+b"), None, "done already")
    yield patched("broken: no such file", files, begin("*** Update File: g", "-c", "+C"), None, "There is no 'g'")
    yield patched("broken: a directory", {"d/f": "a\n"}, begin("*** Delete File: d"), None, "is a directory")


def _several() -> Iterator[Case]:
    files = {"f": "a\n", "g": "b\n", "h": "c\n"}
    good = ("*** Update File: f", "-a", "+A")
    yield patched(
        "several: all",
        files,
        begin(*good, "*** Delete File: g", "*** Add File: n", "+n", "*** Update File: h", "*** Move to: m"),
        {"f": "A\n", "g": None, "n": "n\n", "h": None, "m": "c\n"},
    )
    yield patched(
        "several: the last does not fit",
        files,
        begin(*good, "*** Delete File: g", "*** Add File: n", "+n", "*** Update File: h", "-x", "+y"),
        None,
        "'h', is not in the file",
    )
    yield patched(
        "several: the last is forbidden", files, begin(*good, "*** Add File: .gadget/x", "+n"), None, "may not change"
    )
    yield patched(
        "several: one file twice",
        {"f": _TEXT},
        begin("*** Update File: f", "-b", "+B", "*** Update File: ./f", " B", "-c", "+C"),
        {"f": "a\nB\nC\nd\ne\nf\ng\nh\ni\n"},
    )
    yield patched(
        "several: deleted and added", files, begin("*** Delete File: f", "*** Add File: f", "+new"), {"f": "new\n"}
    )
    yield patched(
        "several: moved and added",
        files,
        begin("*** Update File: f", "*** Move to: k", "*** Add File: f", "+new"),
        {"f": "new\n", "k": "a\n"},
    )
    yield patched(
        "several: added and changed",
        files,
        begin("*** Add File: n", "+x", "+y", "*** Update File: n", "-y", "+z"),
        {"n": "x\nz\n"},
    )
    yield patched(
        "several: moved onto what was deleted",
        files,
        begin("*** Delete File: g", "*** Update File: f", "*** Move to: g"),
        {"f": None, "g": "a\n"},
    )
    yield patched(
        "several: unified",
        files,
        unified("@@ -1 +1 @@", "-a", "+A") + unified("@@ -1 +1 @@", "-b", "+B", old="a/g", new="b/g"),
        {"f": "A\n", "g": "B\n"},
    )
