"""How the indentation of a text as the model wrote it becomes that of the file."""

from collections.abc import Callable, Iterable

Reindent = Callable[[str], str | None]
"""An indentation of the model's -> the file's; None where it has none."""

_WIDTHS = (4, 2, 8, 3)
"""Of a tab, in blanks."""


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def same(indent: str) -> str | None:
    return indent


def find_reindent(pairs: Iterable[tuple[str, str]]) -> Reindent | None:
    """What makes the first of every pair of indentations the second: as they are, tabs for blanks or blanks for tabs,
    and then some more in front, or less; None where no one rule does it for all."""
    known = list(dict.fromkeys(pairs))
    converters = [*map(_tabs, _WIDTHS), *map(_blanks, _WIDTHS)] if any(theirs for theirs, _ in known) else []
    candidates = [same, *_shifted(same, known)]
    candidates += converters
    candidates += [shifted for convert in converters for shifted in _shifted(convert, known)]
    return next((rule for rule in candidates if all(rule(theirs) == ours for theirs, ours in known)), None)


def _tabs(width: int) -> Reindent:
    """Blanks become tabs."""

    def convert(indent: str) -> str | None:
        return "\t" * (len(indent) // width) if indent.strip(" ") == "" and len(indent) % width == 0 else None

    return convert


def _blanks(width: int) -> Reindent:
    """Tabs become blanks."""

    def convert(indent: str) -> str | None:
        return " " * (len(indent) * width) if indent.strip("\t") == "" else None

    return convert


def _shifted(convert: Reindent, known: list[tuple[str, str]]) -> list[Reindent]:
    """`convert`, and then what is missing in front, or too much there, in the first of `known`."""
    if not known or (theirs := convert(known[0][0])) is None:
        return []
    ours = known[0][1]
    if ours.endswith(theirs):
        less, more = "", ours.removesuffix(theirs)
    elif theirs.endswith(ours):
        less, more = theirs.removesuffix(ours), ""
    else:
        return []

    def reindent(indent: str) -> str | None:
        converted = convert(indent)
        if converted is None or not converted.startswith(less):
            return None
        return more + converted.removeprefix(less)

    return [reindent]
