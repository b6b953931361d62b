"""Cases written by hand: edits in small texts, each about one thing."""

from collections.abc import Iterator
from functools import cache

from tests.tools.case import Case, edited, several

_TWO = "def one():\n    x = 1\n    return x\n\n\ndef two():\n    x = 2\n    return x\n"
_TABBED = "class A:\n\tdef f(self):\n\t\tif self.x:\n\t\t\treturn 1\n\t\treturn 2\n"
_TABLE = '{\n  "name": "alpha",\n  "port": 1,\n  "host": "a.example"\n}\n'


@cache
def _huge() -> bytes:
    """10 MB."""
    return b"".join(b"line %07d of a large file, which has some text in it\n" % n for n in range(190_000))


def cases() -> Iterator[Case]:
    yield from (*_blanks(), *_endings(), *_unicode(), *_encodings(), *_ambiguous(), *_drift(), *_many(), *_large())


def _blanks() -> Iterator[Case]:
    yield edited(
        "tabs: old with four blanks", _TABBED, "        return 2\n", "        return 3\n", _TABBED.replace("2", "3")
    )
    yield edited(
        "tabs: new lines are deeper",
        _TABBED,
        "    def f(self):\n        if self.x:",
        "    def f(self):\n        while True:\n            pass\n        if self.x:",
        _TABBED.replace("\t\tif", "\t\twhile True:\n\t\t\tpass\n\t\tif"),
    )
    yield edited(
        "tabs: old without any",
        _TABBED,
        "if self.x:\n\treturn 1\nreturn 2",
        "return 3",
        _TABBED.partition("\t\tif")[0] + "\t\treturn 3\n",
    )
    yield edited(
        "blanks for which old has tabs", "a:\n    b\n    c\n", "\tb\n\tc\n", "\tb\n\td\n", "a:\n    b\n    d\n"
    )
    yield edited(
        "two blanks for which old has tabs", "a:\n  b:\n    c\n", "\tb:\n\t\tc\n", "\tb:\n\t\td\n", "a:\n  b:\n    d\n"
    )
    yield edited(
        "another structure is no match",
        "if a:\n    b()\n    c()\n",
        "if a:\n    b()\nc()\n",
        "d()\n",
        None,
        "only whitespace differs",
    )
    yield edited(
        "dedented below what there is", "    a\n    b\n", "        a\n        b\n", "        a\nc\n", None, "is not in"
    )
    yield edited("blank lines may hold blanks", "a\n  \t\nb\n", "a\n\nb\n", "a\n\nc\n", "a\n  \t\nc\n")
    yield edited("untouched lines keep their blanks", "a  \nb \nc\n", "a\nb\nc\n", "a\nB\nc\n", "a  \nB\nc\n")
    yield edited("blank lines alone are no place", "a\n \nb\n", "\n\n\n", "x\n", None, "is not in")
    yield edited("within a line blanks count", "f(a, b)\n", "f(a,b)\n", "g(a,b)\n", None, "is not in")
    yield edited(
        "insertion by a tolerant match",
        "\tx = 1\n\ty = 2\n",
        "x = 1\ny = 2",
        "x = 1\nz = 3\ny = 2",
        "\tx = 1\n\tz = 3\n\ty = 2\n",
    )
    yield edited("deletion by a tolerant match", "\tx = 1\n\ty = 2\nz\n", "x = 1\ny = 2\n", "", "z\n")
    yield edited(
        "a part of a line", "value = compute(one, two)\n", "one, two", "two, one", "value = compute(two, one)\n"
    )
    yield edited("a form feed", "a\n\x0c\nb\n", "a\n\nb\n", "a\n\nc\n", "a\n\x0c\nc\n")
    yield edited("a vertical tab ends no line", "a\x0bb\nc\n", "a\x0bb\n", "x\n", "x\nc\n")
    yield edited("old with a line number in front", "alpha\nbeta\n", "1\talpha\n", "1\tgamma\n", None, "is not in")


