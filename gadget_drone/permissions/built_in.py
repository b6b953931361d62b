"""The rules that are there before any rule, and the commands that only read."""

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from gadget_api.permissions import Capability, Decision, PermissionLevel, RuleScope, ScopedRule
from gadget_drone.permissions.names import names


def _rule(decision: Decision, capability: Capability, pattern: str, reason: str) -> ScopedRule:
    return ScopedRule(
        decision=decision, capability=capability, pattern=pattern, reason=reason, scope=RuleScope.BUILT_IN
    )


ALWAYS = (
    _rule(Decision.DENY, Capability.WRITE, ".git", "what is in .git runs later, outside of the tools"),
    _rule(Decision.DENY, Capability.WRITE, ".gadget", "the drone keeps its own state there"),
    _rule(Decision.ASK, Capability.WRITE, "/.gadget.json", "it holds rules of this project"),
)
SECRETS = tuple(
    _rule(Decision.ASK, Capability.READ, pattern, "it is likely to hold a secret, and what is read goes to the model")
    for pattern in (
        ".env", ".env.*", ".envrc", "*.pem", "*.p12", "*.pfx", "*.keystore", "id_rsa*", "id_dsa*", "id_ecdsa*",
        "id_ed25519*", ".ssh", ".gnupg", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc", ".htpasswd",
        ".aws", ".kube", ".docker/config.json",
    )
)  # fmt: skip
"""Below level full."""
NO_SECRETS = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist", "id_rsa.pub", "id_ed25519.pub"})
"""Names that the patterns above fit and that are made to be read."""


def built_in_rules(level: PermissionLevel) -> tuple[ScopedRule, ...]:
    return ALWAYS if level is PermissionLevel.FULL else (*ALWAYS, *SECRETS)


_NO_OUTPUT = ("-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from")
_PLAIN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(names(
"ls cat head tail wc pwd echo true false : grep egrep fgrep which type stat file basename dirname realpath "
        "readlink uname whoami id nproc cut tr nl tac rev comm cmp du df test [ [[ cd sleep seq diff md5sum sha1sum "
        "sha256sum sha512sum printf jq set exit return break continue shift wait times umask getconf arch tty groups "
        "column expand fold fmt paste join strings od hexdump base64 printenv"),
        (),
    ),
    "set": ("-", "+"),
    "printf": ("-v",),
    "sort": _NO_OUTPUT,
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o", "--output", "-R"),
    "date": (),
    "base64": ("-o", "--output"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "hexdump": (), "file": ("-C", "--compile", "-m", "--magic-file"), "column": (), "jq": (),
}  # fmt: skip
"""Command -> options with which it does more than read. Files that it names are judged for themselves."""
_GIT = names("status diff log show blame rev-parse ls-files ls-tree shortlog describe cat-file rev-list grep")
_GIT_LISTS = frozenset(
    ("branch", "branch -a", "branch -r", "branch -v", "branch -vv", "branch --list", "branch --show-current",
     "branch --all", "tag", "tag -l", "tag --list", "remote", "remote -v", "stash list", "worktree list",
     "config --list", "config -l", "reflog", "--version", "version")
)  # fmt: skip
_GIT_MORE = ("--output", "--ext-diff", "--textconv", "--exec", "--open-files-in-pager", "--no-index", "--paginate")
_SED = re.compile(r"sed -n (\d+|\$)(,(\d+|\$))?p( [^-]\S*)*")


@lru_cache(500)
def only_reads(command: str) -> bool:
    """Whether a simple command (the target of an EXECUTE access) does no more than read, whatever files it names."""
    name, *arguments = command.split(" ")
    options = [word for word in arguments if word.startswith(("-", "+"))]
    if name == "git":
        return _git_only_reads(arguments, command)
    if name == "sed":
        return _SED.fullmatch(command) is not None
    if name == "command":
        return arguments[:1] in (["-v"], ["-V"])
    if name == "uniq":
        return len(arguments) - len(options) <= 1 and "$" not in command
    if name == "date" and any(not word.startswith(("+", "-u", "-I", "-R", "--utc", "--iso")) for word in arguments):
        return False
    if name not in _PLAIN:
        return False
    refused = _PLAIN[name]
    if refused and any(char in command for char in "$`{"):
        return False  # an option may come out of it
    if any(fnmatchcase(other, word) for word in arguments if set(word) & set("*?[") for other in refused):
        return False  # by a file of that name
    return not any(_is_option(option, other) for option in options for other in refused)


def _is_option(given: str, refused: str) -> bool:
    """Also where it is shortened (`--outp`), joined to its value (`-ofile`), or among others (`-uo`)."""
    name = given.partition("=")[0]
    if refused.startswith("--"):
        return len(name) > 2 and name.startswith("--") and (refused.startswith(name) or name.startswith(refused))
    if len(refused) == 2 and not given.startswith("--"):
        return refused[1] in given
    return name.startswith(refused)


def _git_only_reads(arguments: list[str], command: str) -> bool:
    if " ".join(arguments) in _GIT_LISTS:
        return True
    while arguments[:1] in (["--no-pager"], ["-P"], ["--no-optional-locks"]):
        arguments = arguments[1:]
    if not arguments or arguments[0] not in _GIT or any(char in command for char in "$`{"):
        return False
    options = [word for word in arguments[1:] if word.startswith("-")]
    if arguments[0] == "grep" and any(word.startswith("-O") for word in options):
        return False
    if arguments[0] == "cat-file" and any(word.startswith(("--text", "--filters", "--batch")) for word in options):
        return False
    return not any(_is_option(option, refused) for option in options for refused in _GIT_MORE)
