"""What programs start in turn: those that take a command as their arguments, and those that take it as text.

Nothing here has to be complete for a denial to hold: `decide` looks for what is denied in the arguments of programs it
does not know, too (and then asks). It has to be right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gadget_drone.permissions.names import names
from gadget_drone.permissions.options import Given, Options
from gadget_drone.permissions.syntax import Redirection
from gadget_drone.permissions.words import Certainty, Unreadable, Word

HARMLESS_VARIABLES = re.compile(
    r"LC_(ALL|COLLATE|CTYPE|MESSAGES|NUMERIC|TIME)|LANG|TZ|CI|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|COLUMNS|LINES|TERM|"
    r"DEBUG|VERBOSE|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|GIT_TERMINAL_PROMPT"
)
"""A rule that allows a command allows it with these before it, too."""
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


@dataclass(frozen=True)
class Prefix:
    """A program that runs the command behind its own options."""

    with_value: tuple[str, ...] = ()
    """Options that take the next word, where they hold no value themselves."""
    operands: int = 0
    """Words of its own before the command."""


@dataclass(frozen=True)
class Transparent:
    """A program that runs the command behind its own options. With an option that is not known here, it is not known
    what the program runs."""

    options: Options
    operands: int = 0
    """Words of its own before the command."""


def _transparent(table: str, operands: int = 0) -> Transparent:
    return Transparent(Options(table, stops=True), operands)


TRANSPARENT = {
    "env": _transparent("-iu0v -u: --ignore-environment --unset: --null --debug"),
    "command": _transparent("-p"),
    "builtin": _transparent(""),
    "exec": _transparent("-cl -a:"),
    "nohup": _transparent(""),
    "nice": _transparent("-n: -# --adjustment:"),
    "ionice": _transparent("-t -c: -n: --class: --classdata: --ignore"),
    "timeout": _transparent("-v -s: -k: --signal: --kill-after: --foreground --preserve-status --verbose", operands=1),
    "time": _transparent("-pv -f: -o> --format: --output> --portability --verbose"),
    "setsid": _transparent("-cfw --ctty --fork --wait"),
    "stdbuf": _transparent("-i: -o: -e: --input: --output: --error:"),
    "xargs": _transparent(
        "-0rtx -I: -i? -n: -P: -L: -s: -d: -E: -a< --null --no-run-if-empty --verbose --exit --max-args: --max-procs: "
        "--max-lines? --max-chars: --delimiter: --replace? --arg-file<"
    ),
}
TRANSPARENT["gtimeout"] = TRANSPARENT["timeout"]
PREFIXES = {
    "sudo": Prefix(
        (
            "-u",
            "-g",
            "-h",
            "-p",
            "-C",
            "-T",
            "-R",
            "-D",
            "-r",
            "-t",
            "-U",
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chdir",
            "--chroot",
            "--role",
            "--type",
            "--close-from",
            "--command-timeout",
        )
    ),
    "doas": Prefix(("-u", "-C")),
    "runuser": Prefix(("-u", "--user", "-g", "-G")),
    "setpriv": Prefix(("--reuid", "--regid", "--groups", "--inh-caps", "--bounding-set")),
    "chroot": Prefix(operands=1),
    "taskset": Prefix(operands=1),
    "chrt": Prefix(operands=1),
    "strace": Prefix(("-e", "-o", "-p", "-s", "-u", "-E", "-P", "-a", "-O", "-S", "-X", "-I", "-b")),
    "ltrace": Prefix(("-e", "-o", "-p", "-s", "-u", "-n", "-a", "-A", "-l", "-x")),
    "valgrind": Prefix(),
    "fakeroot": Prefix(("-l", "-s", "-i", "-f", "-b")),
    "unshare": Prefix(("-S", "-G", "-R", "-w")),
    "nsenter": Prefix(("-t", "-S", "-G")),
    "busybox": Prefix(),
    "toybox": Prefix(),
    "npx": Prefix(("-p", "--package", "-w", "--workspace")),
    "pnpx": Prefix(("-p", "--package")),
    "bunx": Prefix(("-p", "--package")),
    "xvfb-run": Prefix(("-n", "-s", "-e", "-f", "-p", "-w")),
    "uvx": Prefix(("--from", "--with", "-p", "--python")),
}
RUNNERS = {
    ("npm", "exec"), ("npm", "x"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"), ("uv", "run"),
    ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("rye", "run"), ("hatch", "run"), ("bundle", "exec"),
    ("bun", "x"), ("mise", "exec"), ("conda", "run"),
}  # fmt: skip
"""First and second word; the command comes behind options."""
_RUNNER = Prefix(
    ("--with", "--python", "--directory", "--project", "--extra", "--group", "--package", "-p", "-n", "-c")
)

SHELLS = frozenset(
    {"sh", "bash", "dash", "ash", "ksh", "mksh", "rbash", "zsh", "fish", "csh", "tcsh", "pwsh", "nu", "xonsh"}
)
_POSIX_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "rbash"})
_SHELL_VALUE = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_INTERPRETERS = {
    "python": "c", "pypy": "c", "ipython": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "bun": "ep",
    "php": "rBRE", "lua": "e", "luajit": "e", "osascript": "e", "tclsh": "", "wish": "", "guile": "c", "Rscript": "e",
    "julia": "eE", "groovy": "e", "elixir": "e", "ghc": "e", "swipl": "g", "ocaml": "e", "raku": "e", "clojure": "e",
}  # fmt: skip
"""Name -> the letters of options that take a program."""
_INTERPRETER = re.compile(r"(?P<name>" + "|".join(_INTERPRETERS) + r")[\d.]*(?:\.exe)?")
_OPAQUE = names(
    "alias at batch parallel expect tmux screen entr watchexec crontab vi vim nvim view ex ed emacs nano gdb lldb "
    "shopt enable complete compgen bind let fc coproc rlwrap unbuffer script deno"
)
"""What these run, or change about what is run, is not known."""
_AWK = frozenset({"awk", "gawk", "mawk", "nawk"})
_AWK_RUNS = re.compile(r"system|getline|[|>@]|extension|load")
_SED_LINES = re.compile(r"((\d+|\$|/[^/\\\[\n]*/)(,(\d+|\$|\+\d+|/[^/\\\[\n]*/))?)?!?[pdq=]")
_SED_REPLACES = re.compile(
    r"(\d+|\$)?s(?P<mark>[/|#,:@])(?:(?!(?P=mark))[^\\\[\n]|\\.)*(?P=mark)(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gpiI0-9]*"
)
_OPTIONS_THAT_RUN = {
    "tar": ("--to-command", "--checkpoint-action", "-I", "--use-compress-program", "--rsh-command", "-F",
            "--info-script", "--new-volume-script"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-o"), "sftp": ("-S", "-o", "-D"), "ssh": ("-o", "-F"),
    "sort": ("--compress-program",), "split": ("--filter",), "man": ("-P", "--pager", "-H"), "zip": ("-T", "-TT"),
    "rg": ("--pre", "--hostname-bin"), "make": ("SHELL",), "mapfile": ("-C",), "readarray": ("-C",), "hash": ("-p",),
    "less": ("+",), "gcc": ("-wrapper",), "git": ("-c", "--config-env", "--exec-path", "--upload-pack", "-u",
            "--receive-pack", "--exec", "-x", "--extcmd", "-O", "--open-files-in-pager"),
    "curl": ("-K", "--config"), "wget": ("--use-askpass",), "tcpdump": ("-z",),
}  # fmt: skip
_PUSHES = (("send-pack",), ("http-push",), ("subtree", "push"), ("lfs", "push"))
"""Subcommands that push under another name."""
_SAFE_GIT_SETTINGS = re.compile(r"(user\.|color\.|advice\.|core\.quotepath|core\.autocrlf|init\.defaultBranch)", re.I)
_PRINTF_ASSIGNS = re.compile(r"%[^%a-zA-Z]*[hlLjztqw]*n")
_NAMES_VARIABLES = names("printf read unset export declare typeset local readonly test [ [[ getopts wait")
CHANGES_WHAT_RUNS = re.compile(
    r"PATH|LD_.*|DYLD_.*|GIT_.*|BASH_.*|ENV|IFS|PS4|SHELLOPTS|SHELL|PAGER|MANPAGER|LESSOPEN|EDITOR|VISUAL|BROWSER|"
    r"NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL5.*|RUBY.*|JAVA_TOOL_OPTIONS|CDPATH|PROMPT_COMMAND|RIPGREP_CONFIG_PATH|HOME|"
    r"POSIXLY_CORRECT|GREP_OPTIONS|GCONV_PATH|XDG_CONFIG_HOME"
)
"""Variables; PYTHONUNBUFFERED and its kind are not among them."""
_HARMLESS = frozenset({"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS", "PYTHONHASHSEED", "GIT_PAGER",
                       "PYTHONIOENCODING", "GIT_TERMINAL_PROMPT"})  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command that another runs."""

    words: tuple[Word, ...]


