"""Reads a shell's command line: every simple command in it, wherever it stands.

    parse("cd a && FOO=1 git push | tee log")   # three: cd, git with one assignment, tee

What /bin/sh is differs: dash, bash, busybox. Where these would read a text differently, where it is not POSIX, and
where this module is not sure, it raises `Unreadable`: refusing is cheap, a command that is run and was not seen is not.
That is why this is no general grammar of bash (tree-sitter's accepts nearly everything: in `echo a > b c` it sees two
targets and no error). The tests hold it against the shells themselves.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from gadget_drone.permissions.names import names
from gadget_drone.permissions.words import MAX_DEPTH, META, Certainty, Piece, Unreadable, Word, WordReader

MAX_CHARS = 64_000
_MAX_COMMANDS = 500

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_REDIRECTION = re.compile(r"([0-9]?)(<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_RESERVED = names("! { } case do done elif else esac fi for if in then until while")
_BASH_ONLY = frozenset({"coproc", "function", "select"})
_COMPOUND = frozenset({"{", "case", "for", "if", "until", "while"})


@dataclass
class Redirection:
    operator: str
    target: Word
    """Of a here-document: its text."""


@dataclass
class Simple:
    """One simple command; without words, it only assigns or redirects."""

    assignments: list[tuple[str, Word]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)


@dataclass
class Parsed:
    commands: list[Simple] = field(default_factory=list)
    """In the order of the text, those inside of another first."""
    has_loops: bool = False
    """Or functions: the order of the text is not the order of what runs."""


@dataclass
class _HereDocument:
    end: str
    is_literal: bool
    has_tabs: bool
    redirection: Redirection


def parse(text: str) -> Parsed:
    """Every simple command of `text`, those in substitutions and here-documents too. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable("it is too long")
    if _CONTROL.search(text):
        raise Unreadable("it contains control characters")
    parsed = Parsed()
    _Reader(text, 0, parsed).whole()
    return parsed


