"""Which files a `git` in a shell changes, and of which it prints what they hold.

What is not known here (an alias, a new subcommand) does both, to any file. Where paths stand behind `--` it is those.
"""

import re
from collections.abc import Iterator, Sequence

from gadget_api.permissions import Capability
from gadget_drone.permissions.named import Named
from gadget_drone.permissions.names import names
from gadget_drone.permissions.patterns import CHANGED_BY_GIT, UNKNOWN
from gadget_drone.permissions.words import Certainty, Word

_READ, _WRITE = Capability.READ, Capability.WRITE
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix")
_ELSEWHERE = ("-C", "--git-dir", "--work-tree")

_KEEPS_FILES = names(
    "status diff log show blame annotate rev-parse ls-files ls-tree shortlog describe cat-file rev-list grep add "
    "commit branch tag remote fetch push config reflog gc fsck notes for-each-ref show-ref merge-base name-rev "
    "count-objects var help version check-ignore check-attr check-mailmap check-ref-format ls-remote symbolic-ref "
    "update-ref hash-object mktree write-tree commit-tree whatchanged range-diff diff-tree diff-index diff-files "
    "prune repack verify-commit verify-tag cherry archive init maintenance pack-refs merge-tree"
)
_KEEPS_FILES_WITH = {
    "stash": names("list show drop clear create store"), "worktree": names("list prune lock unlock"),
    "submodule": names("status summary"), "bisect": names("log view visualize"), "sparse-checkout": names("list"),
}  # fmt: skip
_PRINTS_NO_FILES = names(
    "status add commit branch tag remote fetch push config init ls-files ls-tree rev-parse rev-list describe shortlog "
    "merge-base name-rev count-objects help version check-ignore check-attr check-mailmap check-ref-format ls-remote "
    "symbolic-ref update-ref show-ref hash-object gc fsck prune repack maintenance pack-refs var notes checkout switch "
    "restore reset merge pull rebase cherry-pick revert am apply rm mv clean bisect submodule stash worktree"
)
_SUMMARIES = names(
    "--stat --shortstat --numstat --name-only --name-status --summary --quiet --exit-code --no-patch -s --raw --dirstat"
)
_PLAIN_OPTIONS = re.compile(
    r"--|-\d+|-n\d*|-i|--(oneline|graph|all|reverse|merges|no-merges|first-parent|abbrev-commit|branches|tags|remotes|"
    r"follow|no-color|no-renames|cached|staged|no-ext-diff|no-textconv|date-order|topo-order)|"
    r"--(decorate|format|pretty|grep|author|committer|since|until|after|before|max-count|skip|date|color|diff-filter|"
    r"stat|abbrev)(=.*)?"
)
_COMMIT = re.compile(r"(HEAD|@)[~^\d]*")
"""What a path behind `--` surely narrows; a hash may be that of a file."""


def files_of_git(arguments: Sequence[Word]) -> Iterator[Named]:
    rest, is_elsewhere = list(arguments), False
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        is_elsewhere = is_elsewhere or option.startswith(_ELSEWHERE)
        if option in _WITH_VALUE and rest:
            rest.pop(0)
    if not rest:
        return
    subcommand, rest = rest[0].text, rest[1:]
    options, before, behind = _parts(rest)
    paths = _changed(subcommand, options, before, behind)
    if paths is None or (paths and (is_elsewhere or not all(map(_is_plain, paths)))):
        is_sure = subcommand != "stash" or [word.text for word in before[:1]] not in (["push"], ["save"])
        yield Named(_WRITE, Word(CHANGED_BY_GIT.removeprefix(UNKNOWN), Certainty.UNKNOWN), is_sure=is_sure)
    else:
        yield from (Named(_WRITE, word, is_deep=True) for word in paths)
    yield from _named(subcommand, [*before, *behind])
    if _prints(subcommand, options, before):
        if is_elsewhere:
            yield Named(_READ, Word("what git prints", Certainty.UNKNOWN))
        elif (narrowed := _narrowed(subcommand, options, before, behind)) is not None:
            yield from (Named(_READ, word, is_deep=True) for word in narrowed)
        else:
            yield Named(_READ, Word("."), is_deep=True)


def _parts(arguments: Sequence[Word]) -> tuple[list[str], list[Word], list[Word]]:
    """The options, the other words, and those behind `--`."""
    at = next((index for index, word in enumerate(arguments) if word.text == "--"), len(arguments))
    head = arguments[:at]
    options = [word.text for word in head if word.text.startswith("-")]
    return options, [word for word in head if not word.text.startswith("-")], list(arguments[at + 1 :])