@dataclass(frozen=True)
class Script:
    """Text that a shell runs."""

    text: str


Started = Command | Script


def program_name(word: str) -> str:
    """`git` of `/usr/bin/git`; file systems that do not tell GIT from git run it too."""
    return word.rpartition("/")[2].casefold()


def runs_files(name: str) -> bool:
    """Whether the program runs what is in a file that its arguments name."""
    return name in SHELLS or name in (".", "source") or _INTERPRETER.fullmatch(name) is not None


def changes_what_runs(variable: str) -> bool:
    return variable not in _HARMLESS and CHANGES_WHAT_RUNS.fullmatch(variable) is not None


def started_by(words: Sequence[Word], redirections: Sequence[Redirection] = ()) -> Iterator[Started]:
    """What the command `words` starts by its arguments. Raises Unreadable where that is not known."""
    name, arguments = program_name(words[0].text), words[1:]
    texts = [word.text for word in arguments]
    if name in _OPAQUE:
        raise Unreadable(f"what `{name}` runs is not known")
    if name in TRANSPARENT:
        yield from _behind_transparent(name, arguments)
    elif name in PREFIXES:
        yield from _behind(PREFIXES[name], arguments)
    elif texts and (name, texts[0]) in RUNNERS:
        yield from _behind(_RUNNER, arguments[1:])
    elif name in (".", "source"):
        for word in arguments[:1]:
            _known(word)
    elif name in SHELLS:
        yield from _shell(name, arguments, redirections)
    elif name == "eval":
        yield Script(" ".join(map(_known, arguments)))
    elif name == "trap" and arguments and not texts[0].startswith("-"):
        yield Script(_known(arguments[0]))
    elif name == "su":
        yield from _su(arguments)
    elif name == "ssh":
        _check_options(name, arguments)
        yield from _ssh(arguments)
    elif name == "watch":
        yield from _joined(arguments, ("-n", "--interval"))
    elif name == "flock":
        yield from _flock(arguments)
    elif name == "find":
        yield from _find(arguments)
    elif found := _INTERPRETER.fullmatch(words[0].text.rpartition("/")[2]):
        _check_interpreter(name, _INTERPRETERS[found["name"]], arguments)
    elif name.startswith("git-"):
        yield Command((Word("git"), Word(name.removeprefix("git-")), *arguments))
    elif name in _AWK:
        _check_awk(name, arguments)
    elif name in ("sed", "gsed"):
        _check_sed(arguments)
    elif name == "git":
        yield from _git(arguments)
    elif name in _OPTIONS_THAT_RUN:
        _check_options(name, arguments)
    elif name in _NAMES_VARIABLES:
        _check_variables(name, arguments)


