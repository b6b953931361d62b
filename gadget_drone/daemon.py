"""The daemon: one workspace, one connection, one turn at a time."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Any

from gadget_api import commands as c
from gadget_api.drones import DroneStatus, NewRegistration, Sandbox
from gadget_api.errors import Conflict, ErrorCode, GadgetError, NotFound
from gadget_api.events import turn_event
from gadget_api.ids import new_id
from gadget_api.lag import Lag
from gadget_api.model import utc_now
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.traces import Tracer
from gadget_api.turns import TurnStats
from gadget_api.work_order import WorkOrder
from gadget_api.workspace import WorkspaceMode
from gadget_api.workspace_files import (
    WorkOrderFile,
    WorkspaceProject,
    WorkspaceRegistration,
)
from gadget_drone.agent.calls import Keep
from gadget_drone.agent.clients import Clients
from gadget_drone.agent.control import Control
from gadget_drone.agent.history import Histories
from gadget_drone.agent.resumption import Resumption, taken_over
from gadget_drone.agent.sessions import SessionStates
from gadget_drone.agent.turn import Desk, TurnPlan, work
from gadget_drone.agent.workshop import Site
from gadget_drone.checkpoint_requests import CheckpointRequests
from gadget_drone.context.analysis import Analyses
from gadget_drone.context.tokens import Calibration
from gadget_drone.files.requests import FileRequests
from gadget_drone.images import Images
from gadget_drone.journal import Journal
from gadget_drone.link import Link
from gadget_drone.occupancy import Occupancy
from gadget_drone.recovery import LeftTurn, find_left_turn, forget, go_on, journal_path, load_journal
from gadget_drone.server import Server
from gadget_drone.settings import DroneSettings
from gadget_drone.stream import EventStream
from gadget_drone.supervised import Supervisor
from gadget_drone.terminals.terminals import Terminals
from gadget_drone.tools.entry_points import find_tools
from gadget_drone.tools.toolbox import BUILT_IN
from gadget_drone.uploads import Uploads
from gadget_drone.workspace import Workspace

log = logging.getLogger(__name__)

_STEP_S = 10.0
"""How long a stop waits for the running step (reliability promise P11)."""
_HAND_OVER_S = 5.0
_HELLO_AGAIN_S = 1.0
_MAX_HELLO_AGAIN_S = 8.0
_AVAILABLE_AGAIN_S = 15.0
_ABANDON_S = 5.0


@dataclass
class _Running:
    """The turn this drone works on, until the server has stored its last event."""

    order: WorkOrder
    journal: Journal
    events: EventStream
    control: Control
    task: asyncio.Task[None] | None = None
    """All of it, up to the last acknowledgement."""
    working: asyncio.Task[bool] | None = None
    """The loop alone: what a cancel interrupts."""
    is_revoked: bool = False


class Daemon:
    def __init__(
        self,
        settings: DroneSettings,
        workspace: Workspace,
        server: Server,
        name: str | None,
        sandbox: Sandbox,
        tracer: Tracer,
    ) -> None:
        self._settings = settings
        self._workspace = workspace
        self._server = server
        self._name = name
        self._occupancy = Occupancy(workspace)
        self._running: _Running | None = None
        self._is_stopping = False
        self._hello: asyncio.Task[None] | None = None
        self._uploads = Uploads(workspace.blobs_dir, server)
        self._images = Images(workspace.images_dir, server, self._uploads)
        self._supervisor = Supervisor()
        self._sandbox = sandbox
        self._states = SessionStates()
        self._checkpoints = CheckpointRequests(workspace, lambda: self._running is not None)
        self._clients = Clients(self._images.load)
        self._files = FileRequests(workspace, lambda: self._running is not None, self._checkpoints.of)
        self._desk = Desk(
            server,
            Histories(self._images),
            self._clients,
            self._images,
            Analyses(),
            Calibration(),
            self._checkpoints.of,
            tracer,
        )
        self._third_party = find_tools({tool.spec.name for tool in BUILT_IN}).tools
        self._lag = Lag()
        self._tasks: asyncio.TaskGroup | None = None
        self._recovery: asyncio.Future[c.CrashRecoveryResponse] | None = None
        self._question: str | None = None
        """The id of what we last asked about a recovery."""
        self._terminals = Terminals(
            workspace,
            self._supervisor,
            lambda event, message: self._link.call(event, message),
            is_on=settings.terminals == "on",
        )
        self._link = Link(
            {
                "requestSessionLock": self._lock_session,
                "releaseSessionLock": self._unlock_session,
                "requestWorkspaceMode": self._set_mode,
                "processWorkOrder": self._process,
                "cancelTurn": self._cancel,
                "steerTurn": self._steer,
                "answerInquiry": self._answer,
                "setPolicy": self._set_policy,
                "readDiff": self._checkpoints.read_diff,
                "restoreFiles": self._checkpoints.restore,
                "listFiles": self._files.list_directory,
                "findFiles": self._files.find,
                "readFile": self._files.read,
                "writeFile": self._files.write,
                "renameFile": self._files.rename,
                "deleteFile": self._files.delete,
                "listTerminals": self._terminals.list,
                "openTerminal": self._terminals.open,
                "attachTerminal": self._terminals.attach,
                "writeTerminal": self._terminals.write,
                "resizeTerminal": self._terminals.resize,
                "closeTerminal": self._terminals.close_one,
                "closeTerminals": self._terminals.close_session,
                "terminalsHeard": self._terminals.heard,
                "turnAck": self._acked,
                "turnResend": self._resend,
                "turnRevoked": self._revoked,
                "crashRecoveryResponse": self._recovered,
            },
            self._on_up,
            lambda: workspace.note_connection(is_connected=False),
        )

    async def register(self) -> None:
        """Signs in and registers. Raises GadgetError."""
        settings = self._settings
        if settings.drone_token is not None:
            self._server.token = settings.drone_token.get_secret_value()
        else:
            assert settings.email is not None
            assert settings.password is not None
            await self._server.sign_in(settings.email, settings.password.get_secret_value())
        file = self._workspace.file
        new = NewRegistration(
            hostname=file.hostname,
            workspace_dir=file.workspace_dir,
            workspace_id=file.workspace_id,
            name=self._name,
            protocol_version=PROTOCOL_VERSION,
            version=version("gadget-code"),
            sandbox=self._sandbox,
        )
        try:
            registered = await self._server.register(new)
        except GadgetError as exc:
            if exc.code is not ErrorCode.WORKSPACE_MISMATCH:
                raise
            own = await self._server.registration()
            if (own.hostname, own.workspace_dir) != (file.hostname, file.workspace_dir):
                raise
            log.warning("workspace.json had lost this workspace's id; the server knows it: %s", own.workspace_id)
            self._workspace.update(workspace_id=own.workspace_id)
            registered = await self._server.register(new.replace(workspace_id=own.workspace_id))
        registration = registered.registration
        note = WorkspaceRegistration(id=registration.id, status=DroneStatus.STARTING, registered_at=utc_now())
        with suppress(OSError):  # for people to look at; nothing depends on it
            self._workspace.update(registration=note)
        log.info("registered as %s (%s) at %s", registration.name, registration.id, self._server.url)

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set. Raises GadgetError when the server does not want this drone any more."""
        self._uploads.remove_leftovers()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                link = tasks.create_task(self._link.run(self._server.url, lambda: self._server.token), name="link")
                blobs = tasks.create_task(self._uploads.run(), name="blobs")
                repeat = tasks.create_task(self._repeat_availability(), name="availability")
                terminals = tasks.create_task(self._terminals.run(), name="terminals")
                lag = tasks.create_task(self._lag.measure(), name="event loop lag")
                await stop.wait()
                await asyncio.gather(self._stop(), self._terminals.close())
                hello = [self._hello] if self._hello is not None else []
                for task in (link, blobs, repeat, terminals, lag, *hello):
                    task.cancel()
        except* GadgetError as group:
            raise group.exceptions[0] from None
        finally:
            await self._states.close()
            await self._clients.close()
            await self._terminals.close()
            self._supervisor.close()
            await self._link.drop()
            self._save_status(DroneStatus.OFFLINE)
            if self._running is not None:
                self._running.journal.close()

    # The connection

    async def _on_up(self) -> None:
        """The connection stands: say what we are doing, send what is not acknowledged, ask about what a crash left."""
        assert self._tasks is not None
        log.info("connected to %s", self._server.url)
        self._workspace.note_connection(is_connected=True)
        self._uploads.wake()
        self._terminals.greet()
        self._greet()

    def _greet(self) -> None:
        assert self._tasks is not None
        if self._hello is not None:
            self._hello.cancel()
        self._hello = self._tasks.create_task(self._say_hello(), name="hello")

    async def _say_hello(self) -> None:
        delay_s = _HELLO_AGAIN_S
        while self._link.is_up:
            try:
                return await self._say_what_we_do()
            except (GadgetError, TimeoutError) as exc:
                log.warning("the server does not know yet what we do: %s", exc)
            except OSError as exc:
                log.error("%s The turn that was left here goes on then.", self._takes_nothing(exc))
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _MAX_HELLO_AGAIN_S)

    async def _say_what_we_do(self) -> None:
        running = self._running
        if running is not None:
            await self._report(DroneStatus.BUSY)
            await self._link.call("requestWorkspaceMode", c.DroneWorkspaceMode(mode=self._occupancy.mode))
            running.events.resend()
            return
        discarded = False
        while (left := find_left_turn(self._workspace)) is not None:
            if await self._recover(left):
                return
            discarded = True
        # A lock that still holds the server tells us again.
        self._occupancy.unlock()
        if discarded:
            await self._enter_mode(WorkspaceMode.IDLE)
        await self._become_available()

    async def _become_available(self) -> None:
        if self._is_idle:
            await self._report(DroneStatus.AVAILABLE)

    @property
    def _is_idle(self) -> bool:
        return self._running is None and self._recovery is None and not self._is_stopping

    async def _repeat_availability(self) -> None:
        """Says from time to time that we wait for work: whatever the server believed, it knows better then."""
        while True:
            await asyncio.sleep(_AVAILABLE_AGAIN_S)
            self._workspace.note_lag(self._lag.seen)
            if self._link.is_up and self._is_idle and find_left_turn(self._workspace) is None:
                with suppress(GadgetError):
                    await self._become_available()
                await self._checkpoints.prune()

    async def _report(self, status: DroneStatus) -> None:
        self._save_status(status)
        projects = tuple(project.id for project in self._workspace.file.projects)
        lag = self._lag.seen
        self._workspace.note_lag(lag)
        await self._link.call("droneStatus", c.ReportStatus(status=status, projects=projects, loop_lag=lag))

    def _save_status(self, status: DroneStatus) -> None:
        registration = self._workspace.file.registration
        if registration is not None and registration.status is not status:
            with suppress(OSError):  # for people to look at; nothing depends on it
                self._workspace.update(registration=registration.replace(status=status))

    # Locks and modes

    async def _lock_session(self, ask: c.LockSession) -> None:
        self._occupancy.lock(ask)

    async def _unlock_session(self, ask: c.UnlockSession) -> None:
        if not self._occupancy.is_held_by(ask.chat_session_id):
            return
        if self._running is not None:
            raise Conflict(ErrorCode.DRONE_BUSY, "The drone works for this session; wait, or cancel the turn first.")
        self._occupancy.unlock()

    async def _set_mode(self, ask: c.SetWorkspaceMode) -> None:
        if self._running is not None:
            raise Conflict(ErrorCode.WORKSPACE_BUSY, "The agent works in this workspace; wait, or cancel the turn.")
        self._occupancy.mode = ask.mode

    # A turn

    async def _process(self, ask: c.ProcessWorkOrder) -> None:
        order = ask.work_order
        running = self._running
        if running is not None and running.order.turn.id == order.turn.id and running.order.epoch == order.epoch:
            return  # an offer that was repeated because our answer was lost
        if self._is_stopping:
            raise Conflict(ErrorCode.DRONE_STOPPING, "This drone is stopping.")
        if running is not None or self._recovery is not None or find_left_turn(self._workspace) is not None:
            raise Conflict(ErrorCode.DRONE_BUSY, "This drone works on another turn.", retryable=True)
        self._occupancy.check(order.session.id)
        base_seq = order.resume.acked_seq if order.resume is not None else 0
        journal: Journal | None = None
        try:
            journal = Journal.create(journal_path(self._workspace, order.turn.id), base_seq=base_seq)
            self._accept(order, journal, taken_over() if order.resume is not None else None)
        except OSError as exc:
            if journal is not None:
                journal.close()
            with suppress(OSError):  # the next start clears it up
                forget(self._workspace, order.turn.id)
            raise Conflict(ErrorCode.WORKSPACE_REFUSED, self._takes_nothing(exc)) from exc

    def _accept(self, order: WorkOrder, journal: Journal, resumption: Resumption | None) -> None:
        """Takes the turn on: from here it survives our death. Raises OSError."""
        assert self._tasks is not None
        assert self._running is None
        received_at = utc_now()
        existing = self._workspace.load_work_order()
        if existing is not None and existing.turn_id == order.turn.id:
            received_at = existing.received_at
        self._workspace.save_work_order(
            WorkOrderFile(
                turn_id=order.turn.id,
                chat_session_id=order.session.id,
                project_id=order.project.id,
                work_order_id=order.work_order_id,
                received_at=received_at,
                prompt=order.prompt,
                status="processing",
            )
        )
        self._occupancy.begin(order)
        stats = order.resume.stats if order.resume is not None else TurnStats()
        for event in journal.unacked():
            stats = turn_event.validate_python(event).counted(stats, order.provider.price)
        events = EventStream(
            turn_id=order.turn.id,
            chat_session_id=order.session.id,
            epoch=order.epoch,
            journal=journal,
            send=self._link.send,
            stats=stats,
            price=order.provider.price,
        )
        asked = order.resume.inquiries if order.resume is not None else ()
        control = Control(order.steers, steered=journal.steered, policy=order.policy, inquiries=asked)
        running = self._running = _Running(order, journal, events, control)
        running.task = self._tasks.create_task(self._run_turn(running, received_at, resumption), name="turn")

    async def _run_turn(self, running: _Running, received_at: datetime, resumption: Resumption | None) -> None:
        assert self._tasks is not None
        events = running.events
        pump: asyncio.Task[None] | None = None
        try:
            self._save_status(DroneStatus.BUSY)
            await self._begin(running.order)
            pump = self._tasks.create_task(events.pump(), name="pump")
            if not running.journal.is_complete:
                await events.acknowledged()  # what a crash left: the server's history has it then
                plan = await self._plan(running.order, received_at, resumption)
                running.working = self._tasks.create_task(work(plan, self._desk, events, running.control), name="work")
                await asyncio.wait([running.working])
                is_ended = not running.working.cancelled() and running.working.result()
                if not is_ended or running.is_revoked:
                    if not running.is_revoked:
                        await self._hand_over(running)
                    return  # the files stay for the next start, or are let go of by `_abandon`
            await asyncio.gather(_to_the_end(self._note_end), events.acknowledged())
        finally:
            if running.working is not None:
                await _cancelled(running.working)
            if pump is not None:
                await _cancelled(pump)
        await self._let_go(running)

    async def _begin(self, order: WorkOrder) -> None:
        """Waits until the server has said that the turn is ours still: the offer may have been read long after it was
        made. When it is not, whoever waits here is cancelled."""
        self._occupancy.mode = WorkspaceMode.AGENT
        begin = c.DroneWorkspaceMode(mode=WorkspaceMode.AGENT, turn_id=order.turn.id, epoch=order.epoch)
        while True:
            try:
                await self._link.call("requestWorkspaceMode", begin)
                return
            except GadgetError as exc:
                if exc.code is ErrorCode.STALE_EPOCH:
                    await self._revoked(c.TurnRevoked(turn_id=order.turn.id, code=exc.code, message=exc.message))
                log.info("the turn waits to begin: %s", exc.message)
            await asyncio.sleep(_HELLO_AGAIN_S)

    async def _hand_over(self, running: _Running) -> None:
        """Before we end: gives the server a moment to take what it lacks. The rest it gets after the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await running.events.acknowledged()

    async def _plan(self, order: WorkOrder, received_at: datetime, resumption: Resumption | None) -> TurnPlan:
        def on_cloned() -> None:
            now = utc_now()
            others = [p for p in self._workspace.file.projects if p.id != order.project.id]
            here = WorkspaceProject(
                id=order.project.id,
                slug=order.project.slug,
                git_url=order.project.git_url,
                cloned_at=now,
                last_sync_at=now,
            )
            self._workspace.update(projects=(*others, here))

        site = partial(
            Site,
            workspace_dir=self._workspace.dir,
            spool_dir=self._workspace.blobs_dir,
            supervisor=self._supervisor,
            sandbox=self._sandbox,
            state=await self._states.of(order.session.id),
            third_party=self._third_party,
            allow_private=self._settings.allow_private_urls,
            keep=Keep(
                blob=lambda spool: self._uploads.keep(order.turn.id, spool),
                image=partial(self._images.keep, order.turn.user.id),
            ),
        )
        return TurnPlan(
            order=order,
            received_at=received_at,
            workspace=self._workspace,
            allow_local_git=self._settings.allow_local_git,
            resumption=resumption,
            site=site,
            on_cloned=on_cloned,
        )

    def _note_end(self) -> None:
        file = self._workspace.load_work_order()
        if file is not None:
            with suppress(OSError):  # the journal has it
                self._workspace.save_work_order(file.replace(status="completed"))

    async def _let_go(self, running: _Running) -> None:
        """The turn's end is stored at the server: nothing of it is needed here any more."""
        if self._running is running:
            running.journal.close()
            try:
                forget(self._workspace, running.order.turn.id)
            except OSError as exc:  # the next start asks about it, and is told to let go of it
                log.warning("the files of turn %s stay: %s", running.order.turn.id, exc)
            self._occupancy.end()
            self._running = None
        if self._running is not None:
            return  # another one was accepted while the last was let go of twice
        await self._enter_mode(WorkspaceMode.IDLE)
        with suppress(GadgetError):  # the link is down: the next connection says it
            await self._become_available()

    async def _enter_mode(self, mode: WorkspaceMode) -> None:
        self._occupancy.mode = mode
        try:
            await self._link.call("requestWorkspaceMode", c.DroneWorkspaceMode(mode=mode))
        except GadgetError as exc:
            log.info("the server does not know yet that the workspace is in mode %s: %s", mode, exc.message)

    async def _cancel(self, ask: c.CancelTurn) -> None:
        running = self._turn(ask.turn_id)
        running.control.is_cancelled = True
        if running.working is not None and running.control.is_working:
            running.working.cancel()

    async def _steer(self, ask: c.PutSteer) -> None:
        if not self._turn(ask.turn_id).control.steer(ask):
            raise Conflict(ErrorCode.RATE_LIMITED, "Too many messages wait for the next step; wait for it.")

    async def _answer(self, ask: c.PutAnswer) -> None:
        self._turn(ask.turn_id).control.put_answer(ask)

    async def _set_policy(self, ask: c.SetPolicy) -> None:
        self._turn(ask.turn_id).control.policy = ask.policy

    def _turn(self, turn: str) -> _Running:
        if self._running is None or self._running.order.turn.id != turn or self._running.journal.is_complete:
            raise NotFound("turn at work on this drone")
        return self._running

    async def _acked(self, ask: c.TurnAck) -> None:
        if self._running is not None and self._running.order.turn.id == ask.turn_id:
            self._running.events.ack(ask.seq)

    async def _resend(self, ask: c.TurnResend) -> None:
        if self._running is not None and self._running.order.turn.id == ask.turn_id:
            self._running.events.resend(ask.after_seq)

    async def _revoked(self, ask: c.TurnRevoked) -> None:
        """The turn is not ours, or not under this epoch: stop at once."""
        running = self._running
        if running is None or running.order.turn.id != ask.turn_id:
            return
        if not running.is_revoked:
            running.is_revoked = True
            running.control.is_cancelled = False  # there is no end to be written any more
            log.warning("turn %s was taken from this drone: %s", ask.turn_id, ask.message)
            assert self._tasks is not None
            # Not here: what follows waits for answers, which are read by the task that called us.
            letting_go = self._ask_again if ask.code is ErrorCode.STALE_EPOCH else self._abandon
            self._tasks.create_task(letting_go(running), name="let go")

    async def _abandon(self, running: _Running) -> None:
        assert running.task is not None
        await _cancelled(running.task)
        await self._let_go(running)

    async def _ask_again(self, running: _Running) -> None:
        """The epoch is over; whether the turn is still ours under another (our own question may have raised it) the
        server says. Until then our journal may be the only one that has what was done."""
        assert running.task is not None
        await _cancelled(running.task)
        running.journal.close()
        self._running = None
        self._greet()

    # Recovery

    async def _recover(self, left: LeftTurn) -> bool:
        """Asks what shall become of the turn that a crash left, and does it; whether it goes on here."""
        journal = load_journal(self._workspace, left.turn_id)
        answered = self._recovery = asyncio.get_running_loop().create_future()
        self._question = new_id()
        try:
            await self._link.call(
                "requestCrashRecovery",
                c.RequestCrashRecovery(
                    workspace_id=self._workspace.file.workspace_id,
                    turn_id=left.turn_id,
                    chat_session_id=left.chat_session_id,
                    last_seq=journal.last_seq if journal is not None else 0,
                    question=self._question,
                ),
            )
            async with asyncio.timeout(_STEP_S):
                response = await answered
            log.warning("turn %s was left by a crash: %s", left.turn_id, response.action)
            if response.action is c.RecoveryAction.DISCARD or response.work_order is None:
                if journal is not None:
                    journal.close()
                forget(self._workspace, left.turn_id)
                return False
            await asyncio.sleep(response.retry_delay / 1000)
            journal, resumption = go_on(self._workspace, response, journal)
            self._accept(response.work_order, journal, resumption)
            return True
        except BaseException:
            if journal is not None:
                journal.close()  # as it was: the next try, or the next start, asks again
            raise
        finally:
            if self._recovery is answered:
                self._recovery = None

    async def _recovered(self, response: c.CrashRecoveryResponse) -> None:
        is_late = response.question not in (None, self._question)
        if self._recovery is not None and not self._recovery.done() and not is_late:
            self._recovery.set_result(response)

    def _takes_nothing(self, exc: OSError) -> str:
        return f"The workspace cannot be written to ({exc.strerror}): make room in {self._workspace.dir}."

    # The end

    async def _stop(self) -> None:
        """Lets the running step end, hands over what it can, and leaves the rest for the next start."""
        self._is_stopping = True
        running = self._running
        if running is None:
            return
        log.info("stopping: waiting for the running step")
        running.control.is_stopping = True
        if running.working is not None and not running.working.done():
            if not (running.events.is_waiting or running.control.is_asking):  # no step runs then
                await asyncio.wait([running.working], timeout=_STEP_S)
            running.working.cancel()
            await asyncio.wait([running.working])
        if running.task is not None:
            await asyncio.wait([running.task], timeout=_HAND_OVER_S)
            running.task.cancel()


async def _to_the_end(write: Callable[[], None]) -> None:
    """In a thread, for a slow disk; over when this is left, also by a cancel: nothing is written later."""
    writing = asyncio.ensure_future(asyncio.to_thread(write))
    was_cancelled: asyncio.CancelledError | None = None
    while not writing.done():
        try:
            await asyncio.wait([writing])
        except asyncio.CancelledError as exc:
            was_cancelled = exc
    if was_cancelled is not None:
        raise was_cancelled
    writing.result()


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancels the task until it is over: one cancel may be swallowed by a wait that was just over."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_ABANDON_S)
