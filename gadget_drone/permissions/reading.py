"""Which command lines only read, and what they read. Such a line runs without a question below the level `full`.

The language is small on purpose: simple commands of literal words, joined by `;`, `&&`, `||`, `|` or a new line. A
program is on the list with its exact options. Every other line asks. A line that expands, assigns, substitutes or
changes the directory is never on the list, so the shell adds nothing to what stands here.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence

from gadget_drone.permissions.names import names
from gadget_drone.permissions.options import Options
from gadget_drone.permissions.words import Unreadable, Word
from gadget_drone.programs import is_found_outside

_BLANKS = re.compile(r"[ \t]+")
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_REDIRECTION = re.compile(r"(?:2>&1|2?>/dev/null|</dev/null)(?=[ \t\n;|]|&&|$)")
_WORD = re.compile(r"""(?:[\w./,:@%+=-]|'[^'\n]*'|"[^"$`\\\n]*")+""")
_SED_LINES = re.compile(r"[0-9]+(,[0-9]+)?p")
_GIT = re.compile(
    r"status( --short| -s| --porcelain| --branch| -b| -sb)*|"
    r"log( --oneline| -n ?[0-9]+| -[0-9]+)*|"
    r"branch( --list| -a| -v)*|"
    r"rev-parse (HEAD|--show-toplevel|--abbrev-ref HEAD)|"
    r"remote|tag( -l| --list)?"
)
"""Names and subjects of commits. `git remote -v` is not here: an address may hold a token."""

_COUNTS = "-c: -n: -qv -# --lines: --bytes: --quiet --verbose"
_GREP = (
    "-EFGPivwxcLlohHnqsbaI -e: -m: -A: -B: -C: -# --extended-regexp --fixed-strings --regexp: --ignore-case "
    "--invert-match --word-regexp --line-regexp --count --files-without-match --files-with-matches --max-count: "
    "--only-matching --quiet --no-messages --with-filename --no-filename --line-number --after-context: "
    "--before-context: --context:"
)
_OPTIONS = {
    name: Options(table, stops=True)
    for name, table in {
        "pwd": "-LP",
        "true": "",
        "false": "",
        "whoami": "",
        "id": "-ugGn",
        "uname": "-asnrvmpio",
        "basename": "-az -s:",
        "dirname": "-z",
        "tr": "-cCdst",
        "date": "-uR -I? --utc --iso-8601?",
        "ls": "-aAbBcCdFgGhiklmnopqQrsStuUvxX1 --all --almost-all --directory --full-time --group-directories-first "
        "--human-readable --inode --numeric-uid-gid --reverse --size",
        "cat": "-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs",
        "head": _COUNTS,
        "tail": _COUNTS,
        "wc": "-clmLw --lines --words --bytes --chars --max-line-length",
        "cut": "-sn -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement",
        "sort": "-bdfghinrsuV -k: -t: --reverse --numeric-sort --unique --ignore-case --key: --field-separator:",
        "uniq": "-cdDiu --count --repeated --unique --ignore-case",
        "stat": "-Lt -c: --format: --dereference",
        "file": "-bihL --brief --mime --mime-type --mime-encoding --dereference",
        "realpath": "-eLPs",
        "readlink": "-fen",
        "diff": "-abBiquwyE -U: --brief --unified? --ignore-all-space --ignore-space-change --ignore-blank-lines "
        "--ignore-case --side-by-side",
        "grep": _GREP,
        "egrep": _GREP,
        "fgrep": _GREP,
    }.items()
}
_OPENS_NOTHING = names("pwd true false whoami id uname basename dirname tr")
_GREPS = names("grep egrep fgrep")
_READS_INPUT = _GREPS | names("cat head tail wc cut sort uniq file sed")
"""For these an operand `-` is the standard input."""


def files_only_read(line: str, project_dir: str, *, trusts_git: bool = False) -> tuple[str, ...] | None:
    """The files that `line` reads, as absolute paths; None where the line may do more than read. Blocks.

    `trusts_git`: whether a git may count. `git status` runs the filters and hooks of a repository's configuration.
    """
    if not line.replace("\n", "").replace("\t", "").isprintable():
        return None
    try:
        return tuple(_files(line, os.path.realpath(project_dir), trusts_git))
    except (Unreadable, OSError, ValueError):
        return None


