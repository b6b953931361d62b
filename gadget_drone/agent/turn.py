"""One turn on a drone, from the accepted work order to its last event."""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gadget_ai.client import ChatClient, Encoded
from gadget_ai.connect import connect
from gadget_api.errors import ErrorCode, ErrorInfo, GadgetError, Unavailable
from gadget_api.events import BlobRef, Notice, WorkOrderComplete
from gadget_api.messages import Message
from gadget_api.model import utc_now
from gadget_api.sessions import SessionMode
from gadget_api.turns import ChatTurnStatus
from gadget_api.work_order import WorkOrder
from gadget_drone import git
from gadget_drone.agent.control import Control, Stopping
from gadget_drone.agent.conversation import Conversation, call_ids
from gadget_drone.agent.history import Histories
from gadget_drone.agent.loop import Site, run_turn
from gadget_drone.agent.resumption import Resumption
from gadget_drone.context.system_prompt import system_prompt
from gadget_drone.server import Server
from gadget_drone.stream import EventStream
from gadget_drone.supervised import Supervisor
from gadget_drone.tools.toolbox import Toolbox
from gadget_drone.workspace import Workspace

log = logging.getLogger(__name__)

_SERVER_AWAY_S = 15 * 60.0
_PROGRESS_STEP = 10
"""Percent of a clone between two notices."""


@dataclass(frozen=True)
class TurnPlan:
    """All that a turn is worked with."""

    order: WorkOrder
    received_at: datetime
    workspace: Workspace
    spool_dir: Path
    allow_local_git: bool
    resumption: Resumption | None
    """None for a turn that begins."""
    keep_blob: Callable[[Path], BlobRef | None]
    supervisor: Supervisor
    on_cloned: Callable[[], None]


async def work(plan: TurnPlan, server: Server, histories: Histories, events: EventStream, control: Control) -> bool:
    """Works on the turn until its `workOrderComplete` is in the journal; False when the drone stopped before that.

    Whatever goes wrong ends the turn with a code and a sentence.
    """
    control.is_working = True
    try:
        if control.is_cancelled:
            raise asyncio.CancelledError
        if (goes_on := plan.resumption) is not None:
            events.emit(Notice, level=goes_on.level, code="resumed", message=goes_on.message)
        project_dir = await _clone(plan, events)
        await _run(plan, project_dir, server, histories, events, control)
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


async def _run(
    plan: TurnPlan,
    project_dir: Path,
    server: Server,
    histories: Histories,
    events: EventStream,
    control: Control,
) -> None:
    order = plan.order
    client = connect(order.provider)
    try:
        history, used_call_ids, own = await _history(histories, server, order, client, events)
        tools = Toolbox.read_only() if order.session.mode is SessionMode.PLAN else Toolbox.standard()
        conversation = Conversation(client, system_prompt(order, project_dir), history, used_call_ids | call_ids(own))
        conversation.add(*own)
        site = Site(project_dir, plan.spool_dir, plan.keep_blob, plan.supervisor)
        started = plan.resumption.started_before if plan.resumption is not None else frozenset()
        if started is None:
            started = frozenset(call.call_id for call in conversation.open_calls)
        await run_turn(conversation, client, order.provider.model_id, tools, events, control, site, started)
    finally:
        await client.close()


async def _history(
    histories: Histories, server: Server, order: WorkOrder, client: ChatClient, events: EventStream
) -> tuple[list[Encoded], set[str], tuple[Message, ...]]:
    """As `Histories.fetch`, patient with a server that is away for a while."""
    begun = time.monotonic()
    delay_s = 0.5
    while True:
        try:
            return await histories.fetch(server, order, client)
        except Unavailable as exc:
            if time.monotonic() - begun > _SERVER_AWAY_S:
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
    duration_ms = int((utc_now() - plan.received_at).total_seconds() * 1000)
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