def _known(word: Word) -> str:
    if word.certainty is not Certainty.KNOWN:
        raise Unreadable(f"`{word.text}` is not known before it runs")
    return word.text


def _behind(prefix: Prefix, arguments: Sequence[Word]) -> Iterator[Started]:
    """The command, as far as the options are known: the program is judged by its own name, too."""
    rest, operands = list(arguments), prefix.operands
    while rest:
        text = rest[0].text
        if rest[0].certainty is Certainty.UNKNOWN and not ASSIGNMENT.match(text):
            break  # an option, or already the command
        if text == "--":
            rest.pop(0)
        elif text.startswith("-"):
            rest.pop(0)
            if text in prefix.with_value and rest:
                rest.pop(0)
        elif ASSIGNMENT.match(text):
            if changes_what_runs(text.partition("=")[0]):
                raise Unreadable(f"`{text}` changes what is run")
            rest.pop(0)
        elif operands:
            operands -= 1
            rest.pop(0)
        else:
            break
    if rest:
        yield Command(tuple(rest))


def _behind_transparent(name: str, arguments: Sequence[Word]) -> Iterator[Started]:
    if name == "command" and [word.text for word in arguments[:1]] in (["-v"], ["-V"]):
        return
    known = TRANSPARENT[name]
    given = known.options.read(arguments)
    rest = list(given.operands[known.operands :])
    if name == "env":
        while rest and (rest[0].text == "-" or "=" in rest[0].text):
            # Whatever holds a = is an assignment, whether a shell could name it so or not.
            if rest[0].may_split:
                raise Unreadable(f"`{rest[0].text}` may be an assignment and a command")
            variable, is_assigned, _ = rest.pop(0).text.partition("=")
            if is_assigned and changes_what_runs(variable):
                raise Unreadable(f"`{variable}` changes what is run")
    if not rest:
        return
    if name == "time" and rest[0].is_plain and rest[0].text in ("!", "{", "("):
        raise Unreadable("`time` is not the same in every shell")
    if name == "xargs":
        rest = [*_filled(given, rest), Word("$@", Certainty.UNKNOWN, is_plain=False, may_split=True)]
    yield Command(tuple(rest))


