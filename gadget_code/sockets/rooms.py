"""Addresses clients by room (`user:`, `session:`, `drone:`, `terminal:`), whichever web process holds their socket."""

import asyncio
import time
from typing import Any, TypeVar

from pydantic import ValidationError

from gadget_api.commands import DroneStatusChanged, SessionUpdated, TurnStatus
from gadget_api.drones import DroneRegistration
from gadget_api.errors import Conflict, ErrorCode, ErrorInfo, Unavailable
from gadget_api.model import WireModel
from gadget_api.sessions import ChatSession
from gadget_api.terminals import TerminalOutput
from gadget_api.turns import ChatTurn
from gadget_code.sockets.server import SocketServer

CALL_S = 5.0
"""Seconds that a drone may take to reply: less than the ping time-out, because an IDE's handler waits meanwhile."""

ReplyT = TypeVar("ReplyT", bound=WireModel)
_INVALID_REPLY = "The drone sent an invalid reply; check that it has the same version."
_SILENT = "The drone does not respond; check that it runs."
_SILENT_S = 10.0
_OFFLINE = "The drone is not connected; the request is sent again when it is back."


def user_room(user: str) -> str:
    return f"user:{user}"


def session_room(session: str) -> str:
    return f"session:{session}"


def drone_room(drone: str) -> str:
    return f"drone:{drone}"


def terminal_room(drone: str, terminal: str) -> str:
    """Contains the drone's id, so that no drone can send output for another's terminal."""
    return f"terminal:{drone}:{terminal}"


class Rooms:
    def __init__(self, server: SocketServer) -> None:
        self._server = server
        self._pending_calls: dict[str, set[asyncio.Future[Any]]] = {}
        """Drone -> its calls without a reply."""
        self._unresponsive_until: dict[str, float] = {}
        """Drone -> until when it counts as unresponsive (monotonic seconds), because its last call timed out."""

    def is_connected(self, socket: str) -> bool:
        """Returns whether this process has the connection, and it is not closing."""
        return bool(self._server.manager.is_connected(socket, "/"))

    async def emit_to_user(self, user: str, event: str, message: WireModel) -> None:
        """Emits to every IDE connection of the user."""
        await self._server.emit(event, message.to_wire(), room=user_room(user))

    async def emit_turn(self, turn: ChatTurn | None) -> None:
        """Emits the turn's status to every IDE connection of its user."""
        if turn is not None:
            await self.emit_to_user(turn.user, "turnStatus", TurnStatus(turn=turn))

    async def emit_session(self, session: ChatSession | None) -> None:
        """Emits the session to every IDE connection of its user."""
        if session is not None:
            await self.emit_to_user(session.user, "sessionUpdated", SessionUpdated(session=session))

    async def emit_drone(self, drone: DroneRegistration | None) -> None:
        """Emits the drone's status to every IDE connection of its user."""
        if drone is not None:
            await self.emit_to_user(drone.user, "droneStatus", DroneStatusChanged(drone=drone))

    async def relay(self, session: str, event: str, payload: dict[str, Any]) -> None:
        """Emits a turn's event to every watcher of the session."""
        await self._server.emit(event, payload, room=session_room(session))

    async def emit_terminal_output(self, drone: str, output: TerminalOutput) -> None:
        """Emits a terminal's output to every socket that is attached to it."""
        room = terminal_room(drone, output.terminal_id)
        if self._server.may_have_members(room):
            await self._server.emit("terminalOutput", output.to_wire(), room=room)

    async def emit_to_drone(self, drone: str, event: str, message: WireModel) -> None:
        await self._server.emit(event, message.to_wire(), room=drone_room(drone))

    def check_responsive(self, drone: str) -> None:
        """Raises Unavailable while the drone is unresponsive. For frequent requests such as typed keys: each would
        wait, and delay everything behind it on the same socket, including pings."""
        if time.monotonic() < self._unresponsive_until.get(drone, 0.0):
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _SILENT)

    async def ask_drone(
        self, drone: str, event: str, message: WireModel, reply: type[ReplyT], *, timeout: float
    ) -> ReplyT:
        """Does `call_drone` and validates the reply."""
        try:
            return reply.model_validate(await self.call_drone(drone, event, message, timeout=timeout))
        except ValidationError:
            raise Unavailable(ErrorCode.DRONE_OFFLINE, _INVALID_REPLY) from None

    async def call_drone(self, drone: str, event: str, message: WireModel, *, timeout: float = CALL_S) -> Any:
        """Sends a request to the drone and returns its reply. Raises Conflict with the drone's error code, or
        Unavailable."""
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
            if timeout <= CALL_S:  # longer requests may take their time
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
        """Fails the drone's pending calls: its socket is closed, so no reply will come."""
        self._unresponsive_until.pop(drone, None)
        for call in self._pending_calls.get(drone, ()):
            if not call.done():
                call.set_exception(Unavailable(ErrorCode.DRONE_OFFLINE, _OFFLINE))
