"""The turn that this drone works on: from the offer to its end being stored at the server, over crashes and lost
connections."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gadget_api import commands as c
from gadget_api.clock import SteadyClock
from gadget_api.drones import DroneStatus
from gadget_api.errors import Conflict, ErrorCode, GadgetError, NotFound
from gadget_api.events import Notice, turn_event
from gadget_api.ids import new_id
from gadget_api.turns import TurnStats
from gadget_api.work_order import WorkOrder
from gadget_api.workspace import WorkspaceMode
from gadget_api.workspace_files import WorkOrderFile
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inbox import Inbox
from gadget_drone.service.link import Handler
from gadget_drone.turn.journal import Journal
from gadget_drone.turn.presence import Presence
from gadget_drone.turn.recovery import LeftTurn, find_left_turn, forget, go_on, journal_path, load_journal
from gadget_drone.turn.resumption import Resumption, taken_over
from gadget_drone.turn.scope import DroneScope, TurnScope
from gadget_drone.turn.stream import EventStream, Send
from gadget_drone.turn.work import work
from gadget_drone.workspace.occupancy import Occupancy
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)

_STEP_S = 10.0
"""How long a stop waits for the running step (reliability promise P11)."""
_HAND_OVER_S = 5.0
_BEGIN_AGAIN_S = 1.0
_ABANDON_S = 5.0
_LET_GO_S = 3.0
"""Less than the server waits for an answer."""


class Turns:
    """One at a time. `tasks` is set before the first connection stands."""

    tasks: asyncio.TaskGroup

    def __init__(
        self,
        workspace: Workspace,
        occupancy: Occupancy,
        presence: Presence,
        drone: DroneScope,
        send: Send,
        greet: Callable[[], None],
    ) -> None:
        """`send` is the link's; `greet` says anew to the server what the drone does."""
        self._workspace = workspace
        self._occupancy = occupancy
        self._presence = presence
        self._drone = drone
        self._send = send
        self._greet = greet
        self._turn: TurnScope | None = None
        self._is_stopping = False
        self._recovery: asyncio.Future[c.CrashRecoveryResponse] | None = None
        self._question: str | None = None
        """The id of what we last asked about a recovery."""

    @property
    def handlers(self) -> dict[str, Handler]:
        return {
            "processWorkOrder": self.process,
            "cancelTurn": self.cancel,
            "steerTurn": self.steer,
            "answerInquiry": self.answer,
            "setPolicy": self.set_policy,
            "turnAck": self.acked,
            "turnResend": self.resend,
            "turnRevoked": self.revoked,
            "crashRecoveryResponse": self.recovered,
        }

    async def is_free(self) -> bool:
        """Whether no turn has the workspace. Who asks may know of a turn's end before we have let go of the turn: that
        is waited for."""
        turn = self._turn
        if turn is not None and turn.task is not None and turn.journal.is_complete:
            await asyncio.wait([turn.task], timeout=_LET_GO_S)
        return self._turn is None

    @property
    def is_idle(self) -> bool:
        """Whether a turn would be taken."""
        return self._turn is None and self._recovery is None and not self._is_stopping

    async def become_available(self) -> None:
        """Tells the server, if it is so. Raises GadgetError."""
        if self.is_idle:
            await self._presence.report(DroneStatus.AVAILABLE)

    async def say_what_runs(self) -> bool:
        """The connection stands: tells the server of the turn at work, and sends what it lacks; whether there is one.
        Raises GadgetError."""
        turn = self._turn
        if turn is None:
            return False
        await self._presence.report(DroneStatus.BUSY)
        await self._presence.call("requestWorkspaceMode", c.DroneWorkspaceMode(mode=self._occupancy.mode))
        turn.stream.resend()
        return True

    async def process(self, ask: c.ProcessWorkOrder) -> None:
        order = ask.work_order
        turn = self._turn
        if turn is not None and turn.order.turn.id == order.turn.id and turn.order.epoch == order.epoch:
            return  # an offer that was repeated because our answer was lost
        if self._is_stopping:
            raise Conflict(ErrorCode.DRONE_STOPPING, "This drone is stopping.")
        if turn is not None or self._recovery is not None or find_left_turn(self._workspace) is not None:
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
            raise Conflict(ErrorCode.WORKSPACE_REFUSED, takes_nothing(self._workspace, exc)) from exc

    def _accept(self, order: WorkOrder, journal: Journal, resumption: Resumption | None) -> None:
        """Takes the turn on: from here it survives our death. Raises OSError."""
        assert self._turn is None
        clock = SteadyClock()
        received_at = clock.now()
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
        stream = EventStream(
            turn_id=order.turn.id,
            chat_session_id=order.session.id,
            epoch=order.epoch,
            journal=journal,
            send=self._send,
            stats=stats,
            clock=clock,
        )
        turn = self._turn = TurnScope(
            drone=self._drone,
            order=order,
            received_at=received_at,
            resumption=resumption,
            journal=journal,
            stream=stream,
            emit=Emitter(stream, stats=stats, price=order.provider.price),
            inbox=Inbox(order.steers, steered=journal.steered),
            decisions=Decisions(order.policy, order.resume.inquiries if order.resume is not None else ()),
        )
        turn.task = self.tasks.create_task(self._run(turn), name="turn")

    async def _run(self, turn: TurnScope) -> None:
        self._presence.status = DroneStatus.BUSY
        pump = self.tasks.create_task(self._send_events(turn), name="pump")
        noting = self.tasks.create_task(_to_the_end(self._presence.save), name="note")
        try:
            if not turn.journal.is_complete:
                await turn.stream.acknowledged()  # what a crash left: the server's history has it then
                turn.working = self.tasks.create_task(work(turn), name="work")
                await asyncio.wait([turn.working])
                is_ended = not turn.working.cancelled() and turn.working.result()
                if not is_ended or turn.is_revoked:
                    if not turn.is_revoked:
                        await self._hand_over(turn)
                    return  # the files stay for the next start, or are let go of by `_abandon`
            await asyncio.gather(_to_the_end(self._note_end), turn.stream.acknowledged())
            self._drone.histories.stored(turn.order.turn.id)
        finally:
            if turn.working is not None:
                await _cancelled(turn.working)
            await _cancelled(pump)
            await asyncio.wait([noting])
        await self._let_go(turn)

    async def _send_events(self, turn: TurnScope) -> None:
        """Sends the turn's events when the server has confirmed that the turn is still this drone's."""
        await self._begin(turn.order)
        turn.may_begin.set()
        await turn.stream.pump()

    async def _begin(self, order: WorkOrder) -> None:
        """Waits until the server confirms that the turn is still this drone's, for the offer may have arrived late.
        When it is not, the turn's task is cancelled."""
        self._occupancy.mode = WorkspaceMode.AGENT
        begin = c.BeginTurn(turn_id=order.turn.id, epoch=order.epoch)
        while True:
            try:
                await self._presence.call("beginTurn", begin)
                return
            except GadgetError as exc:
                if exc.code is ErrorCode.STALE_EPOCH:
                    await self.revoked(c.TurnRevoked(turn_id=order.turn.id, code=exc.code, message=exc.message))
                log.info("the turn waits to begin: %s", exc.message)
            await asyncio.sleep(_BEGIN_AGAIN_S)

    async def _hand_over(self, turn: TurnScope) -> None:
        """Before we end: gives the server a moment to take what it lacks. The rest it gets after the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await turn.stream.acknowledged()

    def _note_end(self) -> None:
        file = self._workspace.load_work_order()
        if file is not None:
            with suppress(OSError):  # the journal has it
                self._workspace.save_work_order(file.replace(status="completed"))

    async def _let_go(self, turn: TurnScope) -> None:
        """The turn's end is stored at the server: nothing of it is needed here any more."""
        if self._turn is turn:
            turn.journal.close()
            try:
                forget(self._workspace, turn.order.turn.id)
            except OSError as exc:  # the next start asks about it, and is told to let go of it
                log.warning("the files of turn %s stay: %s", turn.order.turn.id, exc)
            self._occupancy.end()
            self._turn = None
        if self._turn is not None:
            return  # another one was accepted while the last was let go of twice
        with suppress(GadgetError):  # the link is down: the next connection says it
            await asyncio.gather(self._presence.enter_mode(WorkspaceMode.IDLE), self.become_available())

    async def cancel(self, ask: c.CancelTurn) -> None:
        turn = self._at_work(ask.turn_id)
        turn.inbox.is_cancelled = True
        if turn.working is not None and turn.is_working:
            turn.working.cancel()

    async def steer(self, ask: c.DeliverSteer) -> None:
        if not self._at_work(ask.turn_id).inbox.put(ask):
            raise Conflict(ErrorCode.RATE_LIMITED, "Too many messages wait for the next step; wait for it.")

    async def answer(self, ask: c.DeliverAnswer) -> None:
        self._at_work(ask.turn_id).decisions.put(ask)

    async def set_policy(self, ask: c.SetPolicy) -> None:
        self._at_work(ask.turn_id).decisions.policy = ask.policy

    def _at_work(self, turn: str) -> TurnScope:
        if self._turn is None or self._turn.order.turn.id != turn or self._turn.journal.is_complete:
            raise NotFound("turn at work on this drone")
        return self._turn

    async def acked(self, ask: c.TurnAck) -> None:
        if self._turn is not None and self._turn.order.turn.id == ask.turn_id:
            self._turn.stream.ack(ask.seq)

    async def resend(self, ask: c.TurnResend) -> None:
        if self._turn is not None and self._turn.order.turn.id == ask.turn_id:
            self._turn.stream.resend(ask.after_seq)

    def note_full(self, turn_id: str | None, message: str) -> None:
        """Shows a notice, once a turn: the server had no room for an output of the turn `turn_id`, or for an image
        (None)."""
        turn = self._turn
        if turn is None or turn.has_noted_quota or turn.journal.is_complete or turn.is_revoked:
            return
        if turn_id in (None, turn.order.turn.id):
            turn.has_noted_quota = True
            with suppress(OSError):  # a full disk ends the turn at its next event
                notice = (
                    f"The turn goes on, but large outputs are kept as their beginning and end, images not. {message}"
                )
                turn.emit(Notice, level="warning", code=ErrorCode.STORAGE_FULL, message=notice)

    async def revoked(self, ask: c.TurnRevoked) -> None:
        """The turn is not ours, or not under this epoch: stop at once."""
        turn = self._turn
        if turn is None or turn.order.turn.id != ask.turn_id:
            return
        if not turn.is_revoked:
            turn.is_revoked = True
            turn.inbox.is_cancelled = False  # there is no end to be written any more
            log.warning("turn %s was taken from this drone: %s", ask.turn_id, ask.message)
            # Not here: what follows waits for answers, which are read by the task that called us.
            letting_go = self._ask_again if ask.code is ErrorCode.STALE_EPOCH else self._abandon
            self.tasks.create_task(letting_go(turn), name="let go")

    async def _abandon(self, turn: TurnScope) -> None:
        assert turn.task is not None
        await _cancelled(turn.task)
        await self._let_go(turn)

    async def _ask_again(self, turn: TurnScope) -> None:
        """The epoch is over; whether the turn is still ours under another (our own question may have raised it) the
        server says. Until then our journal may be the only one that has what was done."""
        assert turn.task is not None
        await _cancelled(turn.task)
        turn.journal.close()
        self._turn = None
        self._greet()

    # Recovery

    async def recover(self, left: LeftTurn) -> bool:
        """Asks what shall become of the turn that a crash left, and does it; whether it goes on here."""
        journal = load_journal(self._workspace, left.turn_id)
        answered = self._recovery = asyncio.get_running_loop().create_future()
        self._question = new_id()
        try:
            await self._presence.call(
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

    async def recovered(self, response: c.CrashRecoveryResponse) -> None:
        is_late = response.question not in (None, self._question)
        if self._recovery is not None and not self._recovery.done() and not is_late:
            self._recovery.set_result(response)

    # The end

    async def stop(self) -> None:
        """Lets the running step end, hands over what it can, and leaves the rest for the next start."""
        self._is_stopping = True
        turn = self._turn
        if turn is None:
            return
        log.info("stopping: waiting for the running step")
        turn.inbox.is_stopping = True
        if turn.working is not None and not turn.working.done():
            is_at_step = turn.may_begin.is_set() and not turn.stream.is_waiting
            if is_at_step and not turn.decisions.is_asking:
                await asyncio.wait([turn.working], timeout=_STEP_S)
            turn.working.cancel()
            await asyncio.wait([turn.working])
        if turn.task is not None:
            await asyncio.wait([turn.task], timeout=_HAND_OVER_S)
            turn.task.cancel()

    def close(self) -> None:
        """The drone ends; what is left goes on with its next start."""
        if self._turn is not None:
            self._turn.journal.close()


def takes_nothing(workspace: Workspace, exc: OSError) -> str:
    return f"The workspace cannot be written to ({exc.strerror}): make room in {workspace.dir}."


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
