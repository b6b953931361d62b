"""What a turn works with, put together: the prompt, the tools and where they run, the rules, the loop."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gadget_api.errors import ErrorCode
from gadget_api.events import Notice
from gadget_api.inquiries import Answer, Choice, InquiryKind, InquiryStatus
from gadget_api.messages import SystemMessage, ToolCallRequest
from gadget_api.permissions import Capability
from gadget_api.traces import Tracer
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.calls import Calls, Keep
from gadget_drone.agent.control import Control
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.agent.limits import Limits
from gadget_drone.agent.loop import Loop
from gadget_drone.agent.models import Models
from gadget_drone.agent.permission import Permission
from gadget_drone.agent.sessions import SessionState
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.trusting import Trusting
from gadget_drone.agent.window import Window
from gadget_drone.context.instructions import Instructions
from gadget_drone.context.limits import WindowLimits
from gadget_drone.context.system_prompt import system_prompt
from gadget_drone.context.tokens import Calibration
from gadget_drone.permissions.covered import MAX_PLACES, Covered, TooManyPlaces
from gadget_drone.permissions.decide import allows_network, denied_patterns, hidden_patterns
from gadget_drone.permissions.repository import RepositoryRules, repository_rules
from gadget_drone.sandbox.denials import denied_by_sandbox
from gadget_drone.sandbox.nested import nested_repositories
from gadget_drone.sandbox.repositories import mend_common, remove_links
from gadget_drone.sandbox.standing import Standing
from gadget_drone.stream import EventStream
from gadget_drone.supervised import Supervised, Supervisor
from gadget_drone.tools.clip import clip
from gadget_drone.tools.tool import Sandboxed, Tool, ToolContext, ToolError, ToolResult
from gadget_drone.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Site:
    """Where the tools of a turn work."""

    project_dir: Path
    workspace_dir: Path
    spool_dir: Path
    """Large outputs are kept here."""
    supervisor: Supervisor
    sandbox: Standing | None
    state: SessionState
    third_party: Sequence[Tool]
    """Tools that other packages bring."""
    allow_private: bool
    """Whether `fetch` may go to loopback and private addresses."""
    keep: Keep


class Workshop:
    """Of one turn. `instructions` and `own` are the repository's."""

    def __init__(
        self,
        order: WorkOrder,
        site: Site,
        events: EventStream,
        control: Control,
        models: Models,
        snapshots: Snapshots,
        tracer: Tracer,
        instructions: Instructions,
        own: RepositoryRules,
    ) -> None:
        self._order = order
        self._site = site
        self._events = events
        self._control = control
        self._models = models
        self._snapshots = snapshots
        self._tracer = tracer
        self._instructions = instructions
        self._own = own
        self._questions: dict[str, int] = {}
        """By call: how many it has asked."""
        self._inquiries = Inquiries(order, events, control)
        self._nested: Sequence[str] | None = None
        """The repositories in the project besides its own, once they were looked for."""
        self.tools = Toolbox.standard(site.third_party)

    @classmethod
    async def open(
        cls,
        order: WorkOrder,
        site: Site,
        events: EventStream,
        control: Control,
        models: Models,
        snapshots: Snapshots,
        tracer: Tracer,
    ) -> "Workshop":
        instructions, found = await asyncio.to_thread(_own, site.project_dir)
        if found.error is not None:
            events.emit(Notice, level="warning", code="repositoryRules", message=found.error)
        return cls(order, site, events, control, models, snapshots, tracer, instructions, found)

    async def ask_for_trust(self) -> None:
        """Asks the user about what the repository brings that they have not trusted; before the system prompt."""
        if not await Trusting(self._control, self._inquiries).may_use(self._own, self._instructions.root):
            self._instructions.root = None
            self._events.emit(
                Notice,
                level="warning",
                code="instructionsNotTrusted",
                message="The project's instructions changed and were not trusted: the agent works without them.",
            )

    def system_prompt(self, analysis: str) -> SystemMessage:
        names = [spec.name for spec in self.tools.specs]
        return system_prompt(
            self._order,
            self._site.project_dir,
            tools=names,
            analysis=analysis,
            instructions=self._instructions.root,
        )

    def window(self, conversation: Conversation, calibration: Calibration) -> Window:
        follow = partial(self._follow, conversation)
        return Window(conversation, self._models, self.tools, self._events, calibration, follow)

    def loop(self, conversation: Conversation, window: Window) -> Loop:
        self._follow(conversation)
        limits = Limits(self._order, self._events, self._control, self._inquiries)
        calls = Calls(
            conversation=conversation,
            tools=self.tools,
            events=self._events,
            control=self._control,
            permission=Permission(
                self.tools,
                self._control,
                self._inquiries,
                self._site.project_dir,
                self._site.sandbox is not None,
                self._context,
            ),
            limits=limits,
            snapshots=self._snapshots,
            context=self._context,
            finished=self._finished,
            keep=self._site.keep,
            tracer=self._tracer,
        )
        return Loop(
            conversation=conversation,
            models=self._models,
            tools=self.tools,
            events=self._events,
            control=self._control,
            calls=calls,
            limits=limits,
            window=window,
            snapshots=self._snapshots,
            jobs=self._site.state.jobs,
            tracer=self._tracer,
        )

    def _follow(self, conversation: Conversation) -> None:
        """Instructions that a compaction took away are given again."""
        self._instructions.follow(conversation.messages)

    async def _context(self, call: ToolCallRequest) -> ToolContext:
        """Where the call runs, by the policy as it is now."""
        site, policy = self._site, self._control.policy
        network = allows_network(policy)
        hidden = hidden_patterns(policy)
        unread = denied_patterns(Capability.READ, policy)
        unwritten = denied_patterns(Capability.WRITE, policy)
        return ToolContext(
            project_dir=site.project_dir,
            output=lambda text: self._events.delta("toolOutput", text, callId=call.call_id),
            spool_dir=site.spool_dir,
            supervisor=site.supervisor,
            seen=site.state.seen,
            jobs=site.state.jobs,
            ask=partial(self._ask, call),
            network=network,
            sandboxed=self._sandboxed(unread, unwritten, network=network),
            allow_private=site.allow_private,
            hidden=hidden,
        )

    def _sandboxed(self, hidden: Sequence[str], read_only: Sequence[str], *, network: bool) -> Sandboxed | None:
        site = self._site
        if site.sandbox is None:
            return None
        return partial(self._start_in_sandbox, site.sandbox, hidden, read_only, network=network)

    async def _start_in_sandbox(
        self,
        sandbox: Standing,
        hidden: Sequence[str],
        read_only: Sequence[str],
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        network: bool,
        project_dir: Path,
        output: int,
        errors: int | None,
        stdin: int | None,
    ) -> Supervised:
        if self._nested is None or not all(map(os.path.lexists, self._nested)):  # a command may have moved one
            self._nested = await nested_repositories(project_dir)
        hides: Sequence[Path] = ()
        keeps: Sequence[Path] = ()
        if hidden or read_only:  # looked for when a command starts: the one before may have made them
            hides, keeps = await asyncio.to_thread(_places, hidden, read_only, project_dir)
        return await sandbox.start(
            command,
            env,
            project_dir=project_dir,
            workspace_dir=self._site.workspace_dir,
            network=network,
            hidden=hides,
            read_only=keeps,
            repositories=self._nested,
            output=output,
            errors=errors,
            stdin=stdin,
        )

    async def _ask(
        self, call: ToolCallRequest, question: str, choices: Sequence[Choice], *, default: Answer, takes_text: bool
    ) -> tuple[InquiryStatus, Answer]:
        title, _, detail = question.strip().partition("\n")
        number = self._questions[call.call_id] = self._questions.get(call.call_id, 0) + 1
        said = await self._inquiries.ask(
            InquiryKind.QUESTION,
            f"question {call.call_id} {number}",
            title,
            choices=choices,
            default=default,
            detail=detail.strip(),
            takes_text=takes_text,
            call_id=call.call_id,
        )
        return said.status, said.answer

    async def _finished(self, call: ToolCallRequest, result: ToolResult) -> ToolResult:
        """What the model is told: the result, what the sandbox did to it, what the project says about the place."""
        content = clip(result.content, WindowLimits.of(self._models.provider).result_bytes)
        if call.name in ("shell", "job"):
            content += await asyncio.to_thread(_mended, self._site.project_dir, self._nested or ())
        if call.name == "shell" and self._site.sandbox is not None:
            network = allows_network(self._control.policy)
            label = denied_by_sandbox(content, int(result.is_error), network=network)
            content = f"{content}\n[{label}]" if label is not None else content
        for path in _paths(call.params):
            if not self._instructions.is_settled(path):
                told = await asyncio.to_thread(self._instructions.for_path, path)
                content = f"{content}\n\n{told}" if told is not None else content
        return replace(result, content=content)


