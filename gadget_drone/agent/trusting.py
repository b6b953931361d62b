"""Asks the user before what a repository says of itself counts, and again when it has changed.

What was trusted comes with the policy, from the service: no command of a workspace can change it. The rules that count
are the trusted ones, not those of the file, so a changed file changes nothing until its user has seen the change.
"""

import difflib
import hashlib
from dataclasses import dataclass

import orjson

from gadget_api.inquiries import DENY, FOR_PROJECT, MAX_DETAIL_BYTES, Answer, Choice, InquiryKind
from gadget_api.permissions import Policy, Rule, Trust
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.permissions.repository import FILE, RepositoryRules

_CHOICES = (Choice(id=FOR_PROJECT, label="Trust it in this project"), Choice(id=DENY, label="Not now"))


@dataclass(frozen=True)
class Trusting:
    decisions: Decisions
    inquiries: Inquiries

    async def may_use(self, own: RepositoryRules, instructions: str | None) -> bool:
        """Whether the instructions may be used. The rules that count are those of the policy, then as before."""
        policy = self.decisions.policy
        if not policy.trusts_repository:
            return True
        before = policy.trust or Trust()
        found = Trust(
            rules=before.rules if own.error is not None else own.rules,
            instructions=hashlib.sha256(instructions.encode()).hexdigest() if instructions is not None else None,
        )
        if found != before:
            await self._ask(found, before, instructions or "")
        return self._is_trusted(found) or found.instructions in (None, before.instructions)

    async def _ask(self, found: Trust, before: Trust, instructions: str) -> None:
        digest = hashlib.sha256(orjson.dumps(found.model_dump(mode="json"))).hexdigest()[:16]
        detail = _shown(found, before, instructions)
        if len(orjson.dumps(detail)) > MAX_DETAIL_BYTES:
            return  # nobody could read it
        said = await self.inquiries.ask(
            InquiryKind.TRUST,
            f"trust {digest}",
            "The repository brings other rules or instructions than you trusted. Shall they count?",
            choices=_CHOICES,
            default=Answer(choice=DENY),
            detail=detail,
            trust=found,
            is_moot=lambda: self._is_trusted(found) or not self.decisions.policy.trusts_repository,
        )
        if said.answer.choice == FOR_PROJECT:
            # The service has it, and tells; this may be here before.
            self.decisions.policy = self.decisions.policy.replace(trust=found)

    def _is_trusted(self, found: Trust) -> bool:
        policy: Policy = self.decisions.policy
        return not policy.trusts_repository or policy.trust == found


def _shown(found: Trust, before: Trust, instructions: str) -> str:
    """What changed."""
    parts = []
    if found.rules != before.rules:
        old, new = (list(map(_line, rules)) for rules in (before.rules, found.rules))
        parts.append("\n".join(difflib.unified_diff(old, new, f"{FILE} (trusted)", f"{FILE} (now)", lineterm="")))
    if found.instructions != before.instructions:
        parts.append(f"The instructions for agents say now:\n\n{instructions or '(there are none)'}")
    return "\n\n".join(parts)


def _line(rule: Rule) -> str:
    said = f"{rule.decision} {rule.capability} {orjson.dumps(rule.pattern).decode()}"
    return f"{said} ({orjson.dumps(rule.reason).decode()})" if rule.reason else said
