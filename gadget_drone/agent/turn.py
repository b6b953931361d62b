"""One turn on a drone, from the accepted work order to its last event."""

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gadget_ai.client import ChatClient
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, Unavailable
from gadget_api.events import Notice, WorkOrderComplete
from gadget_api.history import is_command
from gadget_api.inquiries import InquiryKind, InquiryStatus
from gadget_api.traces import Tracer
from gadget_api.turns import ChatTurnStatus
from gadget_api.work_order import OrderProject, WorkOrder
from gadget_drone import git
from gadget_drone.agent.clients import Clients
from gadget_drone.agent.control import Control, Stopping
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.history import Histories, History
from gadget_drone.agent.inquiries import StoppedByUser
from gadget_drone.agent.models import Models
from gadget_drone.agent.resumption import Resumption
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.title import Title
from gadget_drone.agent.workshop import Site, Workshop
from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.context.analysis import Analyses
from gadget_drone.context.tokens import Calibration
from gadget_drone.images import Images
from gadget_drone.server import Server
from gadget_drone.stream import EventStream
from gadget_drone.workspace import Workspace

log = logging.getLogger(__name__)

_SERVER_AWAY_S = 15 * 60.0
_PROGRESS_STEP = 10
"""Percent of a clone between two notices."""


@dataclass(frozen=True)
class Desk:
    """What a drone keeps from turn to turn."""

    server: Server
    histories: Histories
    clients: Clients
    images: Images
    analyses: Analyses
    calibration: Calibration
    checkpoints: Callable[[OrderProject, Path, str], Checkpoints]
    """The project's, for this session."""
    tracer: Tracer


@dataclass(frozen=True)
class TurnPlan:
    """All that a turn is worked with."""

    order: WorkOrder
    received_at: datetime
    workspace: Workspace
    allow_local_git: bool
    resumption: Resumption | None
    """None for a turn that begins."""
    site: Callable[[Path], Site]
    """Where its tools work, in the project's directory."""
    on_cloned: Callable[[], None]


async def work(plan: TurnPlan, desk: Desk, events: EventStream, control: Control) -> bool:
    """Works on the turn until its `workOrderComplete` is in the journal; False when the drone stopped before that.

    Whatever goes wrong ends the turn with a code and a sentence.
    """
    control.is_working = True
    try:
        if control.is_cancelled:
            raise asyncio.CancelledError
        if (goes_on := plan.resumption) is not None:
            events.emit(Notice, level=goes_on.level, code="resumed", message=goes_on.message)
        order = plan.order
        with desk.tracer.span("turn", parent=order.traceparent, turn=order.turn.id, session=order.session.id):
            try:
                await _run(plan, desk, events, control)
            except (GadgetError, OSError):
                await control.may_begin.wait()  # until then the turn may be another's, and is not ours to end
                raise
    except asyncio.CancelledError:
        if not control.is_cancelled:
            raise
        _complete(plan, events, ChatTurnStatus.CANCELLED, "Cancelled by the user.")
    except GadgetError as exc:
        log.warning("turn %s ends: %s", plan.order.turn.id, exc.message)
        _complete(plan, events, ChatTurnStatus.ERROR, exc.message, exc.info)
    except OSError as exc:
        error = GadgetError(ErrorCode.WORKSPACE_DAMAGED, _disk_message(exc))
        log.exception("turn %s ends", plan.order.turn.id)
        _complete(plan, events, ChatTurnStatus.ERROR, error.message, error.info)
    except StoppedByUser as exc:
        _complete(plan, events, ChatTurnStatus.CANCELLED, str(exc))
    except Stopping:
        if not control.is_cancelled:
            return False
        _complete(plan, events, ChatTurnStatus.CANCELLED, "Cancelled by the user.")
    except Exception:
        log.exception("turn %s ends", plan.order.turn.id)
        error = GadgetError(ErrorCode.INTERNAL, "Something failed in the drone; see its log in .gadget/logs/.")
        _complete(plan, events, ChatTurnStatus.ERROR, error.message, error.info)
    else:
        _complete(plan, events, ChatTurnStatus.FINISHED, "Done.")
    return True


async def _run(plan: TurnPlan, desk: Desk, events: EventStream, control: Control) -> None:
    """Looks at what is here, and fetches what is not, while the server is asked whether the turn is ours still; begins
    when it has said so."""
    order = plan.order
    models = Models(order, await desk.clients.of(order.provider), desk.clients.of)
    fetching = asyncio.create_task(_history(plan, desk, models.client, control), name="history")
    try:
        site = plan.site(await _clone(plan, events))
        await _run_at(site, plan, desk, events, control, models, fetching)
    finally:
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)


