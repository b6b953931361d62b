"""One turn on a drone, from the accepted work order to its last event."""

import asyncio
import errno
import logging
import time
from pathlib import Path

from gadget_ai.client import ChatClient
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, Unavailable
from gadget_api.events import Notice, WorkOrderComplete
from gadget_api.history import is_command
from gadget_api.inquiries import InquiryKind, InquiryStatus
from gadget_api.messages import SystemMessage
from gadget_api.model import utc_now
from gadget_api.turns import ChatTurnStatus
from gadget_api.work_order import WorkOrder
from gadget_api.workspace_files import WorkspaceProject
from gadget_drone.agent.budget import OrderBudget
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.inbox import Stopping
from gadget_drone.agent.inquiries import Inquiries, StoppedByUser
from gadget_drone.agent.models import Models
from gadget_drone.agent.permission import Permission
from gadget_drone.agent.place import Place
from gadget_drone.agent.repeats import Repeats
from gadget_drone.agent.run import AgentRun
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.title import Title
from gadget_drone.agent.tool_runner import ToolRunner
from gadget_drone.agent.trusting import Trusting
from gadget_drone.agent.window import Window
from gadget_drone.context.instructions import Instructions
from gadget_drone.context.system_prompt import system_prompt
from gadget_drone.git import clone as git
from gadget_drone.permissions.decide import hidden_patterns
from gadget_drone.permissions.repository import RepositoryRules, repository_rules
from gadget_drone.tools.toolbox import Toolbox
from gadget_drone.turn.history import History
from gadget_drone.turn.scope import TurnScope

log = logging.getLogger(__name__)

_SERVER_AWAY_S = 15 * 60.0
_PROGRESS_STEP = 10
"""Percent of a clone between two notices."""


async def work(turn: TurnScope) -> bool:
    """Works on the turn until its `workOrderComplete` is in the journal; False when the drone stopped before that.

    Every failure ends the turn with a code and a sentence.
    """
    turn.is_working = True
    order, inbox = turn.order, turn.inbox
    try:
        if inbox.is_cancelled:
            raise asyncio.CancelledError
        if (resumption := turn.resumption) is not None:
            turn.emit(Notice, level=resumption.level, code="resumed", message=resumption.message)
        with turn.drone.tracer.span("turn", parent=order.traceparent, turn=order.turn.id, session=order.session.id):
            try:
                await _run(turn)
            except (GadgetError, OSError):
                await turn.may_begin.wait()  # until then another drone may have the turn, and ends it
                raise
    except asyncio.CancelledError:
        if not inbox.is_cancelled:
            raise
        _complete(turn, ChatTurnStatus.CANCELLED, "Cancelled by the user.")
    except GadgetError as exc:
        log.warning("turn %s ends: %s", order.turn.id, exc.message)
        _complete(turn, ChatTurnStatus.ERROR, exc.message, exc.info)
    except OSError as exc:
        error = GadgetError(ErrorCode.WORKSPACE_DAMAGED, _disk_message(exc))
        log.exception("turn %s ends", order.turn.id)
        _complete(turn, ChatTurnStatus.ERROR, error.message, error.info)
    except StoppedByUser as exc:
        _complete(turn, ChatTurnStatus.CANCELLED, str(exc))
    except Stopping:
        if not inbox.is_cancelled:
            return False
        _complete(turn, ChatTurnStatus.CANCELLED, "Cancelled by the user.")
    except Exception:
        log.exception("turn %s ends", order.turn.id)
        error = GadgetError(ErrorCode.INTERNAL, "Something failed in the drone; see its log in .gadget/logs/.")
        _complete(turn, ChatTurnStatus.ERROR, error.message, error.info)
    else:
        _complete(turn, ChatTurnStatus.FINISHED, "Done.")
    return True