def _files(line: str, root: str, trusts_git: bool) -> Iterator[str]:
    for words in _commands(line):
        if words[0] == "git" and not trusts_git:
            raise Unreadable("git runs what the repository's configuration names")
        for operand in _operands(words, root):
            if operand != "/dev/null" and not (operand == "-" and words[0] in _READS_INPUT):
                yield from _judged(operand, root, takes_directory=words[0] == "ls")


def _commands(line: str) -> Iterator[list[str]]:
    """The words of each simple command. Raises Unreadable."""
    words: list[str] = []
    at, is_apart = 0, True
    while at < len(line):
        if found := _BLANKS.match(line, at):
            is_apart = True
        elif found := _SEPARATOR.match(line, at):
            if words:
                yield words
            words, is_apart = [], True
        elif is_apart and (found := _REDIRECTION.match(line, at)):
            is_apart = False
        elif is_apart and (found := _WORD.match(line, at)):
            words.append(re.sub(r"""'([^']*)'|"([^"]*)\"""", r"\1\2", found[0]))
            is_apart = False
            if words[-1].startswith("~"):
                raise Unreadable("a word begins with a tilde")
        else:
            raise Unreadable("it is not a list of simple commands with literal words")
        at = found.end()
    if words:
        yield words


def _operands(words: Sequence[str], root: str) -> Sequence[str]:
    """The files that a command names. Raises Unreadable."""
    name, arguments = words[0], words[1:]
    if not is_found_outside(name):
        raise Unreadable(f"a command may have written `{name}`")
    if name == "echo":
        return ()
    if name == "git":
        is_known = not any(" " in word for word in arguments) and _GIT.fullmatch(" ".join(arguments))
        if is_known and os.path.lexists(f"{root}/.git"):
            return ()
        raise Unreadable("git may do more than print names and subjects")
    if name == "sed":
        if len(arguments) in (2, 3) and arguments[0] == "-n" and _SED_LINES.fullmatch(arguments[1]):
            return _without_options(arguments[2:])
        raise Unreadable("`sed` may do more than print lines")
    if name not in _OPTIONS:
        raise Unreadable(f"`{name}` may do more than read")
    given = _OPTIONS[name].read([Word(word) for word in arguments])
    operands = _without_options([word.text for word in given.operands])
    if name in _OPENS_NOTHING:
        return ()
    if name in _GREPS and not given.has("-e", "--regexp"):
        return operands[1:]
    if name == "date":
        if len(operands) > 1 or not all(operand.startswith("+") for operand in operands):
            raise Unreadable("`date` may set the clock")
        return ()
    if name == "uniq" and len(operands) > 1:
        raise Unreadable("`uniq` writes to its second operand")
    if name == "diff" and len(operands) != 2:
        raise Unreadable("`diff` compares two files")
    return operands


def _without_options(operands: Sequence[str]) -> Sequence[str]:
    """Raises Unreadable. Some programs take an option behind an operand, others take a file of that name."""
    if any(operand.startswith("-") and operand != "-" for operand in operands):
        raise Unreadable("a file's name begins with a hyphen")
    return operands


def _judged(operand: str, root: str, *, takes_directory: bool) -> Iterator[str]:
    """The path that an operand names, and the path that its links lead to. Raises Unreadable."""
    path = os.path.join(root, operand)
    real = os.path.realpath(path)
    mode = os.stat(path).st_mode
    if operand == "" or ".." in operand.split("/"):
        raise Unreadable("the path leads through other directories")
    if not stat.S_ISREG(mode) and not (takes_directory and stat.S_ISDIR(mode)):
        raise Unreadable("it is no regular file")
    for found in (os.path.normpath(path), real):
        if found != root and not found.startswith(f"{root}/"):
            raise Unreadable("the file is outside of the project")
        if ".git" in found[len(root) :].casefold().split("/"):
            raise Unreadable("an address in a file of git may hold a token")
        yield found
