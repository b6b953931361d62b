"""What a command line would reach: the accesses that `decide` judges.

    accesses_of("cat notes | tee out; git push", project)
    # execute cat notes, read notes, execute tee out, write out, execute git push

Each simple command counts, wherever it stands; one that others start (`env`, `xargs`, `sh -c`) counts for itself beside
them. A program may do what its rules do not say: `make` runs what its file says. Rules are about what a model asks for;
what holds a program is the sandbox.
"""

import os
import re
from collections.abc import Iterator, Sequence
from glob import iglob
from pathlib import Path

from gadget_api.permissions import Access, Capability
from gadget_drone.permissions.files import files_of
from gadget_drone.permissions.named import Named
from gadget_drone.permissions.names import names
from gadget_drone.permissions.patterns import ANY_OF, CHANGED_BY_GIT, UNKNOWN, UNREADABLE, normal_path
from gadget_drone.permissions.programs import TRANSPARENT, Command, changes_what_runs, program_name, started_by
from gadget_drone.permissions.reading import HARMLESS_VARIABLES, read_by
from gadget_drone.permissions.syntax import Parsed, Redirection, Simple, parse
from gadget_drone.permissions.tracked import tracked_secrets
from gadget_drone.permissions.words import Certainty, Unreadable, Word

_MAX_SHOWN = 2000
_MAX_NESTING = 8
_MAX_ACCESSES = 400
_MAX_WORDS = 2000
_MAX_DIRECTORIES = 8
_MAX_GLOBBED = 2000
_MAX_LOOKED_AT = 50_000
_HIDDEN_SECRET = re.compile(
    r"\.env(\..*|rc)?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|\.htpasswd|id_(rsa|dsa|ecdsa|ed25519)"
)
_NO_SECRETS_BELOW = frozenset({".git", "node_modules"})
_NO_FILES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "-"})
_NETWORK = names("curl wget ssh scp sftp ftp telnet nc ncat netcat rsync ping http https xh aria2c")
_TAKES_HOST = frozenset({"ssh", "telnet", "ping", "ftp", "sftp"})
_GIT_NETWORK = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote"})
_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)(?::\d+)?(?::|/|$)")


def accesses_of(command: str, project_dir: Path) -> tuple[Access, ...]:
    """What `/bin/sh -c command`, run in `project_dir`, would reach, without repeats; never nothing.

    It looks at the file system to follow symlinks: call it in a thread. What cannot be read is an EXECUTE whose target
    begins with `UNREADABLE`; a `command` that begins so (input for a program) is one, and is looked through besides.
    """
    found = _Found(project_dir)
    found.script(command, 0)
    if command.startswith(UNREADABLE):
        found.accesses.pop(Access(capability=Capability.EXECUTE, target="unreadable"), None)  # the mark itself
    return tuple(found.accesses) or (Access(capability=Capability.EXECUTE, target=command[:_MAX_SHOWN]),)


