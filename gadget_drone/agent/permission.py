"""The door before each tool call: allowed, denied, or asked about, with the exact bytes and the reason."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from gadget_api.inquiries import (
    DENY,
    FOR_PROJECT,
    FOR_SESSION,
    MAX_DETAIL_BYTES,
    ONCE,
    Answer,
    Choice,
    InquiryKind,
    InquiryStatus,
)
from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Access, Capability, Decision, Rule, ScopedRule, Verdict
from gadget_drone.agent.control import Control
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.permissions.decide import Ruling, decide
from gadget_drone.permissions.shell import accesses_of
from gadget_drone.permissions.suggest import suggest
from gadget_drone.tools.confined import relative_target
from gadget_drone.tools.tool import ToolContext, ToolError, ToolResult
from gadget_drone.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Permission:
    tools: Toolbox
    control: Control
    inquiries: Inquiries
    repository: Sequence[ScopedRule]
    """The rules in the repository; they count when the policy trusts it."""

    async def refusal(self, call: ToolCallRequest, context: ToolContext) -> ToolResult | None:
        """What the model is told in place of a result; None when the call may run."""
        try:
            accesses = await asyncio.to_thread(_judged, self.tools.accesses(call), context.project_dir)
        except ToolError as error:
            return ToolResult(error.message, is_error=True)
        ruling = self._ruling(accesses)
        if ruling.decision is Decision.ASK:
            return await self._asked(call, context, accesses, ruling)
        if ruling.decision is Decision.DENY:
            return _denied(_reasons(ruling.verdicts, Decision.DENY))
        return None

    def _ruling(self, accesses: Sequence[Access]) -> Ruling:
        return decide(accesses, self.control.policy, repository=self.repository)

    async def _asked(
        self, call: ToolCallRequest, context: ToolContext, accesses: Sequence[Access], ruling: Ruling
    ) -> ToolResult | None:
        try:
            detail = await self.tools.preview(call, context)
        except ToolError as error:
            return ToolResult(error.message, is_error=True)  # it would fail: nobody need be asked
        if detail is None:
            detail = orjson.dumps(call.params, option=orjson.OPT_INDENT_2).decode()
        if len(detail.encode(errors="replace")) > MAX_DETAIL_BYTES:
            return _denied(f"only {MAX_DETAIL_BYTES:,} bytes can be shown for approval; do it in smaller parts")
        rule = suggest([verdict.access for verdict in ruling.verdicts if verdict.decision is Decision.ASK])
        said = await self.inquiries.ask(
            InquiryKind.APPROVAL,
            f"call {call.call_id}",
            f"May {call.name} run?",
            choices=_choices(rule),
            default=Answer(choice=DENY),
            detail=detail,
            takes_text=True,
            call_id=call.call_id,
            verdicts=[verdict for verdict in ruling.verdicts if verdict.decision is not Decision.ALLOW],
            rule=rule,
            is_moot=lambda: self._ruling(accesses).decision is not Decision.ASK,
        )
        if said.status is InquiryStatus.WITHDRAWN:
            now = self._ruling(accesses)
            return None if now.decision is Decision.ALLOW else _denied(_reasons(now.verdicts, Decision.DENY))
        if said.answer.choice in (ONCE, FOR_SESSION, FOR_PROJECT):
            return None
        if said.status is InquiryStatus.EXPIRED:
            return _denied("nobody approved it in time")
        return _denied(f"the user said no{f': {said.answer.text}' if said.answer.text else ''}")


def _judged(accesses: Sequence[Access], project_dir: Path) -> list[Access]:
    """As rules judge them: a command by its parts, a path by what it leads to. Blocks. Raises ToolError."""
    judged: list[Access] = []
    for access in accesses:
        match access.capability:
            case Capability.EXECUTE if not access.target.startswith("tool:"):
                judged += accesses_of(access.target, project_dir)
            case Capability.READ | Capability.WRITE:
                # A rule may mean the link, or what it leads to.
                given = os.path.normpath(access.target)
                real = relative_target(project_dir, access.target)
                judged += [access.replace(target=target) for target in dict.fromkeys((given, real))]
            case _:
                judged.append(access)
    return judged


def _choices(rule: Rule | None) -> list[Choice]:
    choices = [Choice(id=ONCE, label="Once")]
    if rule is not None:
        what = f"{rule.capability} {rule.pattern}"
        choices.append(Choice(id=FOR_SESSION, label=f"In this session: {what}"[:500]))
        choices.append(Choice(id=FOR_PROJECT, label=f"Always in this project: {what}"[:500]))
    return [*choices, Choice(id=DENY, label="No")]


def _reasons(verdicts: Sequence[Verdict], decision: Decision) -> str:
    return " ".join(verdict.because for verdict in verdicts if verdict.decision is decision)


def _denied(reason: str) -> ToolResult:
    return ToolResult(f"Not permitted: {reason.rstrip('.')}. Do not try to get around this.", is_error=True)
