"""The dispatcher: offers queued turns to drones, the oldest of each session first, one at a time per session."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from gadget_api.commands import ProcessWorkOrder
from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.sessions import ChatSession
from gadget_api.traces import Tracer
from gadget_api.turn_states import DISPATCH, REFUSE
from gadget_api.turns import ChatTurn, ChatTurnStatus, Waiting
from gadget_api.workspace import WorkspaceMode
from gadget_code.permissions.policies import Policies
from gadget_code.recording.recorder import Recorder
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.turns.work_orders import WorkOrders

log = logging.getLogger(__name__)

_OFFER_S = 10.0


@dataclass(frozen=True)
class WaitReason:
    """Why no drone takes a turn, for programs and for people."""

    waiting: Waiting
    reason: str


_REVERTING = WaitReason(Waiting.DRONE_BUSY, "Waiting until the revert or redo of this session is done.")


class Dispatcher:
    def __init__(
        self,
        store: MongoStore,
        rooms: Rooms,
        orders: WorkOrders,
        policies: Policies,
        recorder: Recorder,
        background: BackgroundTasks,
        tracer: Tracer,
    ) -> None:
        self._store = store
        self._tracer = tracer
        self._orders = orders
        self._policies = policies
        self._rooms = rooms
        self._recorder = recorder
        self._background = background
        self._again: set[str] = set()
        """Users whose queue has changed during their pass."""
        self._running: set[str] = set()

    def kick(self, user: str) -> None:
        """Starts a pass over the user's queued turns: a turn was submitted or has ended, or a drone is free."""
        if user in self._running:
            self._again.add(user)
            return
        self._running.add(user)
        self._background.start(self._run(user), f"dispatch for {user}")

    async def _run(self, user: str) -> None:
        try:
            while True:
                self._again.discard(user)
                await self._pass(user)
                if user not in self._again:
                    return
        except GadgetError as exc:
            log.warning("queued turns of user %s wait: %s", user, exc.message)
        finally:
            self._running.discard(user)
            self._again.discard(user)

    async def _pass(self, user: str) -> None:
        unfinished = await self._store.turns.unfinished({"user": user})
        busy = {turn.session for turn in unfinished if turn.status is ChatTurnStatus.PROCESSING}
        for turn in unfinished:
            if turn.status is ChatTurnStatus.QUEUED and turn.session not in busy:
                busy.add(turn.session)
                await self._dispatch(turn)

    async def _dispatch(self, turn: ChatTurn) -> None:
        if turn.cancel_requested:  # cancelled during an offer
            await self._recorder.cancel(turn)
            return
        try:
            (session, is_claimed), drones, locks = await asyncio.gather(
                self._store.sessions.with_claim(turn.user, turn.session),
                self._store.drones.all({"user": turn.user}),
                self._store.sessions.locks(turn.user),
            )
            candidates: list[DroneRegistration] = []
            wait: WaitReason | None = _REVERTING
            if not is_claimed:
                candidates, wait = candidate_drones(session, drones, locks)
            for drone in candidates:
                claimed = await self._store.drones.claim(drone.id, turn.id)
                if claimed is None:
                    continue
                refused = await self._offer(turn, session, claimed)
                if refused is None:
                    return
                turn, wait = refused
        except GadgetError as exc:
            if exc.retryable:
                raise
            # Read again: a failed offer has raised the epoch.
            now = await self._store.turns.owned(turn.user, turn.id)
            if now.status is ChatTurnStatus.QUEUED:
                await self._recorder.end(now, ChatTurnStatus.ERROR, exc.message, exc.info)
            return
        if wait is not None and (wait.waiting, wait.reason) != (turn.waiting, turn.status_reason):
            await self._rooms.emit_turn(await self._store.turns.wait_for(turn, wait.waiting, wait.reason))

    async def _offer(
        self, turn: ChatTurn, session: ChatSession, drone: DroneRegistration
    ) -> tuple[ChatTurn, WaitReason] | None:
        """Offers the turn to a drone that was claimed for it. Returns None when the drone works on it, or the turn has
        changed; else the queued turn, and why the drone refused."""
        changes = {"waiting": None, "statusReason": None, "drone": drone.id, "workspaceId": drone.workspace_id}
        offered = turn.replace(epoch=turn.epoch + 1, drone=drone.id, workspace_id=drone.workspace_id)
        # Wait for both, so that a failure of one releases what the other has taken.
        started, order = await asyncio.gather(
            self._store.turns.move(turn, DISPATCH, ChatTurnStatus.PROCESSING, changes),
            self._orders.build(offered, session),
            return_exceptions=True,
        )
        if isinstance(started, BaseException):
            raise started
        if started is None:
            await self._give_back(drone, turn)
            return None
        try:
            if isinstance(order, BaseException):
                raise order
            with self._tracer.span("dispatch", parent=order.traceparent, turn=turn.id, drone=drone.id) as span:
                self._policies.remember_offer(started, order.policy)
                offer = ProcessWorkOrder(work_order=order.replace(steers=started.steers, traceparent=span.traceparent))
                await self._rooms.call_drone(drone.id, "processWorkOrder", offer, timeout=_OFFER_S)
        except GadgetError as exc:
            log.info("drone %s did not take turn %s: %s", drone.id, turn.id, exc.code)
            refused = await self._store.turns.move(started, REFUSE, ChatTurnStatus.QUEUED, {"drone": None})
            if exc.code is not ErrorCode.DRONE_BUSY:
                await self._give_back(drone, turn)
            if exc.code in (ErrorCode.NOT_FOUND, ErrorCode.INTERNAL):
                raise
            if refused is None:
                return None
            return refused, WaitReason(Waiting.DRONE_REFUSED, f"{drone.name}: {exc.message}")
        await self._rooms.emit_turn(started)
        await self._rooms.emit_drone(drone)
        if session.workspace_id != drone.workspace_id:
            moved = await self._store.sessions.update({"_id": session.id}, {"workspaceId": drone.workspace_id})
            await self._rooms.emit_session(moved)
        return None

    async def _give_back(self, drone: DroneRegistration, turn: ChatTurn) -> None:
        await self._rooms.emit_drone(await self._store.drones.release(drone.id, turn.id))


