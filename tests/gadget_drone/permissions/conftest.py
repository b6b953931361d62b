import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gadget_api.permissions import (
    Access,
    Capability,
    Decision,
    PermissionLevel,
    Policy,
    Rule,
    RuleScope,
    ScopedRule,
    Trust,
)
from gadget_drone.permissions.decide import Ruling, decide
from gadget_drone.permissions.shell import accesses_of
from tests.gadget_drone.permissions.shells import Shells

SLOW = os.environ.get("GADGET_TEST_PERMISSIONS") == "full"
EXAMPLES = 3000 if SLOW else 250
"""Of each property that runs shells."""


def rule(decision: str, capability: str, pattern: str, scope: RuleScope = RuleScope.USER) -> ScopedRule:
    return ScopedRule(decision=Decision(decision), capability=Capability(capability), pattern=pattern, scope=scope)


def policy(level: str, *rules: ScopedRule, trusts_repository: bool = False, own: Sequence[Rule] = ()) -> Policy:
    """`own`: rules of the repository that its user has trusted once."""
    trust = Trust(rules=tuple(own))
    return Policy(level=PermissionLevel(level), rules=rules, trusts_repository=trusts_repository, trust=trust)


def access(capability: str, target: str) -> Access:
    return Access(capability=Capability(capability), target=target)


def judge(line: str, given: Policy, project: Path, *, is_sandboxed: bool = True) -> Ruling:
    return decide(accesses_of(line, project, is_sandboxed=is_sandboxed), given, is_sandboxed=is_sandboxed)


@pytest.fixture(scope="session")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Shells:
    return Shells.in_directory(tmp_path_factory.mktemp("shells"))


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")
