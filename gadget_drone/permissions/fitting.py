"""Whether a rule is about an access: for certain, perhaps, or not.

An allowing rule counts only where it fits for certain. A denying or asking one is looked at widely: the command behind
a path, behind options, in the arguments of a program that may run it, the letter case of a file system that has none.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from gadget_api.permissions import Access, Capability, Decision, Rule
from gadget_drone.permissions.built_in import NO_SECRETS
from gadget_drone.permissions.patterns import (
    ANY_OF,
    LINKED,
    UNKNOWN,
    UNREADABLE,
    is_outside,
    normal_path,
    path_fits,
    path_might_fit,
    text_fits,
    text_might_fit,
)
from gadget_drone.permissions.programs import ASSIGNMENT, program_name

_DYNAMIC = "$`*?[{"
_ALSO_DYNAMIC = ("<(", ">(", " ~", "=~", ":~")
"""Among the arguments: the name of a pipe, and of a home."""
_FILES = (Capability.READ, Capability.WRITE)
_PUNCTUATION = str.maketrans(dict.fromkeys("\"',;()|&`", " "))
_EVERYTHING = ("*", "**")
_MAX_OPTIONS = 12
_MAX_MENTIONS = 50


class Fit(IntEnum):
    NO = 0
    MAYBE = 1
    YES = 2


def fit(rule: Rule, access: Access) -> Fit:
    if rule.decision is Decision.ALLOW:
        return Fit.YES if _allows(rule, access) else Fit.NO
    target = access.target
    if access.capability is Capability.EXECUTE:
        target = target.removeprefix(LINKED)
    if access.capability in _FILES and rule.capability is access.capability:
        return _path(rule.pattern, target)
    if access.capability is Capability.EXECUTE and rule.capability is Capability.EXECUTE:
        return _command(rule.pattern, target, access.only_reads)
    if access.capability is Capability.EXECUTE and rule.capability in _FILES:
        # Which files it reads and changes is not known either.
        return Fit.MAYBE if target.startswith(UNREADABLE) else Fit.NO
    # `git push` in a shell and the push of the git tool are one thing.
    if access.capability is Capability.EXECUTE and rule.capability is Capability.GIT:
        return _command(f"git {rule.pattern}", target, access.only_reads)
    if access.capability is Capability.GIT and rule.capability is Capability.EXECUTE:
        return _command(rule.pattern, f"git {target}")
    if access.capability is not rule.capability:
        return Fit.NO
    if access.capability is Capability.GIT:
        return _command(f"git {rule.pattern}", f"git {target}")
    pattern, wide = rule.pattern.casefold(), target.casefold()
    if text_fits(pattern, wide) or text_fits(pattern, wide.rstrip(".")):
        return Fit.YES
    return Fit.MAYBE if wide == "*" else Fit.NO


def _allows(rule: Rule, access: Access) -> bool:
    target = access.target
    if access.capability in _FILES:
        if rule.capability is not access.capability:
            return False
        if target.startswith(UNKNOWN):
            return rule.pattern in _EVERYTHING
        pattern, is_glob = rule.pattern, target.startswith(ANY_OF)
        if is_glob and any(char in pattern for char in "?[\\"):
            return False
        path = normal_path(target.removeprefix(ANY_OF))
        if is_outside(path) and not pattern.startswith(("//", "~/")):
            return False
        return path_fits(pattern, path, wide=False) or (path in (".", "./") and pattern in _EVERYTHING)
    if access.capability is Capability.EXECUTE and rule.capability is Capability.EXECUTE:
        if rule.pattern.startswith("tool:") and not access.is_tool:
            return False
        is_known = not any(char in _first(target) for char in _DYNAMIC) or target.startswith("[ ")
        return rule.pattern in _EVERYTHING or (is_known and text_fits(rule.pattern, target))
    if access.capability is Capability.GIT and rule.capability is Capability.EXECUTE:
        return text_fits(rule.pattern, f"git {target}")
    return rule.capability is access.capability and text_fits(rule.pattern, target)


def _first(command: str) -> str:
    return command.split(" ", 1)[0]


def _path(pattern: str, target: str) -> Fit:
    if target.startswith(UNKNOWN):
        return Fit.YES if pattern in _EVERYTHING else Fit.MAYBE
    is_glob = target.startswith(ANY_OF)
    path = normal_path(target.removeprefix(ANY_OF))
    if pattern in _EVERYTHING:
        return Fit.YES
    if not is_glob and path_fits(pattern, path, wide=True):
        return Fit.YES
    if (is_glob or path.endswith("/")) and path_might_fit(pattern, path, is_glob=is_glob):
        return Fit.MAYBE
    return Fit.NO


def is_no_secret(target: str) -> bool:
    return target.rpartition("/")[2] in NO_SECRETS


def _command(pattern: str, target: str, only_reads: bool = False) -> Fit:
    if pattern in _EVERYTHING:
        return Fit.YES
    pattern = _folded(pattern)
    forms = _forms(target)
    if any(text_fits(pattern, form) for form in forms):
        return Fit.YES
    if any(text_might_fit(pattern, known) for form in forms if (known := _known(form)) is not None):
        return Fit.MAYBE
    if not only_reads and _is_mentioned(pattern, target):
        return Fit.MAYBE
    return Fit.NO


def _folded(command: str) -> str:
    first, blank, rest = command.partition(" ")
    return first.casefold() + blank + rest


@lru_cache(500)
def _forms(target: str) -> tuple[str, ...]:
    """The command as it is written, without its path, and with leading options left out (`git -C x push`)."""
    first, *rest = target.split(" ")
    while rest and ASSIGNMENT.match(first):
        first, *rest = rest
    forms: list[str] = []
    for name in dict.fromkeys((first.casefold(), program_name(first), program_name(first).removesuffix(".exe"))):
        forms.append(" ".join([name, *rest]))
        starts = range(1, _options_end(rest) + 1)
        # Of very many options only those at both ends: the subcommand is behind the last.
        both = starts if len(starts) <= 2 * _MAX_OPTIONS else (*starts[:_MAX_OPTIONS], *starts[-_MAX_OPTIONS:])
        forms += [" ".join([name, *rest[start:]]) for start in both]
    return tuple(forms)


def _options_end(words: Sequence[str]) -> int:
    """How many words at the beginning are options, or may be their values."""
    for index, word in enumerate(words):
        if not (word.startswith("-") or (index and words[index - 1].startswith("-"))):
            return index
    return len(words)


def _known(form: str) -> str | None:
    """What of a command stands before the first thing that is not known; None when all is known."""
    if form.startswith(("[ ", "[[ ")):
        return None
    at = min((found for mark in (*_DYNAMIC, *_ALSO_DYNAMIC) if (found := form.find(mark)) >= 0), default=-1)
    if at < 0:
        return None
    return "" if " " not in form[:at] else form[:at]


def _is_mentioned(pattern: str, target: str) -> bool:
    """Whether what the pattern is about stands among the arguments: a program may run it (`strace git push`)."""
    name = pattern.split("*", 1)[0].split(" ", 1)[0]
    if not name:
        return False
    text = target.casefold()
    at, mentions = text.find(name), 0
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if at and not (before.isalnum() or before in "_-.") and not (after.isalnum() or (after in "_-." and after)):
            mentions += 1
            if mentions > _MAX_MENTIONS:
                return True
            rest = target[at + len(name) :]
            words = name + " ".join(["", *rest.translate(_PUNCTUATION).split()])
            if text_fits(pattern, words) or any(text_fits(pattern, form) for form in _forms(words)):
                return True
            if (known := _known(words)) is not None and text_might_fit(pattern, known):
                return True
        at = text.find(name, at + 1)
    return False