class _Reader(WordReader):
    def __init__(self, text: str, depth: int, parsed: Parsed) -> None:
        super().__init__(text, depth)
        self._parsed = parsed
        self._documents: list[_HereDocument] = []

    def whole(self) -> None:
        self._list(())
        if self.at < len(self.text):
            raise Unreadable(f"`{self.char()}` is unexpected")
        if self._documents:
            raise Unreadable("a here-document does not end")

    # What a word holds

    def substitution(self) -> None:
        waiting, self._documents = self._documents, []
        self._list((), ")")
        if self._documents:
            raise Unreadable("a here-document does not end")
        self._documents = waiting
        self.close(")")

    def nested(self, text: str) -> None:
        _Reader(text, self.depth + 1, self._parsed).whole()

    def body(self, text: str) -> Piece:
        reader, piece = _Reader(text, self.depth + 1, self._parsed), Piece()
        while reader.char():
            start = reader.at
            reader.quoted_char(piece, "$`\\")
            if "\n" in text[start : reader.at - 1]:
                raise Unreadable("an expansion in a here-document has several lines")
        return piece

    def word(self, *, is_value: bool = False) -> Word:
        start = self.at
        word = super().word(is_value=is_value)
        if self._documents and "\n" in self.text[start : self.at]:
            raise Unreadable("a here-document begins in the middle of a word")
        return word

    # Tokens

    def _blanks(self) -> None:
        while True:
            if self.char() and self.char() in " \t":
                self.at += 1
            elif self.peek("\\\n"):
                if self.at and self.text[self.at - 1] not in " \t\n":
                    raise Unreadable("a line is continued inside of a word")
                self.at += 2
            elif self.char() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _newlines(self) -> None:
        self._blanks()
        while self.char() == "\n":
            self.at += 1
            self._read_documents()
            self._blanks()

    def _keyword(self) -> str | None:
        """The reserved word that comes next, where a command may begin."""
        self._blanks()
        end = self.at
        while end < len(self.text) and self.text[end] not in META and end - self.at < 12:
            end += 1
        word = self.text[self.at : end]
        if word in _BASH_ONLY:
            raise Unreadable(f"`{word}` is not the same in every shell")
        return word if word in _RESERVED else None

    def _take(self, word: str) -> None:
        if self._keyword() != word:
            raise Unreadable(f"`{word}` is missing")
        self.at += len(word)

    # Commands

    def _list(self, ends: Collection[str | None], close: str = "") -> None:
        """Commands, up to one of the keywords `ends`, the character `close` or the end of a case."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        while True:
            self._newlines()
            if not self.char() or self.char() == close or self.peek(";;") or self._keyword() in ends:
                break
            self._and_or()
            self._blanks()
            if self.char() not in (";", "&", "\n") or self.peek(";;"):
                break
            if self.char() != "\n":
                self.at += 1
        self.depth -= 1

    def _and_or(self) -> None:
        while True:
            while self._keyword() == "!":
                self._take("!")
            self._command()
            self._blanks()
            operator = next((found for found in ("&&", "||", "|&", "|") if self.peek(found)), None)
            if operator is None:
                return
            self.at += len(operator)
            self._newlines()

    def _command(self) -> None:
        if self.char() == "(":
            if self.peek("(("):
                raise Unreadable("`((` is not the same in every shell")
            self.at += 1
            self._list((), ")")
            self.close(")")
            return self._redirections()
        match self._keyword():
            case None:
                return self._simple()
            case "{":
                self._take("{")
                self._list(("}",))
                self._take("}")
            case "if":
                self._if()
            case "while" | "until" as word:
                self._parsed.has_loops = True
                self._take(word)
                self._list(("do",))
                self._do()
            case "for":
                self._for()
            case "case":
                self._case()
            case word:
                raise Unreadable(f"`{word}` is unexpected")
        self._redirections()

    def _do(self) -> None:
        self._take("do")
        self._list(("done",))
        self._take("done")

    def _if(self) -> None:
        self._take("if")
        self._list(("then",))
        self._take("then")
        self._list(("elif", "else", "fi"))
        while self._keyword() == "elif":
            self._take("elif")
            self._list(("then",))
            self._take("then")
            self._list(("elif", "else", "fi"))
        if self._keyword() == "else":
            self._take("else")
            self._list(("fi",))
        self._take("fi")

    def _for(self) -> None:
        self._parsed.has_loops = True
        self._take("for")
        self._blanks()
        name = self.word()
        if not name.is_plain or not name.text.isidentifier():
            raise Unreadable("`for` is followed by no name")
        self._newlines()
        words = [Word("$@", Certainty.UNKNOWN)]
        if self._keyword() == "in":
            self._take("in")
            words.clear()
            self._blanks()
            while self.char() and self.char() not in "\n;":
                words.append(self.word())
                self._blanks()
        if self.char() == ";":
            self.at += 1
        self._newlines()
        self._add(Simple([(name.text, word) for word in words]))
        self._do()

    def _case(self) -> None:
        self._take("case")
        self._blanks()
        self.word()
        self._newlines()
        self._take("in")
        self._newlines()
        while self._keyword() != "esac":
            if self.char() == "(":
                self.at += 1
            while True:
                self._blanks()
                self.word()
                self._blanks()
                if self.char() != "|":
                    break
                self.at += 1
            self.close(")")
            self._list(("esac",))
            if self.peek(";;"):
                self.at += 2
            elif self._keyword() != "esac":
                raise Unreadable("`esac` is missing")
            self._newlines()
        self._take("esac")

    def _simple(self) -> None:
        simple = Simple()
        start = self.at
        while True:
            self._blanks()
            char = self.char()
            if self.peek("&>"):
                self.at += 1
                self._redirection(simple)
                self._blanks()
                if self.char() and self.char() not in "\n;&|)":
                    raise Unreadable("`&>` is not the same in every shell")
                break
            if self._is_redirection():
                self._redirection(simple)
            elif char == "(" and len(simple.words) == 1 and not simple.assignments and not simple.redirections:
                return self._function(simple.words[0])
            elif not char or (char in "\n;&|()"):
                break
            elif not simple.words and (found := _ASSIGNMENT.match(self.text, self.at)):
                self.at = found.end()
                if self.char() == "(":
                    raise Unreadable("arrays are not the same in every shell")
                is_empty = not self.char() or self.char() in META
                simple.assignments.append((found[1], Word("") if is_empty else self.word(is_value=True)))
            elif not simple.words and _ELEMENT.match(self.text, self.at):
                raise Unreadable("arrays are not the same in every shell")
            else:
                self._argument(simple)
        if self.at == start:
            raise Unreadable(f"`{self.char()}` is unexpected" if self.char() else "a command is missing")
        if [word.text for word in simple.words[:1]] == ["[["] and (
            simple.words[-1].text != "]]" or simple.redirections
        ):
            raise Unreadable("`[[` is not the same in every shell")
        self._add(simple)

    def _argument(self, simple: Simple) -> None:
        start = self.at
        word = self.word()
        simple.words.append(word)
        if self.char() in ("<", ">"):
            source = self.text[start : self.at]
            if source.isdigit() or re.fullmatch(r"\{\w+\}", source):
                raise Unreadable("the number of a descriptor is not the same in every shell")
            if self.text[self.at + 1 : self.at + 2] == "(":
                raise Unreadable("a process substitution is part of a word")

    def _function(self, name: Word) -> None:
        self.at += 1
        self._blanks()
        self.close(")")
        if not name.is_plain or not re.fullmatch(r"[A-Za-z_][\w-]*", name.text):
            raise Unreadable("a function has no plain name")
        self._parsed.has_loops = True
        self._newlines()
        if self.char() != "(" and self._keyword() not in _COMPOUND:
            raise Unreadable("the body of a function is missing")
        self._command()

    def _add(self, simple: Simple) -> None:
        if len(self._parsed.commands) >= _MAX_COMMANDS:
            raise Unreadable("it has too many commands")
        self._parsed.commands.append(simple)

    # Redirections

    def _redirections(self) -> None:
        """Of a compound command."""
        simple = Simple()
        self._blanks()
        while self._is_redirection():
            self._redirection(simple)
            self._blanks()
        if self.peek("&>"):
            raise Unreadable("`&>` is not the same in every shell")
        if simple.redirections:
            self._add(simple)

    def _is_redirection(self) -> bool:
        found = _REDIRECTION.match(self.text, self.at)
        if found is None:
            return False
        return found[0] not in ("<", ">") or not self.text.startswith("(", found.end())

    def _redirection(self, simple: Simple) -> None:
        found = _REDIRECTION.match(self.text, self.at)
        if found is None:
            raise Unreadable("a redirection is missing")
        operator = found[2]
        self.at = found.end()
        self._blanks()
        start = self.at
        redirection = Redirection(operator, self.word())
        simple.redirections.append(redirection)
        if operator in ("<<", "<<-"):
            if redirection.target.certainty is Certainty.UNKNOWN or "`" in redirection.target.text:
                raise Unreadable("the end of a here-document is not known")
            is_literal = any(mark in self.text[start : self.at] for mark in "'\"\\")
            end, redirection.target = redirection.target.text, Word("")
            if "\n" in end:
                raise Unreadable("the end of a here-document has several lines")
            self._documents.append(_HereDocument(end, is_literal, operator == "<<-", redirection))

    def _read_documents(self) -> None:
        waiting, self._documents = self._documents, []
        for document in waiting:
            lines: list[str] = []
            while True:
                end = self.text.find("\n", self.at)
                line = self.text[self.at :] if end < 0 else self.text[self.at : end]
                is_last = end < 0
                self.at = len(self.text) if is_last else end + 1
                if (line.lstrip("\t") if document.has_tabs else line) == document.end:
                    break
                if is_last:
                    raise Unreadable("a here-document does not end")
                if not document.is_literal and line.endswith("\\"):
                    raise Unreadable("a line of a here-document is continued")
                lines.append(line.lstrip("\t") if document.has_tabs else line)
            text = "".join(f"{line}\n" for line in lines)
            piece = Piece(text) if document.is_literal else self.body(text)
            document.redirection.target = piece.word()