def _mended(project_dir: Path, nested: Sequence[str]) -> str:
    """Takes out of the repositories what a command may have left for a git outside; what to tell the model of it.

    Blocks.
    """
    own = f"{project_dir}/.git"
    notes = []
    try:
        if mend_common(own):
            notes.append(f"{own}/commondir was removed: git would not work with it")
        for git in (own, *nested):
            notes += [f"{path} was removed: git would write through it, or wait for it" for path in remove_links(git)]
    except OSError as error:
        notes.append(f"git may not work in {project_dir}: {error.strerror}")
    return "".join(f"\n[{note}]" for note in notes[:20])


def _own(project_dir: Path) -> tuple[Instructions, RepositoryRules]:
    """What the repository itself brings. Blocks."""
    return Instructions(project_dir), repository_rules(project_dir)


def _places(hidden: Sequence[str], read_only: Sequence[str], project_dir: Path) -> tuple[list[Path], list[Path]]:
    """What the sandbox has to hide, and to keep as it is. Blocks. Raises ToolError."""
    try:
        return Covered(hidden).places(project_dir), Covered(read_only).places(project_dir)
    except TooManyPlaces as error:
        raise ToolError(
            f"Rules deny more than {MAX_PLACES:,} files, which the sandbox cannot hold: no command runs until a rule "
            "denies their directory instead. Tell the user.",
            ErrorCode.NOT_ALLOWED,
        ) from error


def _paths(params: Mapping[str, object]) -> list[str]:
    named = params.get("path")
    several = params.get("paths")
    return [path for path in (named, *(several if isinstance(several, list) else ())) if isinstance(path, str) and path]