def _endings() -> Iterator[Case]:
    yield edited(
        "mixed: each kept line keeps its own", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nb\nC\nd\n", "a\r\nb\nC\r\nd\n"
    )
    yield edited("mixed: a new line takes the frequent", "a\r\nb\r\nc\n", "b\nc\n", "b\nx\nc\n", "a\r\nb\r\nx\r\nc\n")
    yield edited("mixed: endings tell no places apart", "a\r\nb\nx\na\nb\n", "a\nb\n", "c\n", None, "2 times")
    yield edited("CRLF without the last", "a\r\nb", "b", "c\nd", "a\r\nc\r\nd")
    yield edited("CRLF: old with CRLF", "a\r\nb\r\n", "a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n")
    yield edited("LF: new with CRLF", "a\nb\n", "b\n", "c\r\nd\r\n", "a\nc\nd\n")
    yield edited("old Mac", "a\rb\rc\r", "b\n", "x\ny\n", "a\rx\ry\rc\r")
    yield edited("a return within a line of LF", "a\rb\nc\n", "c", "d", "a\rb\nd\n")
    yield edited("a return is no line ending in LF", "a\nb\n", "a\rb", "x", None, "is not in")
    yield edited("missing final newline, line replaced", "a\nb", "b\n", "c\n", "a\nc")
    yield edited("missing final newline, lines appended", "a\nb", "b", "b\nc", "a\nb\nc")
    yield edited("missing final newline, tolerant", "a\n\tb", "a\n    b\n", "a\n    c\n", "a\n\tc")
    yield edited(
        "missing final newline, tolerant, appended", "a\n\tb", "a\n    b\n", "a\n    b\n    c\n", "a\n\tb\n\tc"
    )
    yield edited("missing final newline is given", "a\nb", "b", "b\n", "a\nb\n")
    yield edited(
        "CRLF, tolerant",
        "\tif a:\r\n\t\tb\r\n",
        "if a:\n    b\n",
        "if a:\n    c\n    d\n",
        "\tif a:\r\n\t\tc\r\n\t\td\r\n",
    )


def _unicode() -> Iterator[Case]:
    yield edited(
        "NFD in the file",
        "cafe\u0301 = 1\nb = 2\n",
        "caf\u00e9 = 1\nb = 2\n",
        "caf\u00e9 = 1\nb = 3\n",
        "cafe\u0301 = 1\nb = 3\n",
    )
    yield edited(
        "NFC in the file",
        "caf\u00e9 = 1\nb = 2\n",
        "cafe\u0301 = 1\nb = 2\n",
        "cafe\u0301 = 1\nb = 3\n",
        "caf\u00e9 = 1\nb = 3\n",
    )
    yield edited("NFC and NFD are two places", "caf\u00e9\nx\ncafe\u0301\n", "caf\u00e9", "tea", "tea\nx\ncafe\u0301\n")
    yield edited(
        "emoji",
        "a = '\U0001f600'\nb = '\U0001f468\u200d\U0001f469\u200d\U0001f467'\n",
        "b = '\U0001f468\u200d\U0001f469\u200d\U0001f467'",
        "b = '\U0001f600'",
        "a = '\U0001f600'\nb = '\U0001f600'\n",
    )
    yield edited(
        "emoji on both sides stay",
        "\U0001f600a\U0001f600\r\n\U0001f601",
        "a",
        "b",
        "\U0001f600b\U0001f600\r\n\U0001f601",
    )
    yield edited(
        "right to left",
        "\u05e9\u05dc\u05d5\u05dd = 1\n\u0645\u0631\u062d\u0628\u0627 = 2\n",
        "\u0645\u0631\u062d\u0628\u0627 = 2",
        "\u0645\u0631\u062d\u0628\u0627 = 3",
        "\u05e9\u05dc\u05d5\u05dd = 1\n\u0645\u0631\u062d\u0628\u0627 = 3\n",
    )
    yield edited("a right-to-left mark counts", "a\u200f = 1\n", "a = 1\n", "a = 2\n", None, "is not in")
    yield edited("no-break space in the file", "a\u00a0= 1\nb\n", "a = 1\nb\n", "a = 1\nc\n", "a\u00a0= 1\nc\n")
    yield edited("a dash that looks alike", "x \u2013 y\nb\n", "x - y\nb\n", "x - y\nc\n", "x \u2013 y\nc\n")
    yield edited("look-alikes in two places", "x \u2013 y\nb\nx \u2014 y\n", "x - y\n", "z\n", None, "2 times")
    yield edited("cyrillic a is no latin a", "\u0430 = 1\n", "a = 1\n", "b = 1\n", None, "is not in")
    yield edited("line separators end no line", "a\u2028b\nc\u0085d\n", "c\u0085d\n", "e\n", "a\u2028b\ne\n")
    yield edited("half a surrogate pair", "a\n", "a", "\ud800", None)