async def _run(turn: TurnScope) -> None:
    """Runs the turn's agent. Tools and the turn's end wait until the server confirms that the turn is still this
    drone's; the model is asked meanwhile."""
    order, drone = turn.order, turn.drone
    models = Models(order.provider, await drone.clients.of(order.provider), order.fallbacks, drone.clients.of)
    fetching = asyncio.create_task(_history(turn, models.client), name="history")
    project_dir: Path | None = None
    snapshots: Snapshots | None = None
    try:
        project_dir = await _clone(turn)
        snapshots = Snapshots(drone.checkpoints(order.project, project_dir, order.session.id), order, turn.emit)
        if not is_command(order.prompt):
            snapshots.take()
        place, rules, analysis, _ = await asyncio.gather(
            _place(turn, project_dir, models),
            asyncio.to_thread(repository_rules, project_dir),
            drone.analyses.of(order.session.id, project_dir),
            drone.images.fetch(order.images),
        )
        toolbox = Toolbox.standard(drone.third_party)
        instructions = await _trusted_instructions(turn, place, rules)
        names = [spec.name for spec in toolbox.specs]
        system = system_prompt(order, project_dir, tools=names, analysis=analysis, instructions=instructions)
        await _converse(turn, models, place, snapshots, toolbox, system, await fetching)
        await turn.may_begin.wait()
    except (StoppedByUser, GadgetError, asyncio.CancelledError) as exc:
        if snapshots is not None and (turn.inbox.is_cancelled or not isinstance(exc, asyncio.CancelledError)):
            await snapshots.last()
        raise
    finally:
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        if snapshots is not None:
            await snapshots.close()
        await drone.clients.trim()
        if drone.sandbox is not None and project_dir is not None:
            for note in await drone.sandbox.mend(project_dir, turn_ends=True):
                turn.emit(Notice, level="warning", code="gitMended", message=note)


async def _converse(
    turn: TurnScope,
    models: Models,
    place: Place,
    snapshots: Snapshots,
    toolbox: Toolbox,
    system: SystemMessage,
    history: History,
) -> None:
    """Runs the turn's own agent, or the command that the prompt is."""
    order, drone, client = turn.order, turn.drone, models.client
    conversation = Conversation(client, system, history.before, history.used_call_ids)
    conversation.add(*history.own)

    def follow() -> None:
        """Instructions that a compaction took away are given again."""
        place.instructions.follow(conversation.messages)

    window = Window(conversation, models, toolbox.specs, turn.emit, drone.calibration, follow)
    if is_command(order.prompt):
        await window.command(order.prompt)
    else:
        follow()
        title = Title(order.prompt, models, turn.emit) if order.session.wants_title else None
        try:
            agent = _agent(turn, models, place, snapshots, toolbox, conversation, window)
            await agent.run(_started_before(turn, conversation))
            await snapshots.taken()
            if title is not None:
                await title.finish()
        finally:
            if title is not None:
                await title.close()
    # The history of a resumed turn may hold the beginning of an answer that was cut off.
    if turn.resumption is None and models.client is client:
        drone.histories.ended(order, conversation)


def _agent(
    turn: TurnScope,
    models: Models,
    place: Place,
    snapshots: Snapshots,
    toolbox: Toolbox,
    conversation: Conversation,
    window: Window,
) -> AgentRun:
    """The turn's own agent."""
    emit, inbox, inquiries, tracer = turn.emit, turn.inbox, place.inquiries, turn.drone.tracer
    permission = Permission(
        toolbox, turn.decisions, inquiries, place.project_dir, place.sandbox is not None, place.context
    )
    repeats = Repeats(emit, inbox, turn.decisions, inquiries)
    tools = ToolRunner(
        toolbox, emit, inbox, permission, repeats, snapshots, place, place.session.jobs, turn.may_begin, tracer
    )
    budget = OrderBudget(turn.order, emit, inquiries)
    return AgentRun(conversation, window, tools, models, budget, inbox, emit, tracer)


async def _place(turn: TurnScope, project_dir: Path, models: Models) -> Place:
    """Where the turn's own agent works."""
    drone, order = turn.drone, turn.order
    return Place(
        project_dir=project_dir,
        spool_dir=drone.workspace.blobs_dir,
        supervisor=drone.supervisor,
        sandbox=drone.sandbox,
        session=await drone.sessions.of(order.session.id, project_dir),
        allow_private=drone.settings.allow_private_urls,
        keep_output=lambda spool: drone.uploads.keep(order.turn.id, spool),
        keep_image=lambda image: drone.images.keep(order.turn.user.id, image),
        instructions=await asyncio.to_thread(Instructions, project_dir, lambda: hidden_patterns(turn.decisions.policy)),
        models=models,
        emit=turn.emit,
        inquiries=Inquiries(order, turn.emit, turn.decisions, turn.stream.clock),
        decisions=turn.decisions,
    )


