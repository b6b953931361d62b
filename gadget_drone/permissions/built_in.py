"""The rules that are there before any rule."""

from gadget_api.permissions import Capability, Decision, PermissionLevel, RuleScope, ScopedRule


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