def candidate_drones(
    session: ChatSession, drones: Sequence[DroneRegistration], locks: dict[str, str]
) -> tuple[list[DroneRegistration], WaitReason | None]:
    """Returns the drones that may take a turn of `session`, the best first; or none, and why.

    A locked or chosen drone is the only candidate. Otherwise the session's workspace comes first (its files are there),
    then drones that have the project, then all others.
    """
    wanted = session.lock.drone_id if session.lock is not None else session.drone
    if wanted is not None:
        drones = [drone for drone in drones if drone.id == wanted]
        if not drones:
            return [], WaitReason(Waiting.DRONE, "The drone chosen for this session was removed; choose another.")
    if not drones:
        reason = "Waiting for a drone: start one with `gadget-drone` in a workspace directory."
        return [], WaitReason(Waiting.DRONE, reason)
    online = [drone for drone in drones if drone.status is not DroneStatus.OFFLINE]
    if not online:
        names = ", ".join(drone.name for drone in drones[:3])
        reason = f"Waiting for a drone: {names} is offline; start it again with `gadget-drone`."
        return [], WaitReason(Waiting.DRONE_OFFLINE, reason)
    free = [drone for drone in online if locks.get(drone.id, session.id) == session.id]
    if not free:
        return [], WaitReason(Waiting.DRONE_RESERVED, "Waiting for a drone: every drone is locked for another session.")
    ready = [drone for drone in free if drone.workspace_mode is not WorkspaceMode.USER]
    if not ready:
        reason = "Waiting for the workspace: you are editing in it; hand it back to continue."
        return [], WaitReason(Waiting.WORKSPACE, reason)
    available = [drone for drone in ready if drone.status is DroneStatus.AVAILABLE]
    if not available:
        return [], WaitReason(Waiting.DRONE_BUSY, "Waiting for a drone: every drone works on another turn.")
    return sorted(
        available,
        key=lambda drone: (drone.workspace_id != session.workspace_id, session.project not in drone.projects),
    ), None
