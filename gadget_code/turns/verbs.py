"""What a user does to turns: submit, cancel, steer. The same for the socket and for REST."""

from dataclasses import dataclass

from gadget_api.commands import CancelTurn, SteerTurn, TurnStatus
from gadget_api.drones import DroneStatus
from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput, NotFound, TooLarge
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.turns import MAX_PROMPT_BYTES, ChatTurn, ChatTurnStatus, Prompts
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.turns.recorder import Recorder


@dataclass(frozen=True)
class TurnVerbs:
    store: Store
    rooms: Rooms
    recorder: Recorder
    dispatcher: Dispatcher

    async def submit(self, user: str, session_id: str, content: str, prompt_id: str) -> ChatTurn:
        """Stores a prompt as a queued turn: when this returns, a majority has it. The same id is the same turn."""
        check_prompt(content)
        session = await self.store.sessions.owned(user, session_id)
        fresh = ChatTurn(
            id=new_id(),
            created_at=utc_now(),
            user=user,
            session=session.id,
            project=session.project,
            provider=session.provider,
            llm=session.selected_model,
            mode=session.mode,
            workspace_id=session.workspace_id,
            status=ChatTurnStatus.QUEUED,
            prompt_id=prompt_id,
            prompts=Prompts(user=content),
        )
        turn, is_new = await self.store.turns.submit(fresh)
        if is_new:
            await self.rooms.tell_user(user, "turnStatus", TurnStatus(turn=turn))
            self.dispatcher.kick(user)
        return turn

    async def cancel(self, user: str, turn_id: str) -> None:
        """Ends the turn, through its drone when that answers. Raises Conflict when it is over."""
        for _ in range(3):  # a turn may start or end between our reading and our writing
            turn = await self.store.turns.owned(user, turn_id)
            if turn.status.is_over:
                raise Conflict(ErrorCode.TURN_OVER, "This turn is over already.")
            if turn.status is ChatTurnStatus.PROCESSING and await self._cancel_at_drone(turn):
                return
            ended = await self.recorder.end(turn, ChatTurnStatus.CANCELLED, "Cancelled by the user.")
            if ended is not None:
                self.dispatcher.kick(user)
                return
        raise Conflict(ErrorCode.TURN_NOT_RUNNING, "The turn is changing hands; try again.", retryable=True)

    async def _cancel_at_drone(self, turn: ChatTurn) -> bool:
        drone = await self.store.drones.find({"_id": turn.drone})
        if drone is None or drone.status is DroneStatus.OFFLINE:
            return False
        # First here, so that the drone's death before it ends the turn does not undo it.
        waiting = await self.store.turns.update(
            {"_id": turn.id, "status": ChatTurnStatus.PROCESSING, "epoch": turn.epoch},
            {"cancelRequested": True, "statusReason": "Cancelling."},
        )
        if waiting is None:
            return False
        await self.rooms.tell_user(turn.user, "turnStatus", TurnStatus(turn=waiting))
        try:
            await self.rooms.call_drone(drone.id, "cancelTurn", CancelTurn(turn_id=turn.id))
        except GadgetError:
            return False  # away, or it does not know the turn: then the end is ours to write
        return True

    async def steer(self, user: str, turn_id: str, content: str, steer_id: str) -> None:
        """Puts a message before the model at the turn's next step. Raises Conflict when it does not run."""
        check_prompt(content)
        turn = await self.store.turns.owned(user, turn_id)
        if turn.status is not ChatTurnStatus.PROCESSING or turn.drone is None:
            raise Conflict(ErrorCode.TURN_NOT_RUNNING, "This turn does not run; send a new prompt instead.")
        message = SteerTurn(turn_id=turn.id, content=content, steer_id=steer_id)
        await self.rooms.call_drone(turn.drone, "steerTurn", message)

    async def of_drone(self, drone: str, turn_id: str) -> ChatTurn:
        """The turn, when it was given to this drone. Raises NotFound."""
        turn = await self.store.turns.find({"_id": turn_id, "drone": drone})
        if turn is None:
            raise NotFound("turn")
        return turn


def check_prompt(content: str) -> None:
    """Raises TooLarge or InvalidInput."""
    size = len(content.encode(errors="replace"))
    if size > MAX_PROMPT_BYTES:
        raise TooLarge(
            f"The prompt has {size:,} bytes and may have {MAX_PROMPT_BYTES:,}; put long material into the project."
        )
    if not content.strip():
        raise InvalidInput("The prompt is empty; say what shall be done.")
