"""The rule that "always allow" would add."""

import re
from collections.abc import Sequence

from gadget_api.permissions import Access, Capability, Decision, Rule
from gadget_drone.permissions.fitting import Fit, fit
from gadget_drone.permissions.names import names
from gadget_drone.permissions.patterns import ANY_OF, UNKNOWN, is_outside, normal_path
from gadget_drone.permissions.programs import PREFIXES, SHELLS, TRANSPARENT, program_name, started_by
from gadget_drone.permissions.words import Unreadable, Word

_NEVER = SHELLS | names(
    "rm rmdir shred dd mkfs chmod chown sudo doas su eval exec source . trap env xargs find curl wget ssh scp sftp "
    "rsync nc ncat telnet kill pkill killall shutdown reboot mount umount docker podman kubectl systemctl crontab at "
    "python pypy perl ruby node nodejs php lua awk gawk mawk sed tee mv ln install patch npx bunx pnpx uvx deno bun "
    "m4 socat fd fdfind hg bat batcat man less more export set sqlite3 psql java gcc g++ cc c++ clang clang++ openssl "
    "ssh-keygen"
)
"""To allow these for ever is to allow anything, or what cannot be undone."""
_NEVER_WITH = frozenset({("git", "push"), ("git", "reset"), ("git", "clean"), ("git", "config"),
                         ("git", "bisect"), ("git", "rebase"),
                         ("git", "worktree"), ("git", "submodule"), ("git", "filter-branch"), ("npm", "exec"),
                         ("pip", "install"), ("pip3", "install"), ("go", "test"),
                         ("npm", "publish"), ("uv", "run"), ("poetry", "run"), ("bundle", "exec")})  # fmt: skip
_INTERPRETER = r"(python|pypy|perl|ruby|node|php|lua|awk|gawk|mawk|nawk|gcc|clang).*"
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_HAS_SUBCOMMANDS = names(
    "git npm pnpm yarn cargo go make just task uv pip pip3 poetry pdm hatch dotnet mvn gradle bundle rake mix gh "
    "terraform tox nox composer brew apt apt-get rustup flutter dart swift bazel cmake helm"
)
_EXACTLY = names("make gmake just cmake task rake tox nox")
"""Their options run anything: the rule is the line as it stands."""
_RUN = frozenset({"run", "run-script"})


def suggest(accesses: Sequence[Access]) -> Rule | None:
    """The one rule that fits all of `accesses` (those that were asked about) and no more than is sensible, or None."""
    rules = [_rule(access) for access in accesses]
    for rule in rules:
        if rule is not None and all(fit(rule, access) is Fit.YES for access in accesses):
            return rule
    return None


def _rule(access: Access) -> Rule | None:
    pattern = {
        Capability.EXECUTE: _command,
        Capability.WRITE: _directory,
        Capability.READ: _nothing,
        Capability.NETWORK: _exactly,
        Capability.GIT: _git,
        Capability.MCP: _exactly,
    }[access.capability](access.target)
    if pattern is None or len(pattern) > 1000:
        return None
    return Rule(decision=Decision.ALLOW, capability=access.capability, pattern=pattern)


def _nothing(target: str) -> str | None:
    """Reading asks where it is outside, or a secret: once is enough."""
    return None


def _exactly(target: str) -> str | None:
    return None if "*" in target else target


def _command(target: str) -> str | None:
    words = target.split(" ")
    name = words[0]
    if re.fullmatch(r"(\./)?[A-Za-z0-9_][\w.+/-]*", name) is None or name.startswith(".."):
        return None
    base = program_name(name)
    if base in (PREFIXES.keys() | TRANSPARENT.keys() | _NEVER) or re.fullmatch(_INTERPRETER, base):
        return None
    try:
        if list(started_by([Word(word) for word in words])):
            return None
    except Unreadable:
        return None
    if base not in _HAS_SUBCOMMANDS:
        return f"{name} *"
    if base in _EXACTLY:
        return None if re.search(r"[$`*?\[{]", target) else target  # `make test --eval=...` runs anything
    kept = [name]
    for word in words[1:]:
        if not _SUBCOMMAND.fullmatch(word):
            break
        kept.append(word)
        if word not in _RUN:
            break
    if len(kept) == 1:
        return None  # options first: what it does is not said by the beginning
    return None if tuple(kept[:2]) in _NEVER_WITH or kept[-1] in _RUN else f"{' '.join(kept)} *"


def _git(target: str) -> str | None:
    subcommand = target.split(" ")[0]
    return None if ("git", subcommand) in _NEVER_WITH or not _SUBCOMMAND.fullmatch(subcommand) else f"{subcommand} *"


def _directory(target: str) -> str | None:
    if target.startswith((ANY_OF, UNKNOWN)):
        return None
    path = normal_path(target)
    if is_outside(path) or re.search(r"[*?\[\]\\!#]", path) or path == ".":
        return None
    directory = path.rstrip("/").rpartition("/")[0]
    return f"/{directory}/**" if directory else f"/{path}"
