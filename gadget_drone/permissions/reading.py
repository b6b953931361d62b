"""The commands that only read, and what they read: a short list of whole commands with whole options.

A command is known to only read when its name, each of its options and each of its operands are. Everything else is not
on the list, and the level decides about it. The list is short on purpose: a program is on it when agents use it all the
time and its options are few and plain. The tests run the programs themselves against it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gadget_api.permissions import Capability
from gadget_drone.permissions.git import files_of_git
from gadget_drone.permissions.named import Named
from gadget_drone.permissions.names import names
from gadget_drone.permissions.options import Options
from gadget_drone.permissions.programs import SED_LINES, SED_REPLACES
from gadget_drone.permissions.words import Certainty, Unreadable, Word

_READ = Capability.READ
HARMLESS_VARIABLES = re.compile(
    r"LC_(ALL|COLLATE|CTYPE|MESSAGES|NUMERIC|TIME)|LANG|TZ|CI|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|COLUMNS|LINES|TERM|"
    r"DEBUG|VERBOSE|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|GIT_PAGER|GIT_TERMINAL_PROMPT"
)
"""With another variable before it, a command is not on the list. A pager starts for a terminal alone."""


class _Operands(Enum):
    FILES = auto()
    BELOW = auto()
    """Directories, with all that is below them."""
    PATTERN = auto()
    """A pattern, unless an option gave one, and then files."""
    NONE = auto()


@dataclass(frozen=True)
class _Reader:
    operands: _Operands
    options: Options
    has_pattern: tuple[str, ...] = ()
    """Options that give the pattern."""


def _files(table: str, *, takes_globs: bool = False) -> _Reader:
    return _Reader(_Operands.FILES, Options(table, takes_globs=takes_globs))


def _below(table: str) -> _Reader:
    return _Reader(_Operands.BELOW, Options(table))


_GREP = _Reader(
    _Operands.PATTERN,
    Options(
        "-EFGPivwxcLloqsbHhnTUZzaI -r/ -e: -f< -m: -A: -B: -C: -d: -D: -# --extended-regexp --fixed-strings "
        "--basic-regexp --perl-regexp --regexp: --file< --ignore-case --no-ignore-case --invert-match --word-regexp "
        "--line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count: "
        "--only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --line-number "
        "--null --text --after-context: --before-context: --context: --binary-files: --exclude: --exclude-from< "
        "--exclude-dir: --include: --recursive/ --line-buffered",
        takes_globs=True,
    ),
    ("-e", "-f", "--regexp", "--file"),
)
_READERS = {
    "ls": _files(
        "-aAbBcCdfFgGhHiklLmnNopqQrsStuUvxXZ1 -R/ --all --almost-all --color? --directory --full-time "
        "--group-directories-first --human-readable --inode --numeric-uid-gid --recursive/ --reverse --size --sort: "
        "--time: --time-style: --classify?",
        takes_globs=True,
    ),
    "cat": _files("-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs", takes_globs=True),
    "head": _files("-c: -n: -qv -# --lines: --bytes: --quiet --verbose", takes_globs=True),
    "tail": _files("-c: -n: -qvf -# --lines: --bytes: --quiet --verbose", takes_globs=True),
    "wc": _files("-clmLw --lines --words --bytes --chars --max-line-length", takes_globs=True),
    "nl": _files("-b: -n: -s: -v: -w:", takes_globs=True),
    "tac": _files(""),
    "cut": _files(
        "-szn -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement --output-delimiter:",
        takes_globs=True,
    ),
    "sort": _files(
        "-bdfghiMnrRsuVzcC -k: -t: --reverse --numeric-sort --human-numeric-sort --version-sort --unique --ignore-case "
        "--key: --field-separator: --stable"
    ),
    "cmp": _files("-bls"),
    "comm": _files("-123"),
    "diff": _below(
            "-abBcdeipqsuwytTEZ -C: -U: -I: -x: -W: --brief --unified? --context? --ignore-all-space "
            "--ignore-space-change --ignore-blank-lines --ignore-case --side-by-side --exclude: --color? "
            "--report-identical-files --suppress-common-lines --minimal --text"
    ),
    "stat": _files("-Lt -c: --format: --printf: --dereference", takes_globs=True),
    "file": _files("-bhikLN0 -f< --brief --mime --mime-type --mime-encoding --dereference --files-from<"),
    "md5sum": _files("-btz --tag"),
    "sha1sum": _files("-btz --tag"),
    "sha256sum": _files("-btz --tag"),
    "sha512sum": _files("-btz --tag"),
    "df": _files("-ahHiklmPT --human-readable", takes_globs=True),
    "du": _below("-abchHkLlmPsSx0 -d: --max-depth: --apparent-size --summarize --human-readable --total --all"),
    "tree": _below("-adfFhiLDpsugCn -L: -I: -P: --dirsfirst --noreport --gitignore --du"),
    "realpath": _files("-eEmLPqsz", takes_globs=True),
    "readlink": _files("-femnqsvz", takes_globs=True),
    "cd": _files("-LP"),
    "date": _Reader(
        _Operands.NONE, Options("-uR -I? -d: -r< -f< --utc --universal --date: --iso-8601? --reference< --file<")
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _Reader(
        _Operands.PATTERN,
        Options(
            "-iIlnNcwxvFsSopPqHau.0U -A: -B: -C: -e: -f< -g: -m: -t: -T: -j: -M: -r: --after-context: "
            "--before-context: --context: --regexp: --file< --glob: --iglob: --type: --type-not: --max-count: "
            "--max-depth: --max-columns: --max-filesize: --sort: --sortr: --color: --colors: --replace: --threads: "
            "--files --hidden --no-ignore --no-ignore-vcs --no-heading --heading --line-number --no-line-number "
            "--column --count --count-matches --files-with-matches --files-without-match --fixed-strings "
            "--ignore-case --case-sensitive --smart-case --invert-match --word-regexp --line-regexp --multiline "
            "--multiline-dotall --only-matching --pcre2 --pretty --quiet --stats --text --trim --unrestricted "
            "--with-filename --no-filename --no-messages --null --json --type-list --no-config --max-columns-preview"
        ),
        ("-e", "-f", "--regexp", "--file", "--files", "--type-list"),
    ),
}  # fmt: skip
_ANY = names(
    "echo true false : pwd basename dirname uname whoami id nproc which type tr seq sleep exit return break continue"
)
"""Whatever they are given, they change nothing and open no file."""
_SED = Options("-nEr -e: --quiet --silent --regexp-extended --expression:")
_UNIQ = Options("-cdDiuz -f: -s: -w: --count --repeated --unique --ignore-case --skip-fields: --skip-chars:")
_FIND_TESTS = names(
    "-name -iname -path -ipath -wholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size -mtime "
    "-mmin -atime -amin -ctime -cmin -newer -perm -user -group -printf -links -lname -samefile"
)
"""Each takes a value."""
_FIND_WORDS = names(
    "( ) ! -not -o -or -a -and , -empty -print -print0 -prune -ls -readable -writable -executable -depth -mount -xdev "
    "-true -false -nouser -nogroup -quit -daystart -follow -noleaf -nowarn"
)
_UNARY = names("-b -c -d -e -f -g -h -k -L -n -O -G -N -p -r -s -S -t -u -w -x -z")
_BINARY = names("= == != -nt -ot -ef")
_NUMBERS = names("-eq -ne -lt -le -gt -ge")

_COMMITS = (
    "-n: -# --max-count: --skip: --since: --after: --until: --before: --author: --committer: --grep: -iEFP --all-match "
    "--invert-grep --merges --no-merges --first-parent --all --branches? --tags? --remotes? --oneline --pretty? "
    "--format: --abbrev-commit --no-abbrev-commit --graph --decorate? --no-decorate --follow --reverse --date: "
    "--date-order --topo-order --author-date-order --left-right --cherry-pick --full-history --simplify-by-decoration "
    "--relative-date --boundary --no-walk --walk-reflogs -g "
)
_CHANGES = (
    "-u -p -s -w -b -a -R -m -c -z -W -U? -M? -C? -S: -G: --patch --no-patch --unified: --raw --stat? --numstat "
    "--shortstat --dirstat? --summary --compact-summary --name-only --name-status --color? --no-color --no-ext-diff "
    "--no-textconv --word-diff? --color-words? --check --full-index --abbrev? --find-renames? --find-copies? "
    "--no-renames --diff-filter: --pickaxe-all --pickaxe-regex --text --ignore-all-space --ignore-space-change "
    "--ignore-blank-lines --ignore-space-at-eol --minimal --patience --histogram --function-context --relative? --cc "
    "--full-diff --quiet --exit-code "
)
_GIT = {
    "status": "-sbz -u? --short --branch --porcelain? --long --show-stash --untracked-files? --ignored?",
    "diff": f"{_CHANGES} --cached --staged --merge-base",
    "log": f"{_COMMITS} {_CHANGES} -L:",
    "show": f"{_CHANGES} --pretty? --format: --oneline --abbrev-commit --no-abbrev-commit --date: --decorate?",
    "blame": "-ltsewcfnb -L: -M? -C? --root --show-name --show-number --show-email --date: --since: --porcelain",
    "rev-parse": "-q --verify --quiet --short? --abbrev-ref? --symbolic-full-name --all --branches --show-toplevel "
    "--show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree",
    "ls-files": "-cdmoistuzk --cached --deleted --modified --others --ignored --stage --unmerged --exclude-standard "
    "--full-name --error-unmatch --directory --no-empty-directory --eol --deduplicate -x: --exclude:",
    "ls-tree": "-drtlz --long --name-only --name-status --full-name --full-tree",
    "shortlog": "-nsec --numbered --summary --email --since: --until: --all --no-merges",
    "describe": "--all --tags --contains --abbrev: --always --long --exact-match --dirty? --match: --first-parent",
    "rev-list": "-n: -# --max-count: --count --all --since: --until: --merges --no-merges --first-parent --oneline "
    "--abbrev-commit --left-right --reverse",
    "cat-file": "-tsep",
    "grep": "-inwlLchHEFGPvoqaIzpW -e: -f< -A: -B: -C: -m: -# --cached --untracked --ignore-case --line-number "
    "--word-regexp --files-with-matches --files-without-match --name-only --count --extended-regexp --fixed-strings "
    "--perl-regexp --basic-regexp --invert-match --only-matching --color? --no-color --break --heading --column "
    "--show-function --function-context --all-match --and --or --not --max-depth: --context: --after-context: "
    "--before-context: --full-name --text --quiet",
    "branch": "-arvi --all --remotes --verbose --list --show-current --merged? --no-merged? --contains? --no-contains? "
    "--sort: --points-at: --column? --color? --no-color --ignore-case --no-column",
    "tag": "-l -i --list --sort: --column? --merged? --no-merged? --contains? --no-contains? --points-at: --no-column",
    "remote": "-v --verbose",
    "reflog": "",
    "stash": "",
    "worktree": "--porcelain",
    "version": "",
}  # fmt: skip
"""Subcommand -> its options. Not here: what may run a program (`grep -O`, `--ext-diff`, `--textconv`,
`--show-signature`, `tag -v`), write (`--output`), read from a list (`--pathspec-from-file`) or use the network."""
_GIT_OPTIONS = {subcommand: Options(table) for subcommand, table in _GIT.items()}
_LISTS = {
    "branch": ("--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"),
    "tag": ("-l", "--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"),
}
"""Without one of these, an operand is the name of what is made."""
_GIT_OPERANDS = {"remote": (), "reflog": (), "version": (), "stash": ("list",), "worktree": ("list",)}
"""Subcommands with these operands alone."""


def read_by(words: Sequence[Word]) -> tuple[Named, ...] | None:
    """The files that a command reads; None where it is not known to do no more than read."""
    name, arguments = words[0].text, words[1:]
    if words[0].certainty is not Certainty.KNOWN and name not in ("[", "[["):
        return None
    try:
        if name in _ANY:
            return ()
        if name in ("test", "[", "[["):
            return _test(name, arguments)
        if name == "printf":
            return () if arguments and _is_plain_format(arguments[0]) else None
        if name == "command":
            return () if [word.text for word in arguments[:1]] in (["-v"], ["-V"]) else None
        if name == "find":
            return _find(arguments)
        if name == "sed":
            return _sed(arguments)
        if name == "uniq":
            return _uniq(arguments)
        if name == "git":
            return _git(arguments)
        return tuple(_files_read(name, arguments)) if name in _READERS else None
    except Unreadable:
        return None


def _is_plain_format(word: Word) -> bool:
    """Of printf: `-v` and `%n` give a variable a value, such as PATH."""
    return word.certainty is Certainty.KNOWN and not re.match(r"-|.*%[^a-zA-Z%]*n", word.text, re.DOTALL)


def _files_read(name: str, arguments: Sequence[Word]) -> Iterator[Named]:
    reader = _READERS[name]
    given = reader.options.read(arguments)
    operands = list(given.operands)
    if name == "date" and [word.text[:1] for word in operands] == ["+"]:
        operands = []  # the format
    if reader.operands is _Operands.NONE and operands:
        raise Unreadable(f"`{name}` may change what the operands name")
    if reader.operands is _Operands.PATTERN and not given.has(*reader.has_pattern):
        operands = operands[1:]
    is_deep = given.is_deep or reader.operands is _Operands.BELOW or name == "rg"
    skips_hidden = name == "rg" and not given.has("-u", "-.", "--hidden", "--unrestricted")
    if not operands and reader.operands is _Operands.PATTERN and is_deep:
        operands = [Word(".")]
    if not operands and name == "cd":
        operands = [Word("~")]
    for word in (*operands, *given.reads):
        yield Named(_READ, word, is_deep, skips_hidden=skips_hidden)


def _test(name: str, arguments: Sequence[Word]) -> tuple[Named, ...] | None:
    """An operator that the shell makes of an expansion may run a command: `[ -v 'a[$(command)]' ]`."""
    words, is_double = list(arguments), name == "[["
    if name != "test" and (not words or words.pop().text != "]" * len(name)):
        return None
    if not is_double and any(word.may_split or word.certainty is Certainty.GLOB for word in words):
        return None
    if words and words[0].is_plain and words[0].text == "!":
        words.pop(0)
    operators = {2: (0, _UNARY), 3: (1, _BINARY if is_double else _BINARY | _NUMBERS)}
    if len(words) in operators:
        at, known = operators[len(words)]
        if words[at].certainty is not Certainty.KNOWN or words[at].text not in known:
            return None
    return () if len(words) <= max(operators) else None


def _find(arguments: Sequence[Word]) -> tuple[Named, ...] | None:
    rest, paths = list(arguments), list[Word]()
    for word in rest:
        if word.may_split or (word.certainty is not Certainty.KNOWN and word.text[:1] in ("", *"$`{*?[-")):
            return None
    while rest and rest[0].text in ("-H", "-L", "-P"):
        rest.pop(0)
    while rest and not rest[0].text.startswith("-") and rest[0].text not in _FIND_WORDS:
        paths.append(rest.pop(0))
    while rest:
        text = rest.pop(0).text
        if text in _FIND_TESTS and rest:
            rest.pop(0)
        elif text not in _FIND_WORDS:
            return None
    return tuple(Named(_READ, word, is_sure=False) for word in paths)


def _sed(arguments: Sequence[Word]) -> tuple[Named, ...] | None:
    given = _SED.read(arguments)
    files = list(given.operands)
    scripts = [value for name, value in given.options if name in ("-e", "--expression")] or [*files[:1]]
    if len(scripts) == 1 and not given.has("-e", "--expression"):
        files = files[1:]
    for script in scripts:
        if script is None or script.certainty is not Certainty.KNOWN:
            return None
        for part in script.text.split(";"):
            if not SED_LINES.fullmatch(part.strip()) and not SED_REPLACES.fullmatch(part.strip()):
                return None
    return tuple(Named(_READ, word) for word in files) if scripts else None


def _uniq(arguments: Sequence[Word]) -> tuple[Named, ...] | None:
    operands = _UNIQ.read(arguments).operands
    if len(operands) > 1 or any(word.certainty is Certainty.GLOB or word.may_split for word in operands):
        return None  # it writes to the second
    return tuple(Named(_READ, word) for word in operands)


def _git(arguments: Sequence[Word]) -> tuple[Named, ...] | None:
    rest = list(arguments)
    while rest and rest[0].is_plain and rest[0].text in ("--no-pager", "-P", "--no-optional-locks"):
        rest.pop(0)
    if [word.text for word in rest] == ["--version"]:
        return ()
    if not rest or rest[0].certainty is not Certainty.KNOWN or rest[0].text not in _GIT_OPTIONS:
        return None
    subcommand = rest.pop(0).text
    given = _GIT_OPTIONS[subcommand].read(rest)
    operands = tuple(word.text for word in given.operands)
    if subcommand in _GIT_OPERANDS and operands != _GIT_OPERANDS[subcommand]:
        return None
    if subcommand in _LISTS and operands and not given.has(*_LISTS[subcommand]):
        return None
    if any(value is not None and "%G" in value.text for _, value in given.options):
        return None  # it runs the program that checks signatures
    return (*files_of_git(arguments), *(Named(_READ, word) for word in given.reads))
