"""How peers are addressed: by room (`user:`, `session:`, `drone:`, `terminal:`), so that it does not matter which web
process holds their socket."""

import asyncio
import time
from typing import Any, TypeVar

from pydantic import ValidationError

from gadget_api.commands import TurnStatus
from gadget_api.errors import Conflict, ErrorCode, ErrorInfo, Unavailable
from gadget_api.model import WireModel
from gadget_api.terminals import TerminalOutput
from gadget_api.turns import ChatTurn
from gadget_code.sockets.server import SocketServer

CALL_S = 5.0
"""How long a drone may take to answer: well under the ping time-out, for an IDE's own handler waits meanwhile."""

ReplyT = TypeVar("ReplyT", bound=WireModel)
_INVALID_REPLY = "The drone gave an answer that makes no sense; see whether it is of the same version."
_SILENT = "The drone does not answer; see whether it runs."
_SILENT_S = 10.0
_OFFLINE = "The drone is not connected; it is asked again when it is back."


def user_room(user: str) -> str:
    return f"user:{user}"


def session_room(session: str) -> str:
    return f"session:{session}"


def drone_room(drone: str) -> str:
    return f"drone:{drone}"


def terminal_room(drone: str, terminal: str) -> str:
    """Its name has the drone's, so that no drone can speak for a terminal of another's."""
    return f"terminal:{drone}:{terminal}"


class Rooms:
    def __init__(self, server: SocketServer) -> None:
        self._server = server
        self._pending_calls: dict[str, set[asyncio.Future[Any]]] = {}
        """By drone: what it was asked and has not answered."""
        self._unresponsive_until: dict[str, float] = {}
        """By drone that did not answer in time, and has not since: until when who is in a hurry does not wait for it
        (monotonic seconds)."""

    def is_connected(self, socket: str) -> bool:
        """Whether this connection is one of this process that stands: it has not left, and is not leaving."""
        return bool(self._server.manager.is_connected(socket, "/"))

    async def emit_to_user(self, user: str, event: str, message: WireModel) -> None:
        """To every IDE connection of the user."""
        await self._server.emit(event, message.to_wire(), room=user_room(user))

    async def emit_turn(self, turn: ChatTurn | None) -> None:
        """To every IDE connection of its user: where the turn stands now."""
        if turn is not None:
            await self.emit_to_user(turn.user, "turnStatus", TurnStatus(turn=turn))

    async def relay(self, session: str, event: str, payload: dict[str, Any]) -> None:
        """A turn's event, to everyone who watches the session."""
        await self._server.emit(event, payload, room=session_room(session))

    async def emit_terminal_output(self, drone: str, output: TerminalOutput) -> None:
        """What a terminal of the drone's said, to everyone who is attached to it."""
        room = terminal_room(drone, output.terminal_id)
        if self._server.may_have_members(room):
            await self._server.emit("terminalOutput", output.to_wire(), room=room)

    async def emit_to_drone(self, drone: str, event: str, message: WireModel) -> None:
        await self._server.emit(event, message.to_wire(), room=drone_room(drone))

    async def call_drone(self, drone: str, event: str, message: WireModel, *, timeout: float = CALL_S) -> None:
        """Asks the drone and waits for its yes. Raises Conflict with the drone's code, or Unavailable."""
        await self._call(drone, event, message, timeout)

    def check_responsive(self, drone: str) -> None:
        """Raises Unavailable while the drone is silent: for what is asked again and again, as keys that are typed,
        where each would wait, and all that comes behind them on the same socket, its pings too."""
        if time.monotonic() < self._unresponsive_until.get(drone, 0.0):
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _SILENT)

    async def ask_drone(
        self, drone: str, event: str, message: WireModel, reply: type[ReplyT], *, timeout: float
    ) -> ReplyT:
        """`call_drone` for a question: what it answers."""
        answer = await self._call(drone, event, message, timeout)
        try:
            return reply.model_validate(answer)
        except ValidationError:
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _INVALID_REPLY) from None

    async def _call(self, drone: str, event: str, message: WireModel, timeout: float) -> Any:
        if not self._server.may_have_members(drone_room(drone)):
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _OFFLINE)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answer(*reply: Any) -> None:
            self._unresponsive_until.pop(drone, None)
            if not answered.done():
                answered.set_result(reply[0] if reply else None)

        waiting = self._pending_calls.setdefault(drone, set())
        waiting.add(answered)
        try:
            await self._server.emit(event, message.to_wire(), room=drone_room(drone), callback=answer)
            reply = await asyncio.wait_for(answered, timeout)
        except TimeoutError:
            if timeout <= CALL_S:  # else the question may be a long one
                self._unresponsive_until[drone] = time.monotonic() + _SILENT_S
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _SILENT) from None
        finally:
            waiting.discard(answered)
            if not waiting:
                self._pending_calls.pop(drone, None)
        if isinstance(reply, dict) and reply.get("ok") is True:
            return reply
        try:
            error = ErrorInfo.model_validate(reply["error"])
        except (ValidationError, TypeError, KeyError):
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _INVALID_REPLY) from None
        raise Conflict(error.code, error.message, retryable=error.retryable)

    def drone_disconnected(self, drone: str) -> None:
        """Its socket is closed: nothing that it was asked over it will be answered."""
        self._unresponsive_until.pop(drone, None)
        for asked in self._pending_calls.get(drone, ()):
            if not asked.done():
                asked.set_exception(Unavailable(ErrorCode.DRONE_OFFLINE, _OFFLINE))
