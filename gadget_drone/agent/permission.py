"""The door before each tool call: allowed, denied, or asked about, with the exact bytes and the reason."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from gadget_api.permissions import Access, Capability, Decision, Rule, Verdict
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.disk.confined import relative_target
from gadget_drone.errors import ToolError
from gadget_drone.permissions.decide import Ruling, decide, only_read
from gadget_drone.permissions.shell import accesses_of
from gadget_drone.permissions.suggest import suggest
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Preview, Toolbox

_DENIAL = Answer(choice=DENY)
_MAX_ATTEMPTS = 5
_MAX_VERDICTS = 20
"""Shown; a command may have hundreds of parts."""


@dataclass(frozen=True)
class Permit:
    """Whether a call may run."""

    because: str
    """Why, in words for a person; "" where nothing was to be decided."""
    only_reads: bool = False
    """Whether the call is known to change nothing."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """Where the paths of the call led when they were judged: it may open nothing else."""
    refusal: ToolResult | None = None
    """The call's result where it may not run; None where it may."""


@dataclass(frozen=True)
class Permission:
    tools: Toolbox
    decisions: Decisions
    inquiries: Inquiries
    project_dir: Path
    is_sandboxed: bool
    context: Callable[[ToolCallRequest], Awaitable[ToolContext]]
    """Where the call would run, for what its user is shown of it."""

    async def permit(self, call: ToolCallRequest) -> Permit:
        """Allowed or not, by the rules as they are now; asks the user where they say so."""
        approved = ""
        for _ in range(_MAX_ATTEMPTS):
            try:
                accesses, targets = await asyncio.to_thread(self._judged, call)
                ruling = self._ruling(accesses)
                if ruling.decision is not Decision.ASK:
                    because = _reasons(ruling.verdicts, ruling.decision)
                    if ruling.decision is Decision.DENY:
                        return _denied(because)
                    return Permit(because, only_read(accesses), targets)
                shown = await self._shown(call, ruling, targets)
            except ToolError as error:  # the call would fail, so there is no question
                return Permit("", refusal=ToolResult(error.message, is_error=True))
            # An approval is for these bytes: a file may change while the user thinks, or while a drone is away.
            key = f"approval {call.call_id} {_digest(shown.text, accesses)}"
            if key == approved:
                return Permit("The user approved it.", targets=targets)
            refused = await self._asked(call, key, shown, accesses, ruling)
            if refused is not None:
                return refused
            approved = key
        return _denied("what it works on changes all the time")

    async def _shown(self, call: ToolCallRequest, ruling: Ruling, targets: Mapping[str, str]) -> Preview:
        """What it would do, byte for byte. Raises ToolError, but not where reading asks: the error of an edit quotes
        the file."""
        reads = any(
            verdict.decision is Decision.ASK and verdict.access.capability is Capability.READ
            for verdict in ruling.verdicts
        )
        context, preview = replace(await self.context(call), targets=targets), None
        with suppress(*(ToolError,) if reads else ()):
            preview = await self.tools.preview(call, context)
        return preview or Preview(orjson.dumps(call.params, option=orjson.OPT_INDENT_2).decode(), is_diff=False)

    def _judged(self, call: ToolCallRequest) -> tuple[list[Access], dict[str, str]]:
        """What the call would reach, and where its paths lead. Blocks. Raises ToolError."""
        accesses = self.tools.accesses(call)
        targets = targets_of(accesses, self.project_dir)
        return judged(accesses, self.project_dir, targets, is_sandboxed=self.is_sandboxed), targets

    def _ruling(self, accesses: Sequence[Access]) -> Ruling:
        return decide(accesses, self.decisions.policy, is_sandboxed=self.is_sandboxed)

    async def _asked(
        self, call: ToolCallRequest, key: str, shown: Preview, accesses: Sequence[Access], ruling: Ruling
    ) -> Permit | None:
        """None when the user said yes."""
        if len(orjson.dumps(shown.text.encode(errors="replace").decode())) > MAX_DETAIL_BYTES:
            return _denied(f"only {MAX_DETAIL_BYTES:,} bytes can be shown for approval; do it in smaller parts")
        rule = suggest([verdict.access for verdict in ruling.verdicts if verdict.decision is Decision.ASK])
        said = await self.inquiries.ask(
            InquiryKind.APPROVAL,
            key,
            f"May {call.name} run{_flags(call)}?",
            choices=_choices(rule),
            default=_DENIAL,
            detail=shown.text,
            is_diff=shown.is_diff,
            takes_text=True,
            call_id=call.call_id,
            verdicts=[verdict for verdict in ruling.verdicts if verdict.decision is not Decision.ALLOW][:_MAX_VERDICTS],
            rule=rule,
            is_moot=lambda: self._ruling(accesses).decision is not Decision.ASK,
        )
        if said.status is InquiryStatus.WITHDRAWN:
            # The files may have changed while the question stood.
            accesses, targets = await asyncio.to_thread(self._judged, call)
            now = self._ruling(accesses)
            because = _reasons(now.verdicts, now.decision)
            return Permit(because, targets=targets) if now.decision is Decision.ALLOW else _denied(because)
        if said.answer.choice in (ONCE, FOR_SESSION, FOR_PROJECT):
            return None
        if said.status is InquiryStatus.EXPIRED:
            return _denied("nobody approved it in time")
        return _denied(f"the user said no{f': {said.answer.text}' if said.answer.text else ''}")