class _Found:
    def __init__(self, project_dir: Path) -> None:
        self._root = os.path.realpath(project_dir)
        self._given_root = os.path.abspath(project_dir)
        self._directories: list[str] = [""]
        """Where the commands may run, relative to the project or absolute."""
        self._is_lost = False
        """Whether they may run elsewhere, too."""
        self.accesses: dict[Access, None] = {}

    def script(self, text: str, nesting: int) -> None:
        try:
            if nesting > _MAX_NESTING:
                raise Unreadable("it is nested too deeply")
            parsed = parse(text)
        except (Unreadable, RecursionError):
            return self._unreadable(text)
        if not _is_calculation_known(parsed):
            self._unreadable(text)
        if parsed.has_loops and any(_changes_directory(simple) for simple in parsed.commands):
            self._is_lost = True
        for simple in parsed.commands:
            if len(self.accesses) > _MAX_ACCESSES:
                return self._unreadable(text)
            self._simple(simple, nesting)

    def _add(self, capability: Capability, target: str, *, only_reads: bool = False) -> None:
        self.accesses[Access(capability=capability, target=target, only_reads=only_reads)] = None

    def _unreadable(self, text: str) -> None:
        self._add(Capability.EXECUTE, UNREADABLE + text.removeprefix(UNREADABLE)[:_MAX_SHOWN])

    def _simple(self, simple: Simple, nesting: int) -> None:
        for name, value in simple.assignments:
            if changes_what_runs(name):
                self._unreadable(f"{name}={value.text}")
        if simple.words:
            self._command(simple.words, simple.redirections, nesting, [name for name, _ in simple.assignments])
        for redirection in simple.redirections:
            self._redirection(redirection)

    def _command(
        self, words: Sequence[Word], redirections: Sequence[Redirection], nesting: int, variables: Sequence[str]
    ) -> None:
        """`variables`: names of those that it gets another value of."""
        line = " ".join([_first(words[0]), *(word.text for word in words[1:])])
        if words[0].certainty is not Certainty.KNOWN and words[0].text not in ("[", "[["):
            return self._unreadable(line)
        read = read_by(words[:_MAX_WORDS])
        name = program_name(words[0].text)
        try:
            if nesting > _MAX_NESTING or len(words) > _MAX_WORDS:
                raise Unreadable("it is nested too deeply, or too long")
            started = list(started_by(words, redirections))
            is_transparent = words[0].text in TRANSPARENT and bool(started)
        except Unreadable:
            self._unreadable(line)
            started, is_transparent, read = [], False, None
        if not all(map(HARMLESS_VARIABLES.fullmatch, variables)) or (name == "git" and not self._is_own_repository()):
            is_transparent, read = False, None
        self._add(Capability.EXECUTE, line, only_reads=is_transparent or read is not None)
        for named in read if read is not None else files_of(words[:_MAX_WORDS]):
            self._file(named)
        for host in _hosts(words):
            self._add(Capability.NETWORK, host)
        if name in ("cd", "pushd", "popd"):
            self._change_directory(words[1:])
        for inner in started:
            if isinstance(inner, Command):
                self._command(inner.words, redirections, nesting + 1, [*variables, *inner.variables])
            else:
                self.script(inner.text, nesting + 1)

    def _redirection(self, redirection: Redirection) -> None:
        operator, target = redirection.operator, redirection.target
        if operator.startswith("<<"):
            return
        if operator in (">&", "<&") and (target.text.rstrip("-").isdigit() or target.text == "-"):
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

    def _file(self, named: Named) -> None:
        word = named.word
        if word.text in _NO_FILES or word.text == "" or "\0" in word.text:
            return
        is_hidden_glob = re.search(r"(^|/)\.[^/]*[*?\[]|[*?\[][^/]*\.\.", word.text)
        if word.certainty is Certainty.UNKNOWN or (word.certainty is Certainty.GLOB and is_hidden_glob):
            is_git = UNKNOWN + word.text == CHANGED_BY_GIT
            if named.is_sure or word.text.startswith("$") or (is_git and self._is_in_repository()):
                self._add(named.capability, UNKNOWN + word.text)
            return
        text = self._expanded(word.text)
        for directory in self._directories:
            path = os.path.join(self._root, directory, text)
            if word.certainty is Certainty.GLOB:
                if named.is_sure:
                    self._glob(named.capability, path)
                continue
            if not named.is_sure and not _exists(path):
                continue
            self._path(named, path)
        if self._is_lost and named.is_sure and not text.startswith("/"):
            self._add(named.capability, UNKNOWN + text)

    def _path(self, named: Named, path: str) -> None:
        # Where the text leads and where the links lead: `ln -s` must not make another file of it.
        for found in dict.fromkeys((self._relative(os.path.normpath(path)), self._relative(os.path.realpath(path)))):
            is_deep = named.is_deep and not os.path.isfile(path)
            self._add(named.capability, f"{found.rstrip('/')}/" if is_deep else found)
        if named.is_tracked and os.path.normpath(path) == self._root:
            for name in tracked_secrets(self._root):
                self._add(Capability.READ, name)
        elif named.is_deep and not named.is_tracked and named.capability is Capability.READ:
            for entry in _likely_secrets(path, skips_hidden=named.skips_hidden):
                self._add(Capability.READ, self._relative(entry))

    def _is_own_repository(self) -> bool:
        """Whether git finds the project's own repository where the commands run, and none that lies among the files:
        the configuration of that one may name programs to run."""
        places = [os.path.realpath(os.path.join(self._root, directory)) for directory in self._directories]
        return not self._is_lost and all(map(self._leads_to_own, places))

    def _leads_to_own(self, place: str) -> bool:
        while place.startswith(f"{self._root}/"):
            if _exists(f"{place}/.git") or _exists(f"{place}/HEAD"):
                return False
            place = os.path.dirname(place)
        return place == self._root and (_exists(f"{place}/.git") or not _exists(f"{place}/HEAD"))

    def _is_in_repository(self) -> bool:
        """Whether git may find a repository where the commands run: without one it has no stash."""
        places = [Path(self._root, directory) for directory in self._directories]
        return self._is_lost or any(_exists(str(at / ".git")) for place in places for at in (place, *place.parents))

    def _glob(self, capability: Capability, path: str) -> None:
        fixed = re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        for start in dict.fromkeys((os.path.normpath(fixed), os.path.realpath(fixed))):
            self._add(capability, ANY_OF + self._relative(os.path.normpath(start + path[len(fixed) :])))
        for number, found in enumerate(iglob(path)):
            if number >= _MAX_GLOBBED:
                return self._add(capability, UNKNOWN + self._relative(path))
            real = os.path.realpath(found)
            if real != os.path.join(os.path.realpath(os.path.dirname(found)), os.path.basename(found)) or (
                not f"{real}/".startswith(f"{self._root}/")
            ):
                self._add(capability, self._relative(real))  # a link

    def _expanded(self, text: str) -> str:
        return os.path.expanduser(text) if text == "~" or text.startswith("~/") else text

    def _relative(self, path: str) -> str:
        for root in (self._root, self._given_root):
            if path == root:
                return "."
            if path.startswith(root + "/"):
                return path[len(root) + 1 :]
        home = os.path.expanduser("~")
        return f"~{path[len(home) :]}" if path.startswith(home + "/") and home != "/" else normal_path(path)


