"""What a turn is worked with: what the drone has for as long as it runs, and what one turn has."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gadget_api.traces import Tracer
from gadget_api.work_order import OrderProject, WorkOrder
from gadget_drone.agent.clients import Clients
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.agent.sessions import SessionStates
from gadget_drone.checkpoints.checkpoints import Checkpoints
from gadget_drone.context.analysis import Analyses
from gadget_drone.context.tokens import Calibration
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.sandbox.standing import Standing
from gadget_drone.service.images import Images
from gadget_drone.service.server import Server
from gadget_drone.service.uploads import Uploads
from gadget_drone.settings import DroneSettings
from gadget_drone.tools.tool import Tool
from gadget_drone.turn.history import Histories
from gadget_drone.turn.journal import Journal
from gadget_drone.turn.resumption import Resumption
from gadget_drone.turn.stream import EventStream
from gadget_drone.workspace.workspace import Workspace


@dataclass(frozen=True)
class DroneScope:
    """Lives as long as the drone."""

    settings: DroneSettings
    workspace: Workspace
    server: Server
    supervisor: Supervisor
    sandbox: Standing | None
    sessions: SessionStates
    histories: Histories
    clients: Clients
    uploads: Uploads
    images: Images
    analyses: Analyses
    calibration: Calibration
    checkpoints: Callable[[OrderProject, Path, str], Checkpoints]
    """Of a project in its directory, for a session."""
    third_party: Sequence[Tool]
    """Tools that other packages bring."""
    tracer: Tracer


@dataclass(eq=False)
class TurnScope:
    """Lives as long as the turn on this drone: until the server has stored its last event."""

    drone: DroneScope
    order: WorkOrder
    received_at: datetime
    resumption: Resumption | None
    """None for a turn that begins."""
    journal: Journal
    stream: EventStream
    emit: Emitter
    """Of the turn's own agent."""
    inbox: Inbox
    """Of the turn's own agent."""
    decisions: Decisions
    may_begin: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server has confirmed that the turn is still this drone's. Before, no event is sent, no tool runs,
    and the turn does not end."""
    is_working: bool = False
    """Whether the work has begun: a task that is cancelled before would end without a last event."""
    is_revoked: bool = False
    has_noted_quota: bool = False
    """Whether its user knows that the storage quota is used up."""
    task: asyncio.Task[None] | None = None
    """All of it, up to the last acknowledgement."""
    working: asyncio.Task[bool] | None = None
    """The agents alone: what a cancel interrupts."""
