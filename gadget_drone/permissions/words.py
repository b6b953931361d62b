"""The words of a shell's command line: quotes removed, what is inside of expansions read too.

What the shells read differently, and what is not sure, raises Unreadable.
"""

import re
from abc import abstractmethod
from dataclasses import dataclass
from enum import IntEnum

MAX_DEPTH = 40
META = frozenset(" \t\n;&|<>()")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":?[-=?+]|%%?|##?|//?|\^\^?|,,?")
_ARITHMETIC = re.compile(r"[0-9\s+\-*/%<>=!&|^~?:,]+\)\)", re.ASCII)


class Unreadable(ValueError):
    """It is not known what a shell would run; the message says why, as a part of a sentence."""


class Certainty(IntEnum):
    """How well a word is known before it runs."""

    KNOWN = 0
    GLOB = 1
    """It names files by a pattern."""
    UNKNOWN = 2


@dataclass(frozen=True)
class Word:
    text: str
    """Without its quotes; what is not known stands there as it is written."""
    certainty: Certainty = Certainty.KNOWN
    is_plain: bool = True
    """Nothing of it is quoted or expanded: only such a word can be a keyword."""
    may_split: bool = False
    """The shell may make several words of it, or none: an expansion without quotes, or `"$@"`."""


@dataclass
class Piece:
    """A word that is being read."""

    text: str = ""
    certainty: Certainty = Certainty.KNOWN
    is_plain: bool = True
    may_split: bool = False

    def known(self, text: str) -> None:
        self.text += text
        self.is_plain = False

    def unknown(self, source: str, *, may_split: bool) -> None:
        self.known(source)
        self.certainty = Certainty.UNKNOWN
        self.may_split = self.may_split or may_split

    def word(self) -> Word:
        return Word(self.text, self.certainty, self.is_plain, self.may_split)


