"""Permissions: what a tool call may reach, who decides, and why.

    deny > ask > allow > what the level says

Rules come from the install, the user, the project, the repository (once it is trusted) and the session. A rule that
denies always wins, one that asks wins over one that allows; where no rule fits, the level decides.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from gadget_api.model import WireModel

MAX_RULES = 200
"""Of one scope."""


class Capability(StrEnum):
    """What a call reaches: rules are about these, not about names of tools, so that no other tool is a way around."""

    READ = "read"
    """The content of a file; the target is its path, relative to the project."""
    WRITE = "write"
    """A change of a file; the target is its path."""
    EXECUTE = "execute"
    """A command of a shell; the target is one simple command, as words joined by blanks."""
    NETWORK = "network"
    """Another machine; the target is a host name, or `*` where any may be meant."""
    GIT = "git"
    """A change of the repository; the target is a subcommand with its words, such as `commit` or `branch -D old`."""
    MCP = "mcp"
    """A tool of a server; the target is `server.tool`."""


class PermissionLevel(StrEnum):
    """What may be done without asking, where no rule says otherwise."""

    PLAN = "plan"
    """Reading; everything else is refused."""
    ASK = "ask"
    """Reading; everything else asks."""
    AUTO_EDIT = "autoEdit"
    """Reading and changing files; commands, network and git ask."""
    FULL = "full"
    """Everything."""


class Decision(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RuleScope(StrEnum):
    """Where a rule was written."""

    BUILT_IN = "builtIn"
    INSTALL = "install"
    USER = "user"
    PROJECT = "project"
    REPOSITORY = "repository"
    """In the repository itself, in `.gadget.json`, as its user read and trusted it."""
    SESSION = "session"


class Rule(WireModel):
    """`decision` for whatever of `capability` fits `pattern`."""

    decision: Decision
    capability: Capability
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=1000)] = "*"
    """Of paths: as in .gitignore (`src/**`, `.env*`). Of the others: `*` stands for any text, all else for itself;
    `npm run *` fits `npm run` too."""
    reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    """Shown with the decision."""

    @field_validator("pattern")
    @classmethod
    def _without_blanks_at_the_end(cls, pattern: str) -> str:
        """As in .gitignore, where a backslash keeps one: no path and no command would fit with them."""
        kept = pattern.rstrip()
        is_escaped = (len(kept) - len(kept.rstrip("\\"))) % 2 == 1
        return (kept + pattern[len(kept) :][:1] if is_escaped else kept) or pattern


class ScopedRule(Rule):
    scope: RuleScope


Rules = Annotated[tuple[Rule, ...], Field(max_length=MAX_RULES)]


class Trust(WireModel):
    """What a user has read of a repository's own files and trusts. It is kept with the project, out of reach of the
    workspace: where the files say something else, the user is asked again."""

    rules: Rules = ()
    """Of `.gadget.json`. They count whatever the file says meanwhile."""
    instructions: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The SHA-256 of the instructions at the root (AGENTS.md); null for none."""


class Policy(WireModel):
    """All that a drone decides by. May change while a turn runs."""

    level: PermissionLevel = PermissionLevel.FULL
    rules: tuple[ScopedRule, ...] = ()
    trusts_repository: bool = False
    """Whether the repository may bring rules: then the user is asked about those that it brings."""
    trust: Trust | None = None
    """Null until the user was asked."""

    @property
    def all_rules(self) -> tuple[ScopedRule, ...]:
        """Those of people, and those of the repository that count."""
        if self.trust is None or not self.trusts_repository:
            return self.rules
        own = (ScopedRule(**dict(rule), scope=RuleScope.REPOSITORY) for rule in self.trust.rules)
        return (*self.rules, *own)


class Access(WireModel):
    """One thing that a tool call would do."""

    capability: Capability
    target: str
    only_reads: bool = False
    """Of a command: its whole line changes nothing. What it reads are accesses beside."""
    is_tool: bool = False
    """The target is `tool:NAME`, a tool that does not say what it reaches; no shell reads it."""


class Verdict(WireModel):
    """What was decided about one access, and why."""

    access: Access
    decision: Decision
    rule: ScopedRule | None = None
    """The rule that decided; null when it was the level, or what the call itself is."""
    because: str
    """One sentence for a person."""


class InstallRules(WireModel):
    """What an administrator rules for every user of the install: `GET` and `PUT /permissions/install`."""

    rules: Rules = ()