def _encodings() -> Iterator[Case]:
    latin = "gr\u00fc\u00dfe = 'h\u00e9las'\nb = 1\n".encode("latin-1")
    yield edited("Latin-1", latin, "b = 1", "b = 2", latin.replace(b"1", b"2"))
    yield edited(
        "Latin-1, its own letters", latin, "'h\u00e9las'", "'d\u00e9j\u00e0'", latin.replace(b"h\xe9las", b"d\xe9j\xe0")
    )
    yield edited("Latin-1 has no snowman", latin, "b = 1", "b = '\u2603'", None, "cannot hold")
    yield edited("Windows-1252", b"it\x92s \x80 5\nb\n", "b\n", "\u201cb\u201d\n", b"it\x92s \x80 5\n\x93b\x94\n")
    for name, text in (
        ("koi8-r", "\u043f\u0440\u0438\u0432\u0435\u0442"),
        ("shift-jis", "\u65e5\u672c\u30c6\u30b9\u30c8"),
        ("gbk", "\u4e2d\u6587"),
        ("euc-kr", "\ud55c\uad6d\uc5b4"),
        ("iso8859-7", "\u03b3\u03b5\u03b9\u03b1"),
    ):
        yield edited(f"{name} cannot be told", f"# {text}\nb = 1\n".encode(name), "b = 1", "b = 2", None, "not UTF-8")
    yield edited("UTF-8 with a broken byte", "caf\u00e9 \u2603\n".encode() + b"\xe9\nb\n", "b", "c", None, "not UTF-8")
    yield edited("UTF-8 cut off", "caf\u00e9".encode()[:-1], "caf", "x", None, "not UTF-8")
    yield edited("binary", b"a\0b\n", "a", "c", None, "binary")
    yield edited("UTF-16 without a mark", "ab\n".encode("utf-16-le"), "a", "c", None, "binary")
    yield edited(
        "UTF-16, big end first",
        "\ufeffa\nb\n".encode("utf-16-be"),
        "b",
        "\U0001f600",
        "\ufeffa\n\U0001f600\n".encode("utf-16-be"),
    )
    yield edited("UTF-16 cut off", "\ufeffab".encode("utf-16-le")[:-1], "a", "c", None, "binary")
    yield edited("a BOM and old with one", "\ufeffa\nb\n", "\ufeffa\n", "c\n", "\ufeffc\nb\n")
    yield edited("a BOM in the middle stays", "a\n\ufeffb\nc\n", "c", "d", "a\n\ufeffb\nd\n")
    yield edited("an empty file", "", "a", "b", None, "is not in")


def _ambiguous() -> Iterator[Case]:
    yield edited("twice in a line", "a = a\n", "a", "b", None, "2 times, at lines 1, 1")
    yield edited("overlapping itself", "ababa\n", "aba", "x", None, "2 times")
    yield edited("overlapping itself, lines", "x\nx\nx\n", "x\nx\n", "y\n", None, "2 times")
    yield edited("the same but for blanks", _TWO, "    return x  \n", "    return y\n", None, "2 times")
    yield edited(
        "enough lines around it",
        _TWO,
        "    x = 2\n    return x\n",
        "    return 2\n",
        _TWO.replace("    x = 2\n    return x", "    return 2"),
    )
    yield several(
        "everywhere",
        _TWO,
        [{"old_text": "return x", "new_text": "return y", "replace_all": True}],
        _TWO.replace("return x", "return y"),
    )
    yield several(
        "everywhere, side by side", "aaaa\n", [{"old_text": "aa", "new_text": "b", "replace_all": True}], "bb\n"
    )
    yield several(
        "everywhere, tolerant",
        "\tx = 1\n\ty\n\tx = 1\n",
        [{"old_text": "x = 1  \n", "new_text": "x = 2\n", "replace_all": True}],
        "\tx = 2\n\ty\n\tx = 2\n",
    )
    yield several(
        "everywhere, nowhere", "a\n", [{"old_text": "b", "new_text": "c", "replace_all": True}], None, "is not in"
    )
    yield edited("the file has what is wanted", "a = 2\n", "a = 1\n", "a = 2\n", None, "done already")
    yield edited("no change", "a\n", "a", "a", None, "the same")
    yield edited("no change but for the ending", "a\r\nb\r\n", "a\r\nb", "a\nb", None, "changes nothing")