class WordReader:
    """A place in a text."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        self.text = text
        self.at = 0
        self.depth = depth

    @abstractmethod
    def substitution(self) -> None:
        """Reads commands up to the `)` that closes them, and that."""

    @abstractmethod
    def nested(self, text: str) -> None:
        """Reads `text` as a command line of its own."""

    @abstractmethod
    def body(self, text: str) -> Piece:
        """Reads `text` as the inside of double quotes in which a double quote is nothing special."""

    def char(self) -> str:
        return self.text[self.at : self.at + 1]

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def close(self, close: str) -> None:
        if self.char() != close:
            raise Unreadable(f"`{close}` is missing")
        self.at += 1

    def word(self, *, is_value: bool = False) -> Word:
        """The word that begins here; there is one. `is_value`: of an assignment, where no file names are put in."""
        start, piece = self.at, Piece()
        if self.peek("<(") or self.peek(">("):
            self.at += 2
            self.substitution()
            piece.unknown(self.text[start : self.at], may_split=False)
            if self.char() and self.char() not in META:
                raise Unreadable("a process substitution is part of a word")
            return piece.word()
        while (char := self.char()) and char not in META:
            if char == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise Unreadable("a quote is not closed")
                piece.known(self.text[self.at + 1 : end])
                self.at = end + 1
            elif char == '"':
                self._double_quotes(piece)
            elif char == "\\":
                self._escape(piece)
            elif char in "$`":
                self._expansion(piece, is_quoted=False)
            else:
                piece.text += char
                if char in "*?[" and not is_value:
                    piece.certainty = max(piece.certainty, Certainty.GLOB)
                self.at += 1
        if self.at == start:
            raise Unreadable(f"`{self.char()}` is unexpected" if self.char() else "a word is missing")
        source = self.text[start : self.at]
        if ("{" in source and ("," in source or ".." in source)) or (source[0] == "~" and source[1:2] not in ("", "/")):
            # Braces stand for several words in bash and for themselves in dash; ~name is somebody's home.
            piece.certainty, piece.is_plain, piece.may_split = Certainty.UNKNOWN, False, True
        return piece.word()

    def _escape(self, piece: Piece) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped in ("", "\n"):
            raise Unreadable("a line is continued inside of a word")
        piece.known(escaped)
        self.at += 2

    def _double_quotes(self, piece: Piece) -> None:
        self.at += 1
        piece.known("")
        while (char := self.char()) != '"':
            if not char:
                raise Unreadable("a quote is not closed")
            self.quoted_char(piece, '$`"\\')
        self.at += 1

    def quoted_char(self, piece: Piece, escapable: str) -> None:
        """One character, or expansion, inside of double quotes or a here-document."""
        char = self.char()
        if char == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            if escaped == "\n":
                self.at += 2
            elif escaped and escaped in escapable:
                piece.known(escaped)
                self.at += 2
            else:
                piece.known(char)
                self.at += 1
        elif char in ("$", "`"):
            self._expansion(piece, is_quoted=True)
        else:
            piece.known(char)
            self.at += 1

    def _expansion(self, piece: Piece, *, is_quoted: bool) -> None:
        start = self.at
        if self.char() == "`":
            self._backquotes(is_quoted)
        else:
            self.at += 1
            char = self.char()
            if char == "(":
                self.at += 1
                if self.char() == "(":
                    self.at += 1
                    self._arithmetic()
                else:
                    self.substitution()
            elif char == "{":
                self.at += 1
                self._parameter(is_quoted)
            elif char == "[" or self.peek("\\\n"):
                raise Unreadable("`$[` is not the same in every shell")
            elif char == "'" and not is_quoted:
                # ANSI quotes in bash, a dollar and quotes in dash.
                end = self.text.find("'", self.at + 1)
                if end < 0 or "\\" in self.text[end - 1 : end]:
                    raise Unreadable("`$'` is not the same in every shell")
                self.at = end + 1
            elif char == '"' and not is_quoted:
                self._double_quotes(Piece())
            elif found := _PARAMETER.match(self.text, self.at):
                # Without braces a position has one digit.
                self.at = self.at + 1 if found[0].isdigit() else found.end()
            else:
                piece.known("$")
                return
        source = self.text[start : self.at]
        piece.unknown(source, may_split=not is_quoted or "@" in source)

    def _backquotes(self, is_quoted: bool) -> None:
        self.at += 1
        content = ""
        while (char := self.char()) != "`":
            if not char:
                raise Unreadable("a backquote is not closed")
            if char == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                if is_quoted and escaped == '"':
                    raise Unreadable("an escaped quote in backquotes is not the same in every shell")
                if escaped in ("\\", "$", "`") and escaped:
                    self.at += 1
                    char = escaped
            content += char
            self.at += 1
        self.at += 1
        self.nested(content)

    def _parameter(self, is_quoted: bool) -> None:
        """Behind `${`."""
        if self.char() == "#" and self.text[self.at + 1 : self.at + 2] not in (
            "}",
            "",
            "#",
            "%",
            ":",
            "-",
            "+",
            "=",
            "?",
        ):
            self.at += 1  # the length of one
        found = _PARAMETER.match(self.text, self.at)
        if found is None:
            raise Unreadable("a `${` is not the same in every shell")
        self.at = found.end()
        if self.char() == "}":
            self.at += 1
            return
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None or operator[0] in ("=", ":="):
            raise Unreadable("a `${` is not the same in every shell")
        self.at = operator.end()
        while (char := self.char()) != "}":
            if char in ("", "'", '"') or self.peek("<(") or self.peek(">(") or self.peek("\\\n") or self.peek("$'"):
                raise Unreadable("a `${` is not the same in every shell")
            if char == "\\":
                self.at += 2
            elif char in "$`":
                self._expansion(Piece(), is_quoted=is_quoted)
            else:
                self.at += 1
        self.at += 1

    def _arithmetic(self) -> None:
        """Behind `$((`: numbers alone, for bash runs what stands in an index in the value of a variable."""
        found = _ARITHMETIC.match(self.text, self.at)
        if found is None:
            raise Unreadable("what a `$((` calculates is not known")
        self.at = found.end()
