"""What a command line would reach: the accesses that `decide` judges.

    accesses_of("cat notes | tee out; git push", project)
    # execute cat notes, read notes, execute tee out, write out, execute git push

Each simple command counts, wherever it stands; one that others start (`env`, `xargs`, `sh -c`) counts for itself beside
them. A program may do what its rules do not say: `make` runs what its file says. Rules are about what a model asks for;
what holds a program is the sandbox.
"""

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path

from gadget_api.permissions import Access, Capability
from gadget_drone.permissions.built_in import SECRETS
from gadget_drone.permissions.covered import Covered
from gadget_drone.permissions.files import files_of
from gadget_drone.permissions.fitting import is_no_secret
from gadget_drone.permissions.named import Named
from gadget_drone.permissions.names import names
from gadget_drone.permissions.patterns import ANY_OF, CHANGED_BY_GIT, LINKED, UNKNOWN, UNREADABLE, normal_path
from gadget_drone.permissions.programs import (
    HARMLESS_VARIABLES,
    Command,
    Started,
    changes_what_runs,
    program_name,
    runs_files,
    started_by,
)
from gadget_drone.permissions.reading import files_only_read
from gadget_drone.permissions.syntax import Redirection, Simple, parse
from gadget_drone.permissions.words import Certainty, Unreadable, Word

_MAX_SHOWN = 2000
_MAX_NESTING = 8
_MAX_ACCESSES = 400
_MAX_WORDS = 2000
_MAX_DIRECTORIES = 8
_MAX_LINKS = 40
_MAX_VISITED = 5000
"""Entries of directories that one line is looked up in: 0.2 s at most. Links to `.` make endlessly many."""
_MAX_PATTERN = 1000
_PATH_MAX = 4096
"""Linux opens no longer path."""
_NO_FILES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"})
_INPUT = re.compile(r"/dev/(stdin|fd/.*)|/proc/.*/fd/.*", re.S)
"""What stands there is known when it is read."""
_OF_PROCESS = re.compile(r"/dev/fd|/proc/(self|thread-self|[0-9]+|[^/]*[*?\[][^/]*)(/|$)", re.ASCII)
"""Its directory, its root, its open files: they are others for the command than for us."""
_IN_PATTERN = re.compile(r"[*?\[]")
_NETWORK = names("curl wget ssh scp sftp ftp telnet nc ncat netcat rsync ping http https xh aria2c")
_TAKES_HOST = frozenset({"ssh", "telnet", "ping", "ftp", "sftp"})
_CHANGES_DIRECTORY = re.compile(r"\b(cd|pushd|popd)\b")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-", re.ASCII)
_PLAIN_VALUE = re.compile(r"[\w./:,@%+-]*", re.ASCII)
_GIT_NETWORK = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote"})
_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)(?::\d+)?(?::|/|$)")


def accesses_of(command: str, project_dir: Path, *, is_sandboxed: bool = False) -> tuple[Access, ...]:
    """What `/bin/sh -c command`, run in `project_dir`, would reach, without repeats; never nothing.

    It looks at the file system to follow symlinks: call it in a thread. What cannot be read is an EXECUTE whose target
    begins with `UNREADABLE`; a `command` that begins so (input for a program) is one, and is looked through besides.
    `is_sandboxed`: whether it runs in a sandbox, which holds what a repository makes git run.
    """
    found = _Found(project_dir)
    found.script(command, 0)
    if command.startswith(UNREADABLE):
        found.accesses.pop(Access(capability=Capability.EXECUTE, target="unreadable"), None)  # the mark itself
    if not found.is_unreadable():
        files = files_only_read(command, found.root, trusts_git=is_sandboxed)
        if files is not None:
            found.only_reads(files)
    return tuple(found.accesses) or (Access(capability=Capability.EXECUTE, target=command[:_MAX_SHOWN]),)


class _TooMany(Exception):
    """More than _MAX_VISITED entries."""


