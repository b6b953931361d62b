"""Whether a pattern of a rule fits a target, and whether it might where the target is not known before it runs.

Both take time in proportion to the product of the two lengths at most: patterns come from other people's repositories.
`wide` is for rules that deny or ask; it does not tell A from a, for there are file systems that do not.
"""

import os
import posixpath
import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache

ANY_OF = "(any of) "
"""Before a path: what follows is a pattern of a shell; which files it names is not known before it runs."""
UNKNOWN = "(unknown) "
"""Before a path that is not known before it runs."""
CHANGED_BY_GIT = f"{UNKNOWN}what git changes"
"""The files that come and go with a branch, a merge or a stash; the command that does it is judged for itself."""
LINKED = "(leads to) "
"""Before a command whose name is what the links of the written name lead to, which is judged besides."""
UNREADABLE = "$(unreadable) "
"""Before the text of a command of which it is not known what it runs. It begins with a dollar, as all that does."""

_Token = tuple[str, str]
"""`("c", character)`, `("[", what is between the brackets)`, `("?", "")` or `("*", "")`."""
_ELEMENT = r"(?:\[:\w+:\]|\\.|[^\\])"
_CLASS = re.compile(rf"\[([!^]?{_ELEMENT}(?:\[:\w+:\]|\\.|[^\]\\])*)\]", re.S)
_IN_CLASS = re.compile(rf"\[:(\w+):\]|({_ELEMENT})-({_ELEMENT})|({_ELEMENT})", re.S)
_KINDS: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha, "digit": str.isdigit, "alnum": str.isalnum, "upper": str.isupper, "lower": str.islower,
    "space": str.isspace, "blank": " \t".__contains__, "xdigit": string.hexdigits.__contains__,
    "punct": string.punctuation.__contains__, "cntrl": lambda char: not char.isprintable(), "print": str.isprintable,
    "graph": lambda char: char.isprintable() and char != " ",
}  # fmt: skip


def text_fits(pattern: str, target: str) -> bool:
    """`*` stands for any text, and `npm run *` fits `npm run`."""
    if pattern.endswith(" *") and "*" not in pattern[:-1] and target == pattern[:-2]:
        return True
    head, *rest = pattern.split("*")
    if not rest:
        return target == pattern
    if not target.startswith(head):
        return False
    at, tail = len(head), rest.pop()
    for piece in rest:
        found = target.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(target) - len(tail) >= at and target.endswith(tail)


def text_might_fit(pattern: str, known: str) -> bool:
    """Whether `pattern` fits some text that begins with `known`, or that is it: a variable may be empty."""
    head, star, _ = pattern.partition("*")
    return head.startswith(known) or (bool(star) and known.startswith(head)) or text_fits(pattern, known.rstrip(" "))


def normal_path(target: str) -> str:
    """`./a//../b` is `b`; the project is `.`; a `/` at the end, for all that is below, stays."""
    path = posixpath.normpath(target or ".")
    path = path[1:] if path.startswith("//") else path
    return f"{path.rstrip('/')}/" if target.endswith("/") else path


def is_outside(path: str) -> bool:
    """Whether a normal path leads out of the project."""
    return path.startswith("/") or path.split("/")[0] in ("..", "~")


def path_fits(pattern: str, path: str, *, wide: bool) -> bool:
    """Whether `pattern` fits a normal path, or a directory that it is in.

    As in .gitignore, but `//etc` is absolute, and `~/x` in the home; `!` and `#` are nothing special. Widely, `x/**`
    fits the directory `x`, too: who may rename it has all that is below.
    """
    return _paths_meet(pattern, path.rstrip("/") or "/", wide=wide, is_glob=False)


def path_might_fit(pattern: str, path: str, *, is_glob: bool) -> bool:
    """Whether `pattern` fits something that `path` stands for: as a pattern of a shell, or as all that is below it."""
    if pattern in ("*", "**", "/**"):
        return True
    return _paths_meet(pattern, path, wide=True, is_glob=is_glob)


def _paths_meet(pattern: str, path: str, *, wide: bool, is_glob: bool) -> bool:
    if wide:
        pattern, path = (unicodedata.normalize("NFC", text) for text in (pattern, path))
        if "[" in pattern and _names_of_paths_meet(pattern, path, wide=True, folds=False, is_glob=is_glob):
            return True  # [!A-Z] is about the letter case
        if "?" in pattern and not path.isascii():  # ß is one letter, and folded two
            one_by_one = (_folded_one_by_one(text) for text in (pattern, path))
            if _names_of_paths_meet(*one_by_one, wide=True, folds=False, is_glob=is_glob):
                return True
    return _names_of_paths_meet(pattern, path.casefold() if wide else path, wide=wide, folds=wide, is_glob=is_glob)


def _folded_one_by_one(text: str) -> str:
    return "".join(folded if len(folded := char.casefold()) == 1 else char for char in text)