def _changed(
    subcommand: str, options: Sequence[str], before: Sequence[Word], behind: Sequence[Word]
) -> Sequence[Word] | None:
    """The paths of what is changed; None: any file."""
    first = before[0].text if before else ""
    if subcommand in _KEEPS_FILES or first in _KEEPS_FILES_WITH.get(subcommand, ()):
        return ()
    given = set(options)
    match subcommand:
        case "checkout" | "switch" if len(before) == 1 and len(options) == 1 and given <= {"-b", "-c", "--create"}:
            return ()  # a new branch, here
        case "reset" if given <= {"--soft", "--mixed", "-q", "--quiet", "-N", "--no-refresh"}:
            return ()
        case "restore" if given & {"--staged", "-S"} and given <= {"--staged", "-S", "-q", "--quiet"}:
            return ()
        case "rm" if "--cached" in given:
            return ()
    if any(option.startswith("--pathspec") or "--pathspec-from-file".startswith(option[:4]) for option in options):
        return None
    paths = {"checkout": behind}.get(subcommand, [*before, *behind])
    return paths if paths and subcommand in ("checkout", "restore", "rm", "mv", "clean") else None


def _named(subcommand: str, operands: Sequence[Word]) -> Iterator[Named]:
    for word in operands:
        if subcommand == "mv":
            yield Named(_READ, word, is_deep=True)
        yield Named(_READ, word, is_sure=False)
        if ":" in word.text:
            yield Named(_READ, Word(word.text.partition(":")[2], word.certainty))


def _prints(subcommand: str, options: Sequence[str], before: Sequence[Word]) -> bool:
    """Whether what files hold may come out."""
    first = before[0].text if before else ""
    if subcommand in ("log", "reflog") or (subcommand, first) == ("stash", "list"):
        return not all(option in _SUMMARIES or _PLAIN_OPTIONS.fullmatch(option) for option in options)
    if subcommand == "diff":
        is_summary = any(option in _SUMMARIES for option in options)
        return not (is_summary and all(option in _SUMMARIES or _PLAIN_OPTIONS.fullmatch(option) for option in options))
    if subcommand == "show":
        return not (before and all(re.fullmatch(r"[^:]+:[^:*?\[\\]+", word.text) for word in before))
    if subcommand not in _PRINTS_NO_FILES or (subcommand, first) in (("stash", "show"), ("bisect", "view")):
        return True
    if (subcommand, first) == ("worktree", "add") or (subcommand == "notes" and "-C" in options):
        return True
    return any(_shows_changes(subcommand, option) for option in options)


def _shows_changes(subcommand: str, option: str) -> bool:
    if option.startswith("--"):
        long = ["--patch", "--interactive", "--show-current-patch"]
        long += ["--format"] if subcommand in ("branch", "tag") else []
        long += ["--verbose"] if subcommand in ("status", "commit") else []
        name = option.partition("=")[0]
        return len(name) > 3 and any(other.startswith(name) for other in long)
    if subcommand in ("fetch", "push", "pull", "rebase", "merge", "remote", "am", "apply"):
        return False
    letters = option[1:].partition("m")[0]
    return "p" in letters or (subcommand in ("status", "commit") and "v" in letters)


def _narrowed(
    subcommand: str, options: Sequence[str], before: Sequence[Word], behind: Sequence[Word]
) -> Sequence[Word] | None:
    """The paths that nothing else is printed of, where that is sure."""
    if subcommand in ("blame", "annotate"):
        paths = [*before, *behind]
        return paths if paths and all(map(_is_plain, paths)) else None
    if not behind or not all(map(_is_plain, behind)):
        return None
    if any("--follow".startswith(o[:5]) or "--full-diff".startswith(o[:5]) or o == "--no-index" for o in options):
        return None
    if subcommand == "grep":
        has_pattern = any(option.startswith(("-e", "-f", "--")) for option in options)
        return behind if len(before) <= (not has_pattern) else None
    if subcommand in ("diff", "log") and all(_COMMIT.fullmatch(word.text) for word in before):
        return behind
    return None


def _is_plain(word: Word) -> bool:
    """Whether git takes it for the path that it says."""
    return word.certainty is Certainty.KNOWN and not re.search(r"^:|[*?\[\\]|^$", word.text)