def _filled(given: Given, command: Sequence[Word]) -> Iterator[Word]:
    """The words of a command, those unknown in which xargs puts what it reads (`-I{}`), the name of the command too."""
    marks = {value.text if value is not None else "{}" for option, value in given.options
             if option in ("-I", "-i", "--replace")}  # fmt: skip
    for word in command:
        is_filled = any(mark in word.text for mark in marks)
        yield Word("$@", Certainty.UNKNOWN, is_plain=False, may_split=True) if is_filled else word


def _shell(name: str, arguments: Sequence[Word], redirections: Sequence[Redirection]) -> Iterator[Started]:
    rest, takes_text, takes_input = list(arguments), False, False
    while rest and _known(rest[0])[:1] in ("-", "+") and len(rest[0].text) > 1:
        option = rest.pop(0).text
        if option == "--":
            break
        if option in ("--version", "--help"):
            return
        takes_text = takes_text or (option[:2] != "--" and option[0] == "-" and "c" in option)
        takes_input = takes_input or (option[:2] != "--" and option[0] == "-" and "s" in option)
        if option in _SHELL_VALUE or (option[1:2] != "-" and option[-1] in "oO"):
            if rest and not option.startswith("--"):
                rest.pop(0)
            elif rest:
                raise Unreadable("the shell reads a file of settings")
    if takes_text:
        if not rest:
            return
        if name not in _POSIX_SHELLS:
            raise Unreadable(f"the language of `{name}` is another one")
        yield Script(_known(rest[0]))
    elif takes_input or not rest or rest[0].text == "-":
        documents = [r.target for r in redirections if r.operator in ("<<", "<<-", "<<<")]
        if not documents or len(documents) != len([r for r in redirections if r.operator.startswith("<")]):
            raise Unreadable(f"what `{name}` reads and runs is not known")
        if name not in _POSIX_SHELLS:
            raise Unreadable(f"the language of `{name}` is another one")
        yield Script(_known(documents[-1]))