async def _trusted_instructions(turn: TurnScope, place: Place, rules: RepositoryRules) -> str | None:
    """The project's instructions. Asks the user first whether they trust what the repository brings."""
    if rules.error is not None:
        turn.emit(Notice, level="warning", code="repositoryRules", message=rules.error)
    instructions = place.instructions
    if not await Trusting(turn.decisions, place.inquiries).may_use(rules, instructions.root):
        instructions.root = None
        turn.emit(
            Notice,
            level="warning",
            code="instructionsNotTrusted",
            message="The project's instructions changed and were not trusted: the agent works without them.",
        )
    return instructions.root


def _started_before(turn: TurnScope, conversation: Conversation) -> frozenset[str]:
    """The open tool calls that may have run before a crash."""
    if turn.resumption is None:
        return frozenset()
    if turn.resumption.started_before is not None:
        return turn.resumption.started_before
    return frozenset(call.call_id for call in conversation.open_calls) - _not_begun(turn.order)


def _not_begun(order: WorkOrder) -> frozenset[str]:
    """The tool calls that still wait for the user's consent."""
    inquiries = order.resume.inquiries if order.resume is not None else ()
    waiting = (i for i in inquiries if i.kind is InquiryKind.APPROVAL and i.status is InquiryStatus.PENDING)
    return frozenset(inquiry.call_id for inquiry in waiting if inquiry.call_id is not None)


async def _history(turn: TurnScope, client: ChatClient) -> History:
    """As `Histories.of`, patient with a server that is away for a while."""
    drone = turn.drone
    begun = time.monotonic()
    delay_s = 0.5
    while True:
        try:
            return await drone.histories.of(drone.server, turn.order, client, goes_on=turn.resumption is not None)
        except Unavailable as exc:
            if not turn.may_begin.is_set():
                begun = time.monotonic()  # that wait has no limit
            elif time.monotonic() - begun > _SERVER_AWAY_S:
                raise
            log.info("the history has to wait: %s", exc.message)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, 10.0)


async def _clone(turn: TurnScope) -> Path:
    """Makes sure that the project is here, and emits the progress of a clone. Returns the project's directory."""
    workspace, project = turn.drone.workspace, turn.order.project
    project_dir = await asyncio.to_thread(workspace.project_dir, project)
    if project_dir == workspace.dir:
        return project_dir  # the workspace is the checkout
    shown = -_PROGRESS_STEP

    def notice(message: str) -> None:
        turn.emit(Notice, level="info", code="cloning", message=f"Cloning {project.slug}{message}")

    if not project_dir.exists():
        notice(f" from {git.redacted(project.git_url)}")

    def progress(percent: int | None, what: str) -> None:
        nonlocal shown
        if percent is None or percent >= shown + _PROGRESS_STEP:
            shown = percent if percent is not None else shown
            done = f" {percent} %" if percent is not None else ""
            notice(f": {what}{done}")

    allow_local = turn.drone.settings.allow_local_git
    if await git.ensure_cloned(project, project_dir, allow_local=allow_local, on_progress=progress):
        now = utc_now()
        others = [known for known in workspace.file.projects if known.id != project.id]
        cloned = WorkspaceProject(
            id=project.id, slug=project.slug, git_url=project.git_url, cloned_at=now, last_sync_at=now
        )
        workspace.update(projects=(*others, cloned))
    return project_dir


def _complete(turn: TurnScope, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None) -> None:
    duration_ms = int((turn.stream.clock.now() - turn.received_at).total_seconds() * 1000)
    turn.emit(
        WorkOrderComplete,
        success=status is ChatTurnStatus.FINISHED,
        message=message,
        status=status,
        stats=turn.stream.stats.ended(max(0, duration_ms)),
        error=error,
    )


def _disk_message(exc: OSError) -> str:
    if exc.errno == errno.ENOSPC:
        return "The disk of the drone's machine is full; make room and send the prompt again."
    return f"The drone's disk does not take the turn's journal ({exc.strerror}); look at it, and send the prompt again."
