"""Where an agent's tools work: the project's directory, with a sandbox for commands, under the policy of the moment."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gadget_api.errors import ErrorCode
from gadget_api.events import BlobRef
from gadget_api.images import ImageRef
from gadget_api.inquiries import Answer, Choice, InquiryKind, InquiryStatus
from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Capability
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.agent.models import Models
from gadget_drone.agent.sessions import SessionState
from gadget_drone.clip import clip
from gadget_drone.context.instructions import Instructions
from gadget_drone.context.limits import WindowLimits
from gadget_drone.disk.links import exists_without_links
from gadget_drone.errors import ToolError
from gadget_drone.permissions.covered import MAX_PLACES, Covered, TooManyPlaces
from gadget_drone.permissions.decide import allows_network, denied_patterns, hidden_patterns
from gadget_drone.processes.supervised import Supervised, Supervisor
from gadget_drone.sandbox.bounds import Bounds
from gadget_drone.sandbox.denials import denied_by_sandbox
from gadget_drone.sandbox.known import mended
from gadget_drone.sandbox.nested import nested_repositories
from gadget_drone.sandbox.standing import Standing
from gadget_drone.tools.tool import Image, ToolContext, ToolResult


@dataclass
class Place:
    """Implements `agent.tool_runner.Place`."""

    project_dir: Path
    spool_dir: Path
    """Large outputs are kept here."""
    supervisor: Supervisor
    sandbox: Standing | None
    session: SessionState
    allow_private: bool
    """Whether `fetch` may go to loopback and private addresses."""
    keep_output: Callable[[Path], BlobRef | None]
    keep_image: Callable[[Image], ImageRef | None]
    instructions: Instructions
    models: Models
    emit: Emitter
    inquiries: Inquiries
    decisions: Decisions
    _nested: Sequence[str] | None = field(default=None, init=False)
    """The repositories in the project besides its own, once they were looked for."""
    _question_counts: dict[str, int] = field(default_factory=dict, init=False)
    """By call: how many questions it has asked."""

    def __post_init__(self) -> None:
        self.decisions.on_policy = self._hold_to_policy
        self._hold_to_policy()

    async def context(self, call: ToolCallRequest) -> ToolContext:
        bounds = self._bounds()
        return ToolContext(
            project_dir=self.project_dir,
            output=lambda text: self.emit.delta("toolOutput", text, callId=call.call_id),
            spool_dir=self.spool_dir,
            supervisor=self.supervisor,
            seen=self.session.seen,
            jobs=self.session.jobs,
            ask=partial(self._ask, call),
            network=bounds.network,
            sandboxed=None if self.sandbox is None else partial(self._start_in_sandbox, self.sandbox, bounds),
            allow_private=self.allow_private,
            hidden=hidden_patterns(self.decisions.policy),
        )

    async def render(self, call: ToolCallRequest, result: ToolResult) -> ToolResult:
        """Adds to the result what the sandbox did to it, and what the project says about the files in it."""
        content = clip(result.content, WindowLimits.of(self.models.provider).result_bytes)
        if call.name in ("shell", "job"):
            notes = await (
                self.sandbox.mend(self.project_dir)
                if self.sandbox is not None
                else asyncio.to_thread(mended, self.project_dir)
            )
            content += "".join(f"\n[{note}]" for note in notes)
        if call.name == "shell" and self.sandbox is not None:
            network = allows_network(self.decisions.policy)
            label = denied_by_sandbox(content, int(result.is_error), network=network)
            content = f"{content}\n[{label}]" if label is not None else content
        for path in _paths(call.params):
            if not self.instructions.is_settled(path):
                instructions = await asyncio.to_thread(self.instructions.for_path, path)
                content = f"{content}\n\n{instructions}" if instructions is not None else content
        return replace(result, content=content)

    async def _start_in_sandbox(
        self,
        sandbox: Standing,
        bounds: Bounds,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        project_dir: Path,
        output: int,
        errors: int | None,
        stdin: int | None,
    ) -> Supervised:
        if not await self.session.confined.is_held_to(bounds):
            raise ToolError(
                "What was started under looser rules still runs, and cannot be ended: no command runs beside it. Tell "
                "the user.",
                ErrorCode.NOT_ALLOWED,
            )
        if self._nested is None or not all(map(exists_without_links, self._nested)):  # a command may have moved one
            self._nested = await nested_repositories(project_dir)
        hides: Sequence[Path] = ()
        keeps: Sequence[Path] = ()
        if bounds.hidden or bounds.read_only:  # looked for when a command starts: the one before may have made them
            hides, keeps = await asyncio.to_thread(_places, bounds, project_dir)
        running = await sandbox.start(
            command,
            env,
            project_dir=project_dir,
            network=bounds.network,
            hidden=hides,
            read_only=keeps,
            repositories=self._nested,
            output=output,
            errors=errors,
            stdin=stdin,
        )
        self.session.confined.add(running, bounds)
        self._hold_to_policy()  # it may have changed meanwhile
        return running

    def _bounds(self) -> Bounds:
        """Of commands, by the policy as it is now."""
        policy = self.decisions.policy
        return Bounds.of(
            network=allows_network(policy),
            hidden=denied_patterns(Capability.READ, policy),
            read_only=denied_patterns(Capability.WRITE, policy),
        )

    def _hold_to_policy(self) -> None:
        self.session.confined.hold_to(self._bounds())

    async def _ask(
        self, call: ToolCallRequest, question: str, choices: Sequence[Choice], *, default: Answer, takes_text: bool
    ) -> tuple[InquiryStatus, Answer]:
        title, _, detail = question.strip().partition("\n")
        number = self._question_counts[call.call_id] = self._question_counts.get(call.call_id, 0) + 1
        answer = await self.inquiries.ask(
            InquiryKind.QUESTION,
            f"question {call.call_id} {number}",
            title,
            choices=choices,
            default=default,
            detail=detail.strip(),
            takes_text=takes_text,
            call_id=call.call_id,
        )
        return answer.status, answer.answer


def _places(bounds: Bounds, project_dir: Path) -> tuple[list[Path], list[Path]]:
    """What the sandbox has to hide, and to keep as it is. Blocks. Raises ToolError."""
    try:
        return Covered(bounds.hidden).places(project_dir), Covered(bounds.read_only).places(project_dir)
    except TooManyPlaces as error:
        raise ToolError(
            f"Rules deny more than {MAX_PLACES:,} files, which the sandbox cannot hold: no command runs until a rule "
            "denies their directory instead. Tell the user.",
            ErrorCode.NOT_ALLOWED,
        ) from error
    except OSError as error:
        raise ToolError(
            f"The files that rules deny cannot be looked for, so no command runs: {error.filename}: {error.strerror}. "
            "Give the drone's account the right to read it, or remove it. Tell the user.",
            ErrorCode.NOT_ALLOWED,
        ) from error


def _paths(params: Mapping[str, object]) -> list[str]:
    named = params.get("path")
    several = params.get("paths")
    return [path for path in (named, *(several if isinstance(several, list) else ())) if isinstance(path, str) and path]