def _su(arguments: Sequence[Word]) -> Iterator[Started]:
    for option, value in pairwise(arguments):
        if option.text in ("-c", "--command"):
            yield Script(_known(value))
            return
    raise Unreadable("what `su` runs is not known")


def _ssh(arguments: Sequence[Word]) -> Iterator[Started]:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option[-1:] in "BbcDEeFIiJLlmOoPpRSWw" and len(option) == 2 and rest:
            rest.pop(0)
    if len(rest) > 1:
        yield Script(" ".join(map(_known, rest[1:])))


def _joined(arguments: Sequence[Word], with_value: tuple[str, ...]) -> Iterator[Started]:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-"):
        if rest.pop(0).text in with_value and rest:
            rest.pop(0)
    if rest:
        yield Script(" ".join(map(_known, rest)))


def _flock(arguments: Sequence[Word]) -> Iterator[Started]:
    rest = [word for word in arguments if word.text != "-n" and word.text != "-x" and word.text != "-s"]
    if any(word.text.startswith("-") for word in rest[:2]):
        if len(rest) == 3 and rest[1].text in ("-c", "--command"):
            yield Script(_known(rest[2]))
            return
        raise Unreadable("what `flock` runs is not known")
    if len(rest) > 1:
        yield Command(tuple(rest[1:]))


def _find(arguments: Sequence[Word]) -> Iterator[Started]:
    rest = list(arguments)
    if any(word.certainty is Certainty.UNKNOWN and word.text[:1] in "$`" for word in rest[1:]):
        raise Unreadable("the arguments of `find` are not known")
    while rest:
        if rest.pop(0).text in ("-exec", "-execdir", "-ok", "-okdir"):
            command: list[Word] = []
            last = ""
            while rest and rest[0].text != ";" and not (rest[0].text == "+" and last == "{}"):
                word = rest.pop(0)
                last = word.text
                command.append(Word("$@", Certainty.UNKNOWN) if "{}" in last else word)
            if command:
                yield Command(tuple(command))


def _check_interpreter(name: str, letters: str, arguments: Sequence[Word]) -> None:
    for word in arguments:
        text = word.text
        if word.certainty is Certainty.UNKNOWN:
            raise Unreadable(f"`{text}` is not known before it runs")
        if not text.startswith("-") or text == "-":
            if text == "-":
                break
            return
        if text in ("-m", "--version", "-V", "-v", "--help", "-h", "--test", "--check"):
            return
        if not text.startswith("--") and any(letter in text[1:] for letter in letters):
            raise Unreadable(f"what the program in `{name} {text}` does is not known")
        if text.split("=")[0] in ("--eval", "--print", "--run", "--execute", "--command"):
            raise Unreadable(f"what the program in `{name} {text}` does is not known")
    raise Unreadable(f"what `{name}` reads and runs is not known")


def _check_awk(name: str, arguments: Sequence[Word]) -> None:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        option = rest.pop(0).text
        if option.startswith(("-f", "--file", "-e", "--source", "-i", "-l", "-E")):
            raise Unreadable(f"what the program of `{name}` does is not known")
        if option in ("-F", "-v") and rest:
            rest.pop(0)
    if rest and (_AWK_RUNS.search(_known(rest[0]).replace(">=", "")) is not None):
        raise Unreadable(f"what the program of `{name}` does is not known")


def sed_script(arguments: Sequence[Word]) -> tuple[list[Word], list[Word], bool]:
    """The scripts, the files, and whether it changes them."""
    scripts: list[Word] = []
    files: list[Word] = []
    in_place, rest = False, list(arguments)
    while rest:
        word = rest.pop(0)
        if word.text in ("-e", "--expression") and rest:
            scripts.append(rest.pop(0))
        elif word.text.startswith("-") and len(word.text) > 1:
            in_place = in_place or "i" in word.text
            if word.text.startswith(("-f", "--file", "-e", "--expression")):
                scripts.append(Word("e", Certainty.UNKNOWN))
        else:
            files.append(word)
    if not scripts and files:
        scripts.append(files.pop(0))
    return scripts, files, in_place