class _Found:
    def __init__(self, project_dir: Path) -> None:
        self.root = os.path.realpath(project_dir)
        self._given_root = os.path.abspath(project_dir)
        self._directories: list[str] = [""]
        """Where the commands may run, relative to the project or absolute."""
        self._is_lost = False
        """Whether they may run elsewhere, too."""
        self._assigned: list[tuple[str, Word]] = []
        """What the line assigns without a command: those variables that are exported already reach all commands."""
        self._visited = 0
        self._secrets = Covered(rule.pattern for rule in SECRETS)
        self.accesses: dict[Access, None] = {}

    def script(self, text: str, nesting: int) -> None:
        try:
            if nesting > _MAX_NESTING:
                raise Unreadable("it is nested too deeply")
            parsed = parse(text)
        except (Unreadable, RecursionError):
            return self._unreadable(text)
        words = (word.text for simple in parsed.commands for word in simple.words)
        if parsed.has_loops and any(map(_CHANGES_DIRECTORY.search, words)):
            self._is_lost = True
        # In loops and functions the order of the text is not the order of what runs.
        self._assigned += [one for simple in parsed.commands if not simple.words for one in simple.assignments]
        for simple in parsed.commands:
            if len(self.accesses) > _MAX_ACCESSES:
                return self._unreadable(text)
            self._simple(simple, nesting)

    def is_unreadable(self) -> bool:
        return any(access.target.startswith(UNREADABLE) for access in self.accesses)

    def only_reads(self, files: Sequence[str]) -> None:
        """The whole line only reads, and reads `files`."""
        for access in list(self.accesses):
            if access.capability is Capability.EXECUTE:
                del self.accesses[access]
                self.accesses[access.replace(only_reads=True)] = None
        for file in files:
            self._add(Capability.READ, self._relative(file))

    def _add(self, capability: Capability, target: str) -> None:
        self.accesses[Access(capability=capability, target=target)] = None

    def _unreadable(self, text: str) -> None:
        self._add(Capability.EXECUTE, UNREADABLE + text.removeprefix(UNREADABLE)[:_MAX_SHOWN])

    def _simple(self, simple: Simple, nesting: int) -> None:
        for name, value in simple.assignments:
            if changes_what_runs(name):
                self._unreadable(f"{name}={value.text}")
        if simple.words:
            self._command(
                simple.words,
                simple.redirections,
                nesting,
                _shown([*filter(_may_be_exported, self._assigned), *simple.assignments]),
            )
        for redirection in simple.redirections:
            self._redirection(redirection)

    def _command(
        self, words: Sequence[Word], redirections: Sequence[Redirection], nesting: int, assignments: str = ""
    ) -> None:
        """`assignments`: what stands before the command, as text."""
        line = " ".join([_first(words[0]), *(word.text for word in words[1:])])
        if words[0].certainty is not Certainty.KNOWN and words[0].text not in ("[", "[["):
            return self._unreadable(line)
        name = program_name(words[0].text)
        linked = self._linked(words[0])
        started: list[Started] = []
        try:
            if nesting > _MAX_NESTING or len(words) > _MAX_WORDS:
                raise Unreadable("it is nested too deeply, or too long")
            if any(map(runs_files, (name, *linked))) and any(map(self._is_input, words[1:])):
                raise Unreadable("what it reads and runs is not known")
            for called in (words[0], *map(Word, linked)):
                started += started_by((called, *words[1:]), redirections)
        except Unreadable:
            self._unreadable(line)
        self._add(Capability.EXECUTE, assignments + line)
        for other in linked:
            self._add(Capability.EXECUTE, LINKED + " ".join([_first(Word(other)), *(word.text for word in words[1:])]))
        for named in files_of(words[:_MAX_WORDS]):
            self._file(named)
        for host in _hosts(words):
            self._add(Capability.NETWORK, host)
        if name in ("cd", "pushd", "popd"):
            self._change_directory(words[1:])
        for inner in dict.fromkeys(started):
            if isinstance(inner, Command):
                self._command(inner.words, redirections, nesting + 1)
            else:
                self.script(inner.text, nesting + 1)

    def _redirection(self, redirection: Redirection) -> None:
        operator, target = redirection.operator, redirection.target
        if operator.startswith("<<"):
            return
        if operator in (">&", "<&") and _DESCRIPTOR.fullmatch(target.text):
            return
        if operator in ("<", "<>", "<&"):
            self._file(Named(Capability.READ, target))
        if operator != "<" and operator != "<&":
            self._file(Named(Capability.WRITE, target))

    def _change_directory(self, arguments: Sequence[Word]) -> None:
        operands = [word for word in arguments if not word.text.startswith("-") or word.text == "-"]
        if len(operands) != 1 or operands[0].certainty is not Certainty.KNOWN or operands[0].text == "-":
            self._is_lost = True
            return
        text = self._expanded(operands[0].text)
        found = {*self._directories, *(os.path.join(directory, text) for directory in self._directories)}
        self._directories = sorted(found)[:_MAX_DIRECTORIES]
        self._is_lost = self._is_lost or len(found) > _MAX_DIRECTORIES

    # Files

    def _linked(self, command: Word) -> list[str]:
        """The other names that a program has by the links which its path leads through."""
        found: dict[str, None] = {}
        for directory in self._directories if "/" in command.text and "\0" not in command.text else ():
            path = os.path.join(self.root, directory, self._expanded(command.text))
            for _ in range(_MAX_LINKS):
                try:
                    path = os.path.join(os.path.dirname(path), os.readlink(path))
                except OSError:
                    break
                found[program_name(path)] = None
        return [name for name in found if name != program_name(command.text)]

    def _is_input(self, word: Word) -> bool:
        """Whether it names what a program has open, such as its standard input."""
        paths = (normal_path(os.path.join(self.root, directory, word.text)) for directory in self._directories)
        return any(map(_INPUT.fullmatch, paths))

    def _file(self, named: Named) -> None:
        word = named.word
        if word.text in _NO_FILES or word.text == "" or "\0" in word.text:
            return
        is_long = len(word.text) >= (_MAX_PATTERN if word.certainty is Certainty.GLOB else _PATH_MAX)
        if is_long and not named.is_sure:
            return
        if word.certainty is Certainty.UNKNOWN or is_long or (word.certainty is Certainty.GLOB and _is_odd(word.text)):
            is_git = UNKNOWN + word.text == CHANGED_BY_GIT
            if named.is_sure or not is_git or self._is_in_repository():
                self._unknown(named.capability, word.text)
            return
        # A quoted tilde is a plain name: both are judged.
        texts = dict.fromkeys((word.text, self._expanded(word.text)))
        for directory, text in product(self._directories, texts):
            path = os.path.join(self.root, directory, text)
            if word.certainty is Certainty.GLOB:
                if named.is_sure:
                    self._glob(named, path)
                continue
            if not named.is_sure and not _exists(path):
                continue
            self._path(named, path)
        if self._is_lost and not word.text.startswith("/"):
            self._unknown(named.capability, word.text)

    def _unknown(self, capability: Capability, text: str) -> None:
        self._add(capability, UNKNOWN + text[:_MAX_SHOWN])

    def _path(self, named: Named, path: str) -> None:
        if _is_of_process(path):
            return self._unknown(named.capability, path)
        # Where the text leads and where the links lead: `ln -s` must not make another file of it.
        for found in dict.fromkeys((self._relative(os.path.normpath(path)), self._relative(os.path.realpath(path)))):
            is_deep = named.is_deep and not os.path.isfile(path)
            self._add(named.capability, f"{found.rstrip('/')}/" if is_deep else found)
        self._a_secret_of(named, [os.path.realpath(path)] if named.is_deep else [])

    def _is_in_repository(self) -> bool:
        """Whether git may find a repository where the commands run: without one it has no stash."""
        places = [Path(self.root, directory) for directory in self._directories]
        return self._is_lost or any(_exists(str(at / ".git")) for place in places for at in (place, *place.parents))

    def _glob(self, named: Named, path: str) -> None:
        fixed = _IN_PATTERN.split(path)[0].rpartition("/")[0]
        real_start, rest = os.path.realpath(fixed or "/"), path[len(fixed) :]
        below = "/" if named.is_deep else ""
        for start in dict.fromkeys((os.path.normpath(fixed or "/"), real_start)):
            target = self._relative(os.path.normpath(start + rest)).rstrip("/")
            self._add(named.capability, f"{ANY_OF}{target}{below}")
        try:
            # In the root of the file system a pattern may name /proc.
            if real_start == "/" or _is_of_process(path):
                raise _TooMany
            found = self._globbed(real_start, rest.strip("/").split("/"))
            links = [os.path.realpath(path) for path, is_linked in found if is_linked]
            for real in links:
                self._add(named.capability, self._relative(real) + ("" if os.path.isfile(real) else below))
            self._a_secret_of(named, [*(path for path, _ in found), *links])
        except _TooMany:
            self._unknown(named.capability, self._relative(path))

    def _a_secret_of(self, named: Named, files: Sequence[str]) -> None:
        """Adds the first likely secret among `files`, which a pattern fits, or below them: the rules of the built-in
        secrets are about names that are known."""
        if named.capability is not Capability.READ or named.only_names:
            return
        waiting = [(path, named.is_deep and os.path.isdir(path)) for path in files]
        while waiting:
            path, is_tree = waiting.pop()
            target = self._relative(path)
            if self._secrets.covers(target) and not is_no_secret(target):
                return self._add(Capability.READ, target)
            if is_tree:
                below = _entries_of(path)
                self._visited += len(below) + 1
                if self._visited > _MAX_VISITED:
                    return self._unknown(Capability.READ, target)
                waiting += [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in below]

    def _globbed(self, directory: str, names: Sequence[str]) -> list[tuple[str, bool]]:
        """The files below `directory` that a pattern, of `names`, may fit, and whether a link leads there. Raises
        _TooMany, also for a link of which it is not known where it leads."""
        found = [(directory, False)]
        for name in names:
            above, found = found, []
            # A bracket may be quoted, or mean something else to another shell.
            head, bracket, _ = name.partition("[")
            pattern = re.compile(fnmatch.translate(head + "*" if bracket else head))
            for place, is_linked in above:
                if _IN_PATTERN.search(name):
                    entries = [(entry.name, entry.is_symlink()) for entry in _entries_of(place)]
                else:
                    entries = [(name, os.path.islink(f"{place}/{name}"))] if _exists(f"{place}/{name}") else []
                self._visited += len(entries) + 1
                if self._visited > _MAX_VISITED:
                    raise _TooMany
                for entry, is_link in entries:
                    if pattern.match(entry) and (name == entry or not entry.startswith(".")):
                        here = f"{place}/{entry}"
                        if is_link and _is_of_process(here):
                            raise _TooMany
                        found.append((here, is_linked or is_link))
        return found

    def _expanded(self, text: str) -> str:
        return os.path.expanduser(text) if text == "~" or text.startswith("~/") else text

    def _relative(self, path: str) -> str:
        for root in (self.root, self._given_root):
            if path == root:
                return "."
            if path.startswith(root + "/"):
                return path[len(root) + 1 :]
        home = os.path.expanduser("~")
        return f"~{path[len(home) :]}" if path.startswith(home + "/") and home != "/" else normal_path(path)


