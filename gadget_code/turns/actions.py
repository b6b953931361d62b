"""A user's actions on turns: submit, cancel, steer, move to another drone. The socket and REST share them."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from gadget_api.commands import CancelTurn
from gadget_api.drones import DroneStatus
from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput, NotFound, TooLarge, TooMany
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.queue import MAX_QUEUED
from gadget_api.sessions import ChatSession, mode_of
from gadget_api.traces import Tracer
from gadget_api.turns import (
    MAX_PROMPT_BYTES,
    MAX_STEER_BYTES,
    MAX_STEERS,
    ChatTurn,
    ChatTurnStatus,
    Prompts,
    Steer,
    SteerOrigin,
)
from gadget_code.recording.recorder import Recorder
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.store.queue import queue, reorder
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.turns.leases import Leases

log = logging.getLogger(__name__)

CANCEL_S = 5.0
"""Seconds that a drone has to end a cancelled turn; after that the service ends it (promise P14)."""


@dataclass(frozen=True)
class TurnActions:
    store: MongoStore
    rooms: Rooms
    recorder: Recorder
    dispatcher: Dispatcher
    leases: Leases
    background: BackgroundTasks
    tracer: Tracer

    async def submit(
        self,
        user: str,
        session_id: str,
        content: str,
        prompt_id: str,
        images: Sequence[str] = (),
        traceparent: str | None = None,
    ) -> ChatTurn:
        """Stores a prompt as a queued turn; a majority has it when this returns. The same id is the same turn. Raises
        InvalidInput, NotFound, TooMany."""
        check_prompt(content)
        session, queued, newest = await asyncio.gather(
            self.store.sessions.owned(user, session_id),
            self.store.turns.count_queued(user, session_id),
            self.store.turns.newest(session_id),
        )
        if queued >= MAX_QUEUED:
            earlier = await self.store.turns.find({"session": session.id, "promptId": prompt_id})
            if earlier is None:
                raise TooMany(f"{MAX_QUEUED} prompts wait in this session already; wait for them, or withdraw some.")
            return earlier
        # Keep the images before the turn that names them is stored.
        refs = await self.store.images.use(user, tuple(dict.fromkeys(images)))
        if len(refs) < len(set(images)):
            raise InvalidInput("One of these images does not exist any more; upload it again with `POST /images`.")
        fresh = ChatTurn(
            id=new_id(),
            created_at=utc_now(),
            user=user,
            session=session.id,
            project=session.project,
            provider=session.provider,
            llm=session.selected_model,
            effort=session.effort,
            mode=mode_of(session.level),
            workspace_id=session.workspace_id,
            status=ChatTurnStatus.QUEUED,
            prompt_id=prompt_id,
            prompts=Prompts(user=content, images=tuple(refs)),
        )
        with self.tracer.span("prompt", parent=traceparent, session=session.id, turn=fresh.id) as span:
            turn, is_new = await self.store.turns.submit(fresh, newest, span.traceparent)
        if is_new:
            await self.rooms.emit_turn(turn)
            self.dispatcher.kick(user)
            await self._keep_reverted(session)
        return turn

    async def _keep_reverted(self, session: ChatSession) -> None:
        """A prompt ends the chance to redo a revert, and takes its session out of the archive."""
        # After the turn is stored: a revert that runs at the same time looks for turns after it has stored itself.
        ends = {"_id": session.id, "$or": [{"revert": {"$ne": None}}, {"archivedAt": {"$ne": None}}]}
        changed = await self.store.sessions.update(ends, {"revert": None, "archivedAt": None})
        await self.rooms.emit_session(changed)

    async def reorder(self, user: str, session_id: str, prompts: Sequence[str]) -> list[ChatTurn]:
        """Puts these prompts first in the session's queue, in this order, and returns the queue. Raises Conflict when
        none of them waits."""
        session = await self.store.sessions.owned(user, session_id)
        for turn in await reorder(self.store.turns, user, session.id, prompts):
            await self.rooms.emit_turn(turn)
        self.dispatcher.kick(user)
        return await queue(self.store.turns, user, session.id)

    async def cancel(self, user: str, turn_id: str) -> None:
        """Ends the turn, through its drone when that replies; withdraws a queued turn. Raises Conflict when the turn is
        over."""
        for attempt in range(3):  # a turn may start or end between the read and the write
            turn = await self.store.turns.owned(user, turn_id)
            if attempt and turn.status is ChatTurnStatus.CANCELLED:
                return  # the sweep or another request has cancelled it
            if turn.status.is_over:
                raise Conflict(ErrorCode.TURN_OVER, "This turn is over already.")
            if turn.status is ChatTurnStatus.PROCESSING:
                is_told = await self._cancel_at_drone(turn)
                if is_told:
                    return
                if is_told is None:
                    continue
            if await self.recorder.cancel(turn) is not None:
                return
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "The turn is being moved; try again.", retryable=True)

    async def _cancel_at_drone(self, turn: ChatTurn) -> bool | None:
        """Returns whether the drone ends the turn; None when the turn has changed and must be read again."""
        drone = await self.store.drones.find({"_id": turn.drone})
        if drone is None or drone.status is DroneStatus.OFFLINE:
            return False
        # Store the cancellation first, so that it survives the death of the drone.
        if not turn.cancel_requested:
            waiting = await self.store.turns.request_cancel(turn)
            if waiting is None:
                return None
            turn = waiting
            await self.rooms.emit_turn(turn)
        try:
            await self.rooms.call_drone(drone.id, "cancelTurn", CancelTurn(turn_id=turn.id))
        except GadgetError:
            return False  # the drone is away or does not know the turn, so the service ends it
        self.background.start(self._enforce_cancel(turn), f"cancel of turn {turn.id}")
        return True

    async def _enforce_cancel(self, turn: ChatTurn) -> None:
        """Ends the turn when its drone has accepted the cancellation and does not end it in time. The sweep does it
        when this process dies."""
        await asyncio.sleep(CANCEL_S)
        try:
            now = await self.store.turns.owned(turn.user, turn.id)
            if now.cancel_requested and not now.status.is_over and await self.recorder.cancel(now) is not None:
                log.warning("turn %s was cancelled, and its drone did not end it", turn.id)
        except GadgetError as exc:
            log.info("the cancellation of turn %s is completed later: %s", turn.id, exc.message)

    async def steer(self, user: str, turn_id: str, content: str, steer_id: str) -> None:
        """Accepts a message for the turn's next step; a majority has it when this returns. The same id is the same
        message. Raises Conflict when the turn is over, TooMany."""
        check_prompt(content, MAX_STEER_BYTES)
        turn = await self.store.turns.owned(user, turn_id)
        steer = Steer(steer_id=steer_id, content=content)
        steered = await self.store.turns.add_steer(turn, steer)
        if steered is None:
            if await self.store.turns.knows_steer(turn, steer_id):
                return
            if (await self.store.turns.owned(user, turn_id)).status.is_over:
                raise Conflict(ErrorCode.TURN_NOT_RUNNING, "This turn is over; send a new prompt instead.")
            raise TooMany(f"{MAX_STEERS} messages wait for this turn's next step already; wait for it.")
        await self.rooms.emit_turn(steered)
        self.background.start(self.leases.deliver(steered, steer), f"message to turn {turn.id}")

    def on_turn_over(self, turn: ChatTurn) -> None:
        """Starts what follows the end of a turn: its remaining messages, and the next turn."""
        if turn.steers and turn.status is not ChatTurnStatus.CANCELLED:
            self.background.start(self.submit_steers(turn), f"messages left by turn {turn.id}")
        self.dispatcher.kick(turn.user)

    async def submit_steers(self, turn: ChatTurn) -> None:
        """Submits messages as prompts that were accepted after the turn's last step."""
        for steer in turn.steers:
            if steer.origin is SteerOrigin.USER:
                with suppress(NotFound):  # the session was deleted
                    await self.submit(turn.user, turn.session, steer.content, _prompt_of(turn, steer))
            await self.store.turns.drop_steer(turn, steer.steer_id)

    async def move(self, user: str, turn_id: str, drone_id: str | None) -> None:
        """Continues a turn whose drone is lost on another drone. Raises Conflict, NotFound."""
        await self.leases.move(user, turn_id, drone_id)
        self.dispatcher.kick(user)

    async def of_drone(self, drone: str, turn_id: str) -> ChatTurn:
        """Returns the turn if this drone has it. Raises NotFound."""
        turn = await self.store.turns.find({"_id": turn_id, "drone": drone})
        if turn is None:
            raise NotFound("turn")
        return turn


def _prompt_of(turn: ChatTurn, steer: Steer) -> str:
    """Returns the promptId of a message that becomes a prompt: always the same, and never a client's."""
    return "steer-" + hashlib.sha256(f"{turn.id} {steer.steer_id}".encode()).hexdigest()[:40]


def check_prompt(content: str, most_bytes: int = MAX_PROMPT_BYTES) -> None:
    """Raises TooLarge or InvalidInput."""
    size = len(content.encode(errors="replace"))
    if size > most_bytes:
        raise TooLarge(f"The text has {size:,} bytes, and {most_bytes:,} are allowed; put long texts into the project.")
    if not content.strip():
        raise InvalidInput("The prompt is empty; write what to do.")