def _names_of_paths_meet(pattern: str, path: str, *, wide: bool, folds: bool, is_glob: bool) -> bool:
    """`folds`: a letter of the pattern is one of `path`, which is folded, in any letter case."""
    wanted, is_anywhere, starts = _split(pattern)
    if wide and len(wanted) > 1 and wanted[-1] == "**":
        wanted = wanted[:-1]
    is_below = path.endswith("/") and path != "/"
    path = _spelled(path, starts, wide=wide)
    outside = is_outside(path)
    if outside and not (is_anywhere and wide) and not path.startswith(starts or "\0"):
        return False
    if not outside and starts:
        return False
    names = [name for name in path.removeprefix(starts).split("/") if name not in ("", ".")]
    if not names and not is_below:
        return wanted == ["**"]  # the project itself
    # States: how many of `wanted` are used up; all of them: the path so far fits, and what is below it with it.
    states = _closed({0}, wanted)
    for name in names:
        after: set[int] = set()
        for state in states:
            if state == len(wanted):
                return True
            if wanted[state] == "**":
                after.add(state + 1 if state == len(wanted) - 1 else state)
            elif _names_meet(wanted[state], name, folds=folds, is_glob=is_glob):
                after.add(state + 1)
        states = _closed(after, wanted)
        if not states:
            return False
    return len(wanted) in states or (is_below and bool(states))


def _spelled(path: str, starts: str, *, wide: bool) -> str:
    """A path in the home as the pattern spells it: `~/x`, or absolute."""
    home = os.path.expanduser("~").rstrip("/")
    home = home.casefold() if wide else home
    if starts == "/" and path.startswith("~/"):
        return home + path[1:]
    return f"~{path[len(home) :]}" if starts == "~/" and home and path.startswith(f"{home}/") else path


def _closed(states: set[int], wanted: list[str]) -> set[int]:
    """`**` also stands for nothing, but at the end for something."""
    closed = set(states)
    for state in sorted(states):
        while state < len(wanted) - 1 and wanted[state] == "**":
            state += 1
            closed.add(state)
    return closed


@lru_cache(1000)
def _split(pattern: str) -> tuple[list[str], bool, str]:
    """The names, whether they may stand anywhere, and how a path outside must begin to be meant."""
    starts = ""
    if pattern.startswith(("//", "~/")):
        starts, pattern = pattern[0] if pattern[0] == "/" else "~/", pattern[2:]
    names = [name for name in pattern.split("/") if name != ""]
    is_anywhere = not starts and "/" not in pattern.rstrip("/")
    if (is_anywhere or (starts == "/" and not names)) and names[:1] != ["**"]:
        names.insert(0, "**")
    if names[-1:] == ["**"] and len(names) > 1 and names[-2] == "**":
        names.pop()
    return names or ["**"], is_anywhere or names[:1] == ["**"], starts


def _names_meet(pattern: str, name: str, *, folds: bool, is_glob: bool) -> bool:
    wanted, given = _tokens(pattern, folds), _glob_tokens(name) if is_glob else tuple(("c", char) for char in name)
    if is_glob and given[:1] and given[0][0] != "c" and wanted[:1] == (("c", "."),):
        return False  # a shell's * and ? leave files that begin with a dot out
    row = [True] + [False] * len(given)
    for i in range(len(given)):
        row[i + 1] = row[i] and given[i][0] == "*"
    for want in wanted:
        above = row
        row = [above[0] and want[0] == "*"] + [False] * len(given)
        for i, have in enumerate(given):
            if want[0] == "*":
                row[i + 1] = above[i + 1] or row[i]
            elif have[0] == "*":
                row[i + 1] = above[i + 1] or row[i] or above[i]
            else:
                row[i + 1] = above[i] and _chars_meet(want, have, folds)
            if have[0] == "*" and want[0] == "*":
                row[i + 1] = row[i + 1] or above[i]
    return row[-1]


def _chars_meet(want: _Token, have: _Token, folds: bool) -> bool:
    if want[0] == "c" and have[0] == "c":
        return want[1] == have[1]
    if want[0] == "[" and have[0] == "c":
        return _in_class(have[1], want[1], folds)
    return True


@lru_cache(10_000)
def _in_class(char: str, content: str, folds: bool) -> bool:
    is_negated = content[:1] in ("!", "^")
    chars = {char, char.upper()} if folds else {char}
    return is_negated != any(_is_element(c, found) for found in _IN_CLASS.finditer(content, is_negated) for c in chars)


def _is_element(char: str, found: re.Match[str]) -> bool:
    kind, first, last, one = found.groups()
    if kind is not None:
        return kind in _KINDS and _KINDS[kind](char)
    return char == one[-1] if one is not None else first[-1] <= char <= last[-1]


def _glob_tokens(name: str) -> tuple[_Token, ...]:
    """Of a shell's pattern whose quotes are removed: a bracket may be one or not, so anything may follow."""
    kinds = {"*": ("*", ""), "?": ("?", "")}
    head, bracket, _ = name.partition("[")
    return tuple(kinds.get(char, ("c", char)) for char in head) + ((("*", ""),) if bracket else ())


@lru_cache(1000)
def _tokens(pattern: str, folds: bool) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == "*":
            if tokens[-1:] != [("*", "")]:
                tokens.append(("*", ""))
        elif char == "?":
            tokens.append(("?", ""))
        elif char == "[" and (found := _CLASS.match(pattern, i)) is not None:
            tokens.append(("[", found[1]))
            i = found.end() - 1
        else:
            if char == "\\" and i + 1 < len(pattern):
                i += 1
            tokens += [("c", one) for one in (pattern[i].casefold() if folds else pattern[i])]
        i += 1
    return tuple(tokens)