def _first(word: Word) -> str:
    """The name of a command; one with blanks is quoted, so that it is not taken for two words."""
    return word.text if word.text and not re.search(r"\s", word.text) else f"'{word.text}'"


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _likely_secrets(directory: str, *, skips_hidden: bool) -> Iterator[str]:
    """Below it: what a search through a directory would print. Of keys those directly in it, for below there are many
    certificates, which are none."""
    looked_at = 0
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if name not in _NO_SECRETS_BELOW]
        looked_at += len(files) + len(directories)
        for name in files:
            if (_HIDDEN_SECRET.fullmatch(name) and not skips_hidden) or (name.endswith(".pem") and place == directory):
                yield os.path.realpath(os.path.join(place, name))
        if looked_at > _MAX_LOOKED_AT or skips_hidden:
            return


def _changes_directory(simple: Simple) -> bool:
    return bool(simple.words) and simple.words[0].text in ("cd", "pushd", "popd")


def _is_calculation_known(parsed: Parsed) -> bool:
    """Whether arithmetic is about numbers alone: bash runs the index in the value of a variable."""
    if not parsed.calculated:
        return True
    values: dict[str, list[Word]] = {}
    for simple in parsed.commands:
        for name, value in simple.assignments:
            values.setdefault(name, []).append(value)
        if simple.words and simple.words[0].text in (
            "read",
            "getopts",
            "export",
            "printf",
            "set",
            "local",
            "readonly",
            "declare",
        ):
            for word in simple.words[1:]:
                values.setdefault(word.text.partition("=")[0], []).append(Word("$", Certainty.UNKNOWN))
    for name in parsed.calculated:
        if name not in values:
            return False
        for value in values[name]:
            if not re.fullmatch(r"-?\d*|\$\(\([^$`\[]*\)\)", value.text):
                return False
    return True


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
