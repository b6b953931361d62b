"""Reads the arguments of a program as getopt_long(3) does: clusters (`-ie=`), values, `--`. It knows the options of a
table and no others: an option that is not in it, or is shortened, raises Unreadable, for nobody knows what it does.

A table is a text. Letters stand together, long options alone; the mark behind them says what they take:

    -ivw       no value
    -e:        a value, attached or in the next word
    -f<  -o>   a file that the program reads, or writes
    -I?        a value that must be attached; it may be missing
    -rR/       no value; the program goes through directories
    -#         digits alone, as in `head -5`
    --color?   long options take the same marks
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gadget_drone.permissions.words import Certainty, Unreadable, Word

_MARKS = ":<>?/"
_VALUES = ":<>"
_NUMBER = re.compile(r"[+-]?\d+[a-zA-Z]*")


@dataclass(frozen=True)
class Given:
    """The arguments of one command."""

    options: tuple[tuple[str, Word | None], ...]
    """Names with their dashes, and values."""
    operands: tuple[Word, ...]
    reads: tuple[Word, ...]
    """Files that an option names."""
    writes: tuple[Word, ...]
    is_deep: bool

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


class Options:
    def __init__(self, table: str, *, stops: bool = False) -> None:
        """`stops`: the first operand ends the options."""
        self._marks: dict[str, str] = {}
        self._stops = stops
        for token in table.split():
            name, mark = (token[:-1], token[-1]) if token[-1] in _MARKS else (token, "")
            names = [name] if name.startswith("--") else [f"-{letter}" for letter in name[1:]]
            self._marks |= dict.fromkeys(names, mark)

    def read(self, arguments: Sequence[Word]) -> Given:
        """Raises Unreadable."""
        rest, options, operands = list(arguments), list[tuple[str, Word | None]](), list[Word]()
        while rest:
            word = rest.pop(0)
            if word.text == "--" and word.certainty is Certainty.KNOWN:
                operands += rest
                break
            if not self._may_be_option(word):
                operands.append(word)
                if self._stops:
                    operands += rest
                    break
            elif word.text.startswith("--"):
                options.append(self._long(word, rest))
            else:
                options += self._cluster(word, rest)
        marked = [(self._marks[name], value) for name, value in options]
        return Given(
            tuple(options),
            tuple(operands),
            reads=tuple(value for mark, value in marked if mark == "<" and value is not None),
            writes=tuple(value for mark, value in marked if mark == ">" and value is not None),
            is_deep=any(mark == "/" for mark, _ in marked),
        )

    def _may_be_option(self, word: Word) -> bool:
        """Raises Unreadable where that is not known before it runs."""
        if word.may_split or (word.certainty is Certainty.UNKNOWN and word.text[:1] in ("", "$", "`", "{", "<", ">")):
            raise Unreadable(f"`{word.text}` may be an option")
        if word.certainty is Certainty.GLOB and word.text[:1] in "*?[":
            raise Unreadable(f"a file that `{word.text}` fits may be called like an option")
        return word.text.startswith("-") and word.text != "-"

    def _long(self, word: Word, rest: list[Word]) -> tuple[str, Word | None]:
        name, has_value, value = word.text.partition("=")
        mark = self._mark(name, word)
        if has_value:
            if mark not in ("?", *_VALUES):
                raise Unreadable(f"`{name}` takes no value")
            return name, Word(value, word.certainty)
        return name, self._value(name, rest) if mark and mark in _VALUES else None

    def _cluster(self, word: Word, rest: list[Word]) -> list[tuple[str, Word | None]]:
        if word.text[1:].isascii() and word.text[1:].isdigit() and "-#" in self._marks:
            return [("-#", Word(word.text[1:]))]
        found: list[tuple[str, Word | None]] = []
        for at, letter in enumerate(word.text[1:], 2):
            name = f"-{letter}"
            mark, attached = self._mark(name, word), word.text[at:]
            if mark == "?":
                return [*found, (name, Word(attached, word.certainty) if attached else None)]
            if mark and mark in _VALUES:
                return [*found, (name, Word(attached, word.certainty) if attached else self._value(name, rest))]
            found.append((name, None))
        return found

    def _mark(self, name: str, word: Word) -> str:
        if name not in self._marks or (word.certainty is not Certainty.KNOWN and "=" not in word.text):
            raise Unreadable(f"what `{word.text}` does is not known")
        return self._marks[name]

    def _value(self, name: str, rest: list[Word]) -> Word:
        if not rest or rest[0].certainty is Certainty.GLOB or rest[0].may_split:
            raise Unreadable(f"the value of `{name}` is not known")
        # Another version may not take the word for a value, and take it for an option.
        if rest[0].text.startswith("-") and not _NUMBER.fullmatch(rest[0].text):
            raise Unreadable(f"the value of `{name}` looks like an option")
        return rest.pop(0)