def targets_of(accesses: Sequence[Access], project_dir: Path) -> dict[str, str]:
    """Where each path leads now; a command may change that at any time. Blocks. Raises ToolError."""
    paths = [access.target for access in accesses if access.capability in (Capability.READ, Capability.WRITE)]
    return {path: relative_target(project_dir, path) for path in dict.fromkeys(paths)}


def judged(
    accesses: Sequence[Access], project_dir: Path, targets: Mapping[str, str], *, is_sandboxed: bool = False
) -> list[Access]:
    """As rules judge them: a command by its parts, a path by what it leads to. Blocks. Raises ToolError."""
    judged: list[Access] = []
    for access in accesses:
        match access.capability:
            case Capability.EXECUTE if not access.is_tool:
                judged += accesses_of(access.target, project_dir, is_sandboxed=is_sandboxed)
            case Capability.READ | Capability.WRITE:
                # A rule may mean the link, or what it leads to.
                given = os.path.normpath(access.target)
                real = targets[access.target]
                judged += [access.replace(target=target) for target in dict.fromkeys((given, real))]
            case _:
                judged.append(access)
    return judged


def _digest(detail: str, accesses: Sequence[Access]) -> str:
    said = [detail.encode(errors="replace").decode(), *(f"{a.capability} {a.target}" for a in accesses)]
    return hashlib.sha256(orjson.dumps(said)).hexdigest()[:16]


def _flags(call: ToolCallRequest) -> str:
    """What the call says besides its text: whether it runs in the background, and for how long."""
    flags = [
        f"{name}={orjson.dumps(value).decode()}" for name, value in call.params.items() if type(value) in (bool, int)
    ]
    return f" with {', '.join(flags)}" if flags else ""


def _choices(rule: Rule | None) -> list[Choice]:
    choices = [Choice(id=ONCE, label="Once")]
    if rule is not None:
        what = f"{rule.capability} {rule.pattern}"
        choices.append(Choice(id=FOR_SESSION, label=f"In this session: {what}"[:500]))
        choices.append(Choice(id=FOR_PROJECT, label=f"Always in this project: {what}"[:500]))
    return [*choices, Choice(id=DENY, label="No")]


def _reasons(verdicts: Sequence[Verdict], decision: Decision) -> str:
    return " ".join(dict.fromkeys(verdict.because for verdict in verdicts if verdict.decision is decision))


def _denied(reason: str) -> Permit:
    told = f"Not permitted: {reason.rstrip('.')}. Do not try to get around this."
    return Permit(reason, refusal=ToolResult(told, is_error=True))
