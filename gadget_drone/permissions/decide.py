"""Decides what a call may do:

    deny > ask > allow > what the level says

Nothing is looked at but what is given: the same question has the same answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gadget_api.permissions import (
    Access,
    Capability,
    Decision,
    PermissionLevel,
    Policy,
    RuleScope,
    ScopedRule,
    Verdict,
)
from gadget_drone.permissions.built_in import SECRETS, built_in_rules
from gadget_drone.permissions.fitting import Fit, fit, is_no_secret
from gadget_drone.permissions.patterns import ANY_OF, CHANGED_BY_GIT, LINKED, UNKNOWN, is_outside, normal_path

_FILES = (Capability.READ, Capability.WRITE)
_STRICTNESS = (Decision.ALLOW, Decision.ASK, Decision.DENY)
_NAMES = {
    Capability.READ: "reading",
    Capability.WRITE: "changing files",
    Capability.EXECUTE: "running commands",
    Capability.NETWORK: "using the network",
    Capability.GIT: "changing the repository",
    Capability.MCP: "calling tools of servers",
}
_VERBS = {Decision.DENY: "denies", Decision.ASK: "asks before", Decision.ALLOW: "allows"}
_LEVELS = {PermissionLevel.AUTO_EDIT: "auto-edit"}


@dataclass(frozen=True)
class Ruling:
    decision: Decision
    """The strictest of the verdicts."""
    verdicts: tuple[Verdict, ...]
    """One for each access, in their order."""


@dataclass(frozen=True)
class _Level:
    level: PermissionLevel
    unheld: ScopedRule | None
    """A rule about files that nothing holds while a command runs."""
    is_sandboxed: bool


def decide(accesses: Sequence[Access], policy: Policy, *, is_sandboxed: bool = False) -> Ruling:
    """Without accesses: allowed. `is_sandboxed`: whether commands run in a sandbox, which holds what is denied."""
    rules = (*built_in_rules(policy.level), *policy.all_rules)
    about_files = (r for r in policy.all_rules if r.capability in _FILES and r.decision is not Decision.ALLOW)
    level = _Level(policy.level, None if is_sandboxed else next(about_files, None), is_sandboxed)
    verdicts = tuple(_verdict(access, rules, level) for access in accesses)
    return Ruling(max((v.decision for v in verdicts), key=_STRICTNESS.index, default=Decision.ALLOW), verdicts)


def only_read(accesses: Sequence[Access]) -> bool:
    """Whether a call with these accesses is known to change nothing: there are some, and each only reads."""
    return bool(accesses) and all(access.capability is Capability.READ or access.only_reads for access in accesses)


def allows_network(policy: Policy) -> bool:
    """Whether commands may have the network: their sandbox has it whole or not at all."""
    access = Access(capability=Capability.NETWORK, target="*")
    return decide((access,), policy).decision is Decision.ALLOW


def hidden_patterns(policy: Policy) -> list[str]:
    """What may not be read unasked, as patterns of .gitignore: searches and the git tool leave it out.

    Below full the likely secrets too, and those that are none (`.env.example`) with them: patterns take nothing back.
    """
    rules = (*policy.all_rules, *(() if policy.level is PermissionLevel.FULL else SECRETS))
    return _patterns(rules, Capability.READ, (Decision.DENY, Decision.ASK))


def denied_patterns(capability: Capability, policy: Policy) -> list[str]:
    """What is denied of `capability` by rules that people wrote: of files patterns of .gitignore, for the sandbox."""
    return _patterns(policy.all_rules, capability, (Decision.DENY,))


def _patterns(rules: Iterable[ScopedRule], capability: Capability, decisions: Sequence[Decision]) -> list[str]:
    found = (rule.pattern for rule in rules if rule.capability is capability and rule.decision in decisions)
    return list(dict.fromkeys(found))


def _verdict(access: Access, rules: Iterable[ScopedRule], level: _Level) -> Verdict:
    by_level, because = _by_level(access, level)
    if _is_gits_reading(access) and by_level is Decision.ALLOW:
        # Rules about git are about changes; what it reads is judged beside, as files.
        return Verdict(access=access, decision=by_level, because=because)
    perhaps: ScopedRule | None = None
    found: dict[Decision, ScopedRule] = {}
    for rule in rules:
        if rule.scope is RuleScope.BUILT_IN and rule.decision is Decision.ASK and is_no_secret(access.target):
            continue
        how = fit(rule, access)
        if how is Fit.YES:
            found.setdefault(rule.decision, rule)
        elif how is Fit.MAYBE and rule.scope is not RuleScope.BUILT_IN:
            # A built-in rule that might be touched would ask for every loop over files.
            perhaps = perhaps or rule
    for decision in (Decision.DENY, Decision.ASK):
        if decision is Decision.ASK and perhaps is not None and Decision.ASK not in found:
            return _stricter(access, level, Decision.ASK, perhaps, _doubt(access, perhaps))
        if decision in found:
            return _stricter(access, level, decision, found[decision], _ruled(found[decision]))
    if (allowing := found.get(Decision.ALLOW)) is not None and by_level is Decision.ASK:
        return Verdict(access=access, decision=Decision.ALLOW, rule=allowing, because=_ruled(allowing))
    return Verdict(access=access, decision=by_level, because=because)


def _stricter(access: Access, level: _Level, decision: Decision, rule: ScopedRule, because: str) -> Verdict:
    """A rule that asks does not loosen what the level refuses."""
    by_level, why = _by_level(access, level)
    if _STRICTNESS.index(by_level) > _STRICTNESS.index(decision):
        return Verdict(access=access, decision=by_level, because=why)
    return Verdict(access=access, decision=decision, rule=rule, because=because)


def _ruled(rule: ScopedRule) -> str:
    reason = f": {rule.reason}" if rule.reason else ""
    return f"A rule ({_scope(rule)}) {_VERBS[rule.decision]} {rule.capability} {_clipped(rule.pattern)}{reason}."


def _doubt(access: Access, rule: ScopedRule) -> str:
    return (
        f"What it reaches is not known before it runs, and a rule ({_scope(rule)}) {_VERBS[rule.decision]} "
        f"{rule.capability} {_clipped(rule.pattern)}."
    )


def _scope(rule: ScopedRule) -> str:
    return "built in" if rule.scope is RuleScope.BUILT_IN else rule.scope


def _clipped(text: str) -> str:
    return f"`{text}`" if len(text) <= 80 else f"`{text[:79]}…`"


def _by_level(access: Access, at: _Level) -> tuple[Decision, str]:
    capability, level = access.capability, at.level
    said = f"The level {_LEVELS.get(level, level)}"
    if capability is Capability.EXECUTE and access.target.startswith(LINKED):
        return Decision.ALLOW, "The command is judged by the name that it is written with."
    if level is PermissionLevel.FULL:
        if capability is Capability.EXECUTE and not access.only_reads and at.unheld is not None:
            doing = "reading" if at.unheld.capability is Capability.READ else "changing"
            ruled = f"{_VERBS[at.unheld.decision]} {doing} {_clipped(at.unheld.pattern)}"
            return Decision.ASK, f"There is no sandbox here to hold the rule that {ruled}."
        return Decision.ALLOW, f"{said} allows everything."
    if capability is Capability.READ:
        if _is_inside(access.target):
            return Decision.ALLOW, f"{said} allows reading."
        return Decision.ASK, f"{said} asks before reading outside of the project."
    if capability is Capability.EXECUTE and access.only_reads:
        return Decision.ALLOW, "This command changes nothing by itself."
    if _is_gits_reading(access):
        if at.is_sandboxed:
            return Decision.ALLOW, f"{said} allows reading."
        why = "for there is no sandbox here to hold what a repository may make git run"
        if level is PermissionLevel.PLAN:
            return Decision.DENY, f"{said} refuses git, {why}."
        return Decision.ASK, f"{said} asks before git, {why}."
    if level is PermissionLevel.PLAN:
        return Decision.DENY, f"{said} refuses {_NAMES[capability]}: it only reads."
    if capability is Capability.WRITE and access.target == CHANGED_BY_GIT:
        return Decision.ALLOW, "The command of git that changes files is judged for itself."
    if capability is Capability.WRITE and level is PermissionLevel.AUTO_EDIT and _is_inside(access.target):
        return Decision.ALLOW, f"{said} allows changing files."
    return Decision.ASK, f"{said} asks before {_NAMES[capability]}."


def _is_gits_reading(access: Access) -> bool:
    """Whether the git tool only looks at the repository."""
    return access.capability is Capability.GIT and access.only_reads


def _is_inside(target: str) -> bool:
    return not target.startswith(UNKNOWN) and not is_outside(normal_path(target.removeprefix(ANY_OF)))