def _first(word: Word) -> str:
    """The name of a command; one with blanks is quoted, so that it is not taken for two words."""
    return word.text if word.text and not re.search(r"\s", word.text) else f"'{word.text}'"


def _shown(assignments: Sequence[tuple[str, Word]]) -> str:
    """Those that may change what the command does, each with a blank behind: a rule that allows the command alone does
    not fit then."""
    return "".join(
        f"{name}={value.text if _PLAIN_VALUE.fullmatch(value.text) else '(value)'} "
        for name, value in assignments
        if not HARMLESS_VARIABLES.fullmatch(name)
    )


def _is_odd(pattern: str) -> bool:
    """Whether it may name hidden files, or goes back up from what it names: what is above is known when it runs."""
    found = _IN_PATTERN.search(pattern)
    return found is not None and (
        ".." in pattern[found.end() :] or re.search(r"(^|/)\.[^/]*[*?\[]", pattern) is not None
    )


def _is_of_process(path: str) -> bool:
    """Whether an absolute path leads through what is another file for each process."""
    waiting, at = path.split("/")[::-1], ""
    links = 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            at = at.rpartition("/")[0]
        elif name not in ("", "."):
            at = f"{at}/{name}"
            if _OF_PROCESS.match(at):
                return True
            try:
                target = os.readlink(at)
            except (OSError, ValueError):
                continue
            links += 1
            if links > _MAX_LINKS:
                return False  # the kernel follows no more
            at = "" if target.startswith("/") else at.rpartition("/")[0]
            waiting += target.split("/")[::-1]
    return False


def _entries_of(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, _MAX_VISITED))
    except (OSError, ValueError):
        return []


def _may_be_exported(assignment: tuple[str, Word]) -> bool:
    """Names in small letters that our environment has not are a line's own, such as that of a loop."""
    name, _ = assignment
    return not name.islower() or name in os.environ


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _hosts(words: Sequence[Word]) -> Iterator[str]:
    name = program_name(words[0].text)
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    if name == "git" and operands and operands[0].text in _GIT_NETWORK:
        is_address = [word for word in operands[1:] if "://" in word.text or re.match(r"[\w.-]+@[\w.-]+:", word.text)]
        if operands[0].text == "remote" and not is_address:
            return
        yield from map(_host, is_address or [Word("*")])
    elif name in _NETWORK:
        addresses = [word for word in operands if "." in word.text or "://" in word.text or ":" in word.text]
        # Without a dot a word may be a host, or the value of an option.
        yield from map(_host, addresses or (operands[:1] if name in _TAKES_HOST else []) or [Word("*")])


def _host(word: Word) -> str:
    found = _HOST.match(word.text)
    return found[1].lower() if found and word.certainty is Certainty.KNOWN else "*"