def _check_sed(arguments: Sequence[Word]) -> None:
    for script in sed_script(arguments)[0]:
        for part in _known(script).split(";"):
            if part.strip() and not _SED_LINES.fullmatch(part.strip()) and not _SED_REPLACES.fullmatch(part.strip()):
                raise Unreadable("what the script of `sed` does is not known")


def _git(arguments: Sequence[Word]) -> Iterator[Started]:
    texts = [word.text for word in arguments]
    rest = list(arguments)
    for push in _PUSHES:
        at = next((index for index in range(len(texts)) if tuple(texts[index : index + len(push)]) == push), None)
        if at is not None:
            yield Command((Word("git"), Word("push"), *arguments[at + len(push) :]))
    while len(rest) > 1 and rest[0].text == "-c" and _SAFE_GIT_SETTINGS.match(rest[1].text):
        rest = rest[2:]
    subcommand = next((text for text in texts if not text.startswith("-")), "")
    if subcommand not in ("log", "diff", "show", "status", "checkout", "switch", "add", "branch", "commit", "stash"):
        # To push, -u is no program but what to follow.
        _check_options("git", [word for word in rest if subcommand != "push" or word.text != "-u"])
    else:
        before = [word for word in rest[: next((i for i, w in enumerate(rest) if w.text == subcommand), 0)]]
        _check_options("git", before)
    if subcommand in ("filter-branch", "difftool", "mergetool", "send-email", "instaweb") or any(
        "ext::" in t for t in texts
    ):
        raise Unreadable(f"what `git {subcommand}` runs is not known")
    if subcommand == "config" and any(
        re.match(r"(alias|core|filter|diff|merge|credential|include|gpg|pager)", t, re.I) for t in texts[1:]
    ):
        raise Unreadable("a setting of git can be a command")
    at = next((index for index, text in enumerate(texts) if text in ("foreach", "run")), None)
    if at is not None and subcommand in ("submodule", "bisect") and len(arguments) > at + 1:
        yield Script(" ".join(map(_known, (word for word in arguments[at + 1 :] if word.text != "--recursive"))))


def _check_options(name: str, arguments: Sequence[Word]) -> None:
    for word in arguments:
        for option in _OPTIONS_THAT_RUN[name]:
            is_short = len(option) == 2 and option[0] == "-"
            given = word.text.split("=")[0]
            if (
                word.text.startswith(option)
                if is_short or not option.startswith("-")
                else (given.startswith("--") and len(given) > 3 and option.startswith(given)) or given == option
            ):
                raise Unreadable(f"`{name} {word.text}` can run a command")


def _may_assign(template: Word) -> bool:
    return template.certainty is Certainty.UNKNOWN or _PRINTF_ASSIGNS.search(template.text) is not None


def _check_variables(name: str, arguments: Sequence[Word]) -> None:
    # `%n` gives a variable a value, such as PATH.
    if name == "printf" and len(arguments) > 1 and _may_assign(arguments[0]):
        raise Unreadable("what `printf` gives a value to is not known")
    for word in arguments:
        if name not in ("printf", "test", "[", "[[") and changes_what_runs(word.text.partition("=")[0]):
            raise Unreadable(f"`{word.text}` changes what is run")
        if "[" in word.text[1:] and ("$(" in word.text or "`" in word.text) and name != "printf":
            raise Unreadable("an index can run a command")
        if name == "printf" and word.text.startswith("-v"):
            raise Unreadable("an index can run a command")
    if name in ("test", "[", "[[") and any(word.text in ("-v", "-R") for word in arguments):
        raise Unreadable("an index can run a command")
    if name == "[[" and any(word.text in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge") for word in arguments):
        raise Unreadable("`[[` calculates")