def _drift() -> Iterator[Case]:
    text = "def total(rows):\n    # adds up all of the rows\n    result = sum(row.price for row in rows)\n"
    text += "    return result\n"
    old = text.replace("adds up all", "adds all")
    yield edited(
        "a word is missing in a comment",
        text,
        old,
        old.replace("return result", "return result + 1"),
        text.replace("return result", "return result + 1"),
    )
    yield edited("the drifted line is to change", text, old, old.replace("# adds", "# sums"), None, "is not in")
    yield edited(
        "the drifted line is to go", text, old, old.replace("    # adds all of the rows\n", ""), None, "is not in"
    )
    yield edited(
        "lines are put beside the drifted one",
        text,
        old,
        old.replace("rows\n    result", "rows\n    print()\n    result"),
        None,
        "is not in",
    )
    yield edited(
        "the first line drifts",
        text,
        text.replace("total", "totals"),
        text.replace("total", "totals").replace("return result", "return 1"),
        None,
        "is not in",
    )
    yield edited(
        "the last line drifts",
        text,
        text.replace("return result", "return results"),
        text.replace("return result", "return results").replace("# adds", "# sums"),
        None,
        "is not in",
    )
    yield edited(
        "too much drifts",
        text,
        old.replace("price", "cost").replace("row.", "r."),
        "def total(rows):\n    return 0\n",
        None,
        "is not in",
    )
    numbered = text.replace("all of the rows", "version 1 of the rows")
    yield edited(
        "numbers tell things apart",
        numbered,
        numbered.replace("version 1", "version 2"),
        numbered.replace("version 1", "version 2").replace("return result", "return 1"),
        None,
        "is not in",
    )
    other = '{\n  "name": "beta",\n  "port": 1,\n  "host": "a.example"\n}\n'
    yield edited(
        "a record that is another's", _TABLE, other, other.replace("a.example", "b.example"), None, "is not in"
    )
    twice = text + "\n\n" + text.replace("def total", "def other").replace("rows\n    result", "items\n    result")
    drifted = text.replace("adds up all of the rows", "adds up all of the things")
    yield edited(
        "two places are like it, its first line says which",
        twice,
        drifted,
        drifted.replace("return result", "return 1"),
        None,
        "is not in",
    )
    first, last = "begin()\n", "end()\n"
    between = "".join(f"    step_{c}(alpha, beta)\n" for c in "abcdef")
    yield edited(
        "anchors alone are not enough",
        first + between + last,
        first + "    other(gamma)\n" * 6 + last,
        "x\n",
        None,
        "is not in",
    )
    yield edited(
        "a line more in the file",
        "a = 1\nextra()\nb = 2\nc = 3\n",
        "a = 1\nb = 2\nc = 3\n",
        "a = 1\nb = 2\nc = 4\n",
        None,
        "is not in",
    )
    yield edited(
        "a line less in the file", "a = 1\nc = 3\n", "a = 1\nb = 2\nc = 3\n", "a = 1\nb = 2\nc = 4\n", None, "is not in"
    )
    yield several(
        "everywhere does not drift",
        text,
        [{"old_text": old, "new_text": "x\n", "replace_all": True}],
        None,
        "is not in",
    )


def _many() -> Iterator[Case]:
    def pair(old: str, new: str) -> dict[str, str]:
        return {"old_text": old, "new_text": new}

    yield several("three, in any order", "a\nb\nc\n", [pair("c", "C"), pair("a", "A"), pair("b", "B")], "A\nB\nC\n")
    yield several("swapped", "one two\n", [pair("one", "two"), pair("two", "one")], "two one\n")
    yield several("one puts what another seeks", "a\n", [pair("a", "b"), pair("b", "c")], None, "of edit 2 is not in")
    yield several("one touches another", "ab\n", [pair("a", "A"), pair("b", "B")], "AB\n")
    yield several("the same twice", "a\nb\n", [pair("a", "x"), pair("a", "y")], None, "overlap")
    yield several("overlap by a line", "a\nb\nc\n", [pair("a\nb", "x"), pair("b\nc", "y")], None, "overlap")
    yield several(
        "one is ambiguous", "a\nb\nb\n", [pair("a", "x"), pair("b", "y")], None, "of edit 2 is in 'f' 2 times"
    )
    yield several("an empty old", "a\n", [pair("", "x")], None, "at least 1 character")
    yield several("none at all", "a\n", [], None, "at least 1 item")
    yield several(
        "tolerant and exact",
        "\ta = 1\n\tb = 2\nc\n",
        [pair("a = 1\nb = 2", "a = 1\nb = 3"), pair("c", "d")],
        "\ta = 1\n\tb = 3\nd\n",
    )


def _large() -> Iterator[Case]:
    line = "line 0150000 of a large file, which has some text in it"
    yield edited("10 MB", _huge(), line, "changed", _huge().replace(line.encode(), b"changed"))
    crlf = _huge().replace(b"\n", b"\r\n")
    yield edited(
        "10 MB of CRLF, tolerant", crlf, f"  {line}  \n", "  changed\n", crlf.replace(line.encode(), b"changed")
    )
    yield edited(
        "10 MB, missing",
        _huge(),
        "line 0150000 of a small file\nand another line\nand one more",
        "x",
        None,
        "is not in",
    )
    yield edited("10 MB, ambiguous", _huge(), "which has some text in it", "x", None, "more than 1000 times")
    wide = b"x" * 5_000_000 + b"needle" + b"y" * 5_000_000
    yield edited("10 MB in one line", wide, "needle", "pin", wide.replace(b"needle", b"pin"))
    same = b"the same line\n" * 400_000
    yield edited("the same line 400,000 times", same, "the same line \n" * 200_000, "x\n", None, "more than 1000 times")
