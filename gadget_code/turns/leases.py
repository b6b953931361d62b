"""Leases: which drone has a turn, and what happens to the turn when the drone is lost, returns, returns without the
turn, or is replaced.

A drone's document is its lease: it names the turn, and expires unless the process that holds the drone's socket renews
it. The turn's epoch is the fencing token: a new owner raises it, and events of an older epoch are refused.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gadget_api.commands import (
    CrashRecoveryResponse,
    DeliverSteer,
    RecoveryAction,
    RequestCrashRecovery,
    SessionLockChanged,
)
from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput
from gadget_api.turn_states import MOVE, RECOVER, REQUEUE
from gadget_api.turns import ChatTurn, ChatTurnStatus, Steer, SteerOrigin, Waiting
from gadget_code.permissions.inquiries import InquiryAnswers
from gadget_code.permissions.policies import Policies
from gadget_code.recording.recorder import Recorder
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.turns.work_orders import WorkOrders

log = logging.getLogger(__name__)

_MOVED = (
    "[From Gadget Code, not from the user: the machine of this turn was lost. You continue in another workspace. "
    "Files that were changed there and not pushed are missing here; check the files before you continue.]"
)


@dataclass(frozen=True)
class Leases:
    store: MongoStore
    rooms: Rooms
    orders: WorkOrders
    recorder: Recorder
    inquiries: InquiryAnswers
    policies: Policies

    async def drone_lost(self, drone: DroneRegistration) -> None:
        """Stores that the turn of a disconnected drone waits for it."""
        for turn in await self.store.turns.running_on(drone):
            await self._wait_for_drone(turn, drone)

    async def begin(self, drone: str, turn_id: str, epoch: int | None) -> ChatTurn:
        """Marks the turn as begun by the drone. Raises Conflict when it is not the drone's turn under this epoch."""
        turn = await self.store.turns.begin(turn_id, drone, epoch)
        if turn is None:
            raise Conflict(ErrorCode.STALE_EPOCH, "This turn has continued without this drone.")
        return turn

    async def drone_working(self, drone: DroneRegistration) -> None:
        """Handles a drone that reports to be at work: sends its turn's policy, messages and answers. Tells the drone
        when the turn has another owner."""
        turns = await self.store.turns.running_on(drone)
        for turn in turns:
            await self._resume_contact(turn)
        named = await self.store.drones.find({"_id": drone.id})
        if named is not None and named.turn is not None and all(turn.id != named.turn for turn in turns):
            await self.recorder.revoke(
                drone.id, named.turn, ErrorCode.TURN_OVER, "This turn has continued without this drone."
            )

    async def turn_begun(self, turn: ChatTurn) -> None:
        """`drone_working`, for a turn that its drone has just begun."""
        await self._resume_contact(turn, begins=True)

    async def _resume_contact(self, turn: ChatTurn, *, begins: bool = False) -> None:
        try:
            await self.policies.send(turn, begins=begins)  # first: the policy may allow less now
        except GadgetError as exc:
            log.info("the policy of turn %s was not sent: %s", turn.id, exc.message)
        await self._mark_working(turn)
        if turn.last_seq:  # else it has asked nothing
            await self.inquiries.redeliver(turn)

    async def drone_free(self, drone_id: str, changes: dict[str, Any]) -> DroneRegistration | None:
        """Handles a drone that reports to be free. Returns None when the report is older than an offer; the drone
        reports again.

        A turn of this drone was lost with its workspace's files, and is dispatched again.
        """
        drone = await self.store.drones.find({"_id": drone_id})
        if drone is None:
            return None
        if turns := await self.store.turns.running_on(drone):
            offered = await self.store.drones.recent_claim(drone_id)
            if any(turn.id == offered for turn in turns):
                return None
            await self._requeue(turns)
        return await self.store.drones.free(drone, changes)

    async def _requeue(self, turns: Sequence[ChatTurn]) -> None:
        for turn in turns:
            if turn.cancel_requested:
                await self.recorder.cancel(turn)  # cancelled before its drone died
                continue
            await self.recorder.close_stream(turn.id)
            changes = {
                "drone": None,
                "waiting": Waiting.DRONE,
                "statusReason": "The drone has lost the turn; it is dispatched again.",
            }
            await self.rooms.emit_turn(await self.store.turns.move(turn, REQUEUE, ChatTurnStatus.QUEUED, changes))

    async def recover(self, drone_id: str, ask: RequestCrashRecovery) -> CrashRecoveryResponse:
        """Decides what the drone does with a turn that a crash left in its workspace."""
        await self.recorder.close_stream(ask.turn_id)
        turn = await self.store.turns.find({"_id": ask.turn_id, "drone": drone_id, "status": ChatTurnStatus.PROCESSING})
        if turn is not None and turn.cancel_requested:
            await self.recorder.cancel(turn)  # cancelled before its drone died
            turn = None
        if turn is not None:
            changes = {"waiting": None, "statusReason": None}
            turn = await self.store.turns.move(turn, RECOVER, ChatTurnStatus.PROCESSING, changes)
        if turn is None:
            discard = RecoveryAction.DISCARD
            return CrashRecoveryResponse(turn_id=ask.turn_id, action=discard, question=ask.question)
        order = await self.orders.build(turn, await self.store.sessions.owned(turn.user, turn.session))
        busy = {"turn": turn.id, "status": DroneStatus.BUSY}
        await self.rooms.emit_drone(await self.store.drones.report(drone_id, busy))
        await self.rooms.emit_turn(turn)
        return CrashRecoveryResponse(
            turn_id=turn.id,
            # A journal that is behind the store cannot be resumed: rebuild from the stored steps.
            action=RecoveryAction.RESUME if ask.last_seq >= turn.last_seq else RecoveryAction.RETRY,
            epoch=turn.epoch,
            acked_seq=turn.last_seq,
            question=ask.question,
            work_order=order,
        )

    async def move(self, user: str, turn_id: str, drone_id: str | None) -> ChatTurn:
        """Takes the turn from its lost drone, so that another continues from its last step. Raises Conflict,
        NotFound."""
        turn = await self.store.turns.owned(user, turn_id)
        target = await self.store.drones.owned(user, drone_id) if drone_id is not None else None
        if turn.status.is_over:
            raise Conflict(ErrorCode.TURN_OVER, "This turn is over already.")
        if turn.status is ChatTurnStatus.QUEUED:
            raise Conflict(ErrorCode.TURN_NOT_RUNNING, "This turn waits for a drone; choose one for its session.")
        lost = await self.store.drones.find({"_id": turn.drone})
        if lost is not None and lost.status is not DroneStatus.OFFLINE:
            raise Conflict(
                ErrorCode.DRONE_BUSY, f"{lost.name} is connected and works on this turn; cancel it, or wait."
            )
        if target is not None and target.id == turn.drone:
            raise InvalidInput(f"{target.name} is the drone that was lost; choose another.")
        await self.recorder.close_stream(turn.id)
        await self._choose_drone(turn, target)
        changes = {
            "drone": None,
            "workspaceId": None,
            "waiting": Waiting.DRONE,
            "statusReason": "Moving to another drone.",
        }
        note = Steer(steer_id=f"moved-{turn.epoch}", content=_MOVED, origin=SteerOrigin.SERVICE)
        push = {"push": {"steers": note.model_dump()}} if turn.last_seq else {}
        moved = await self.store.turns.move(turn, MOVE, ChatTurnStatus.QUEUED, changes, **push)
        if moved is None:
            raise Conflict(ErrorCode.TURN_NOT_RUNNING, "The turn is being moved; try again.", retryable=True)
        await self.rooms.emit_turn(moved)
        return moved

    async def deliver(self, turn: ChatTurn, steer: Steer) -> None:
        """Sends a message to the turn's drone. When that fails, the drone gets it with its next connection."""
        if turn.drone is None:
            return
        message = DeliverSteer(turn_id=turn.id, **dict(steer))
        try:
            await self.rooms.call_drone(turn.drone, "steerTurn", message)
        except GadgetError as exc:
            log.info("a message to turn %s is delivered later: %s", turn.id, exc.message)

    async def check(self) -> None:
        """Checks every processing turn: whether its drone is connected, and works on it."""
        turns = await self.store.turns.unfinished({"status": ChatTurnStatus.PROCESSING})
        drones = await self.store.drones.by_id({turn.drone for turn in turns if turn.drone is not None})
        for turn in turns:
            drone = drones.get(turn.drone or "")
            if drone is None or drone.status is DroneStatus.OFFLINE:
                await self._wait_for_drone(turn, drone)
            elif drone.status is DroneStatus.BUSY and drone.turn == turn.id:
                await self._mark_working(turn)

    async def _wait_for_drone(self, turn: ChatTurn, drone: DroneRegistration | None) -> None:
        ways_out = "cancel it, or continue on another drone"
        reason = (
            f"The connection to {drone.name} is lost; the turn continues when it is back. Wait, {ways_out}."
            if drone is not None
            else f"Its drone was removed; {ways_out}."
        )
        if (turn.waiting, turn.status_reason) == (Waiting.DRONE_LOST, reason):
            return
        await self.rooms.emit_turn(await self.store.turns.wait_for(turn, Waiting.DRONE_LOST, reason))

    async def _mark_working(self, turn: ChatTurn) -> None:
        for steer in turn.steers:  # the drone ignores duplicates
            await self.deliver(turn, steer)
        if turn.waiting is not Waiting.DRONE_LOST:
            return
        await self.rooms.emit_turn(await self.store.turns.wait_for(turn, None, None))

    async def _choose_drone(self, turn: ChatTurn, target: DroneRegistration | None) -> None:
        """Replaces the lost drone in the session by the chosen one."""
        lost = turn.drone
        session = await self.store.sessions.owned(turn.user, turn.session)
        changes: dict[str, object] = {}
        if target is not None:
            changes["drone"] = target.id
        elif session.drone == lost:
            changes["drone"] = None
        if session.lock is not None and session.lock.drone_id == lost:
            changes["lock"] = None
        if not changes:
            return
        changed = await self.store.sessions.update({"_id": session.id}, changes)
        if changed is not None:
            await self.rooms.emit_session(changed)
            if "lock" in changes:
                unlocked = SessionLockChanged(chat_session_id=changed.id, lock=None)
                await self.rooms.emit_to_user(changed.user, "sessionLock", unlocked)