async def _run_at(
    site: Site,
    plan: TurnPlan,
    desk: Desk,
    events: EventStream,
    control: Control,
    models: Models,
    fetching: Awaitable[History],
) -> None:
    order, client = plan.order, models.client
    checkpoints = desk.checkpoints(order.project, site.project_dir, order.session.id)
    snapshots = Snapshots(checkpoints, order, events)
    title: Title | None = None
    try:
        if not is_command(order.prompt):
            snapshots.take()
        history, workshop, analysis, _, _ = await asyncio.gather(
            fetching,
            Workshop.open(order, site, events, control, models, snapshots, desk.tracer),
            desk.analyses.of(order.session.id, site.project_dir),
            desk.images.fetch(order.images),
            control.may_begin.wait(),
        )
        await workshop.ask_for_trust()
        system = workshop.system_prompt(analysis)
        conversation = Conversation(models.client, system, history.before, history.used_call_ids)
        conversation.add(*history.own)
        window = workshop.window(conversation, desk.calibration)
        if is_command(order.prompt):
            await window.command(order.prompt)
        else:
            if order.session.wants_title:
                title = Title(order.prompt, models, events)
            started = plan.resumption.started_before if plan.resumption is not None else frozenset()
            if started is None:
                started = frozenset(call.call_id for call in conversation.open_calls) - _not_begun(order)
            await workshop.loop(conversation, window).run(started)
            await snapshots.taken()
            if title is not None:
                await title.finish()
        # Of one that goes on, the history may have what was said before it was cut off.
        if plan.resumption is None and models.client is client:
            desk.histories.ended(order, conversation)
    except (StoppedByUser, GadgetError, asyncio.CancelledError) as exc:
        if control.is_cancelled or not isinstance(exc, asyncio.CancelledError):
            await snapshots.last()
        raise
    finally:
        if title is not None:
            await title.close()
        await snapshots.close()
        await desk.clients.trim()
        if site.sandbox is not None:
            await site.sandbox.mend(site.project_dir)  # of what runs on


def _not_begun(order: WorkOrder) -> frozenset[str]:
    """The tool calls that wait for the user's consent still."""
    asked = order.resume.inquiries if order.resume is not None else ()
    waiting = (i for i in asked if i.kind is InquiryKind.APPROVAL and i.status is InquiryStatus.PENDING)
    return frozenset(inquiry.call_id for inquiry in waiting if inquiry.call_id is not None)


async def _history(plan: TurnPlan, desk: Desk, client: ChatClient, control: Control) -> History:
    """As `Histories.of`, patient with a server that is away for a while."""
    begun = time.monotonic()
    delay_s = 0.5
    while True:
        try:
            return await desk.histories.of(desk.server, plan.order, client, goes_on=plan.resumption is not None)
        except Unavailable as exc:
            if not control.may_begin.is_set():
                begun = time.monotonic()  # for that it waits however long it takes
            elif time.monotonic() - begun > _SERVER_AWAY_S:
                raise
            log.info("the history has to wait: %s", exc.message)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, 10.0)


async def _clone(plan: TurnPlan, events: EventStream) -> Path:
    """Makes sure that the project is here, and says how far it is; where it is."""
    project_dir = await asyncio.to_thread(plan.workspace.project_dir, plan.order.project)
    if project_dir == plan.workspace.dir:
        return project_dir  # the workspace is the checkout
    told = -_PROGRESS_STEP
    if not project_dir.exists():
        message = f"Cloning {plan.order.project.slug} from {git.redacted(plan.order.project.git_url)}"
        events.emit(Notice, level="info", code="cloning", message=message)

    def progress(percent: int | None, what: str) -> None:
        nonlocal told
        if percent is None or percent >= told + _PROGRESS_STEP:
            told = percent if percent is not None else told
            done = f" {percent} %" if percent is not None else ""
            events.emit(
                Notice, level="info", code="cloning", message=f"Cloning {plan.order.project.slug}: {what}{done}"
            )

    cloned = await git.ensure_cloned(
        plan.order.project, project_dir, allow_local=plan.allow_local_git, on_progress=progress
    )
    if cloned:
        plan.on_cloned()
    return project_dir


def _complete(
    plan: TurnPlan, events: EventStream, status: ChatTurnStatus, message: str, error: ErrorInfo | None = None
) -> None:
    duration_ms = int((events.clock.now() - plan.received_at).total_seconds() * 1000)
    events.emit(
        WorkOrderComplete,
        success=status is ChatTurnStatus.FINISHED,
        message=message,
        status=status,
        stats=events.stats.ended(max(0, duration_ms)),
        error=error,
    )


def _disk_message(exc: OSError) -> str:
    if exc.errno == errno.ENOSPC:
        return "The disk of the drone's machine is full; make room and send the prompt again."
    return f"The drone's disk does not take the turn's journal ({exc.strerror}); look at it, and send the prompt again."
