"""Terminals: forwards the IDE's requests to the session's drone, and the drone's output to attached sockets.

Ownership is checked when a socket attaches, not at each input. That is enough: a drone accepts input only with the
terminal's own session, and a terminal ends with its session.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from gadget_api import terminals as t
from gadget_api.errors import GadgetError, InvalidInput, NotFound
from gadget_api.model import WireModel
from gadget_api.sessions import ChatSession
from gadget_api.terminals import LISTENER_TTL_S
from gadget_code.handlers.connections import MAX_ATTACHED, Connection, Connections
from gadget_code.service import Service
from gadget_code.sockets.rooms import CALL_S, terminal_room
from gadget_code.workspaces.drones import drone_of, order_project

log = logging.getLogger(__name__)

Handler = Callable[[Connection, Any], Awaitable[WireModel | None]]


async def report_attached_terminals(service: Service, connections: Connections) -> None:
    """Tells drones at intervals which of their terminals sockets of this process are attached to."""
    while True:
        await asyncio.sleep(LISTENER_TTL_S / 3)
        for drone, terminals in connections.attached().items():
            try:
                heard = t.TerminalsHeard(terminal_ids=tuple(terminals)[:1000])
                await service.rooms.emit_to_drone(drone, "terminalsHeard", heard)
            except GadgetError as exc:
                log.warning("drone %s cannot be told about its attached terminals: %s", drone, exc.message)


class IdeTerminals:
    def __init__(self, service: Service) -> None:
        self._store = service.store
        self._rooms = service.rooms
        self._sockets = service.sockets

    def table(self) -> dict[str, Handler]:
        return {
            "listTerminals": self.list,
            "openTerminal": self.open,
            "attachTerminal": self.attach,
            "detachTerminal": self.detach,
            "writeTerminal": partial(self.forward, "writeTerminal"),
            "resizeTerminal": partial(self.forward, "resizeTerminal"),
            "closeTerminal": partial(self.forward, "closeTerminal"),
        }

    async def list(self, connection: Connection, ask: t.ListTerminals) -> t.TerminalList:
        drone = await self._host(connection, ask.chat_session_id)
        reply = await self._rooms.ask_drone(drone, "listTerminals", ask, t.DroneTerminals, timeout=CALL_S)
        return t.TerminalList(drone_id=drone, terminals=reply.terminals)

    async def open(self, connection: Connection, ask: t.OpenTerminal) -> t.TerminalOpened:
        session = await self._session(connection, ask.chat_session_id)
        if session.archived_at is not None:
            raise InvalidInput("This session is archived; take it out of the archive to open a terminal in it.")
        drone = await drone_of(self._store, session)
        project = await order_project(self._store, session)
        start = t.StartTerminal(chat_session_id=session.id, columns=ask.columns, rows=ask.rows, project=project)
        self._rooms.check_responsive(drone.id)
        return await self._rooms.ask_drone(drone.id, "openTerminal", start, t.TerminalOpened, timeout=CALL_S)

    async def attach(self, connection: Connection, ask: t.AttachTerminal) -> t.TerminalAttached:
        drone = await self._drone(connection, ask)
        # Enter the room first, so that no output is lost between the reply and the room; the client orders output by
        # offset.
        await self._enter(connection, drone, ask.terminal_id)
        try:
            return await self._rooms.ask_drone(drone, "attachTerminal", ask, t.TerminalAttached, timeout=CALL_S)
        except BaseException:
            await self._leave(connection, ask.terminal_id)
            raise

    async def detach(self, connection: Connection, ask: t.DetachTerminal) -> None:
        await self._leave(connection, ask.terminal_id)

    async def forward(
        self, event: str, connection: Connection, ask: t.WriteTerminal | t.ResizeTerminal | t.CloseTerminal
    ) -> None:
        await self._rooms.call_drone(await self._drone(connection, ask), event, ask)

    async def _drone(
        self, connection: Connection, ask: t.AttachTerminal | t.WriteTerminal | t.ResizeTerminal | t.CloseTerminal
    ) -> str:
        attached = connection.terminals.get(ask.terminal_id)
        if attached is None:
            return await self._host(connection, ask.chat_session_id)
        self._rooms.check_responsive(attached)
        return attached

    async def _host(self, connection: Connection, session_id: str) -> str:
        drone = await drone_of(self._store, await self._session(connection, session_id))
        self._rooms.check_responsive(drone.id)
        return drone.id

    async def _session(self, connection: Connection, session_id: str) -> ChatSession:
        return await self._store.sessions.owned(connection.identity.user, session_id)

    async def _enter(self, connection: Connection, drone: str, terminal: str) -> None:
        connection.terminals.pop(terminal, None)
        connection.terminals[terminal] = drone
        while len(connection.terminals) > MAX_ATTACHED:
            await self._leave(connection, next(iter(connection.terminals)))
        await self._sockets.enter_room(connection.sid, terminal_room(drone, terminal))

    async def _leave(self, connection: Connection, terminal: str) -> None:
        drone = connection.terminals.pop(terminal, None)
        if drone is not None:
            await self._sockets.leave_room(connection.sid, terminal_room(drone, terminal))


class DroneTerminals:
    def __init__(self, service: Service) -> None:
        self._store = service.store
        self._rooms = service.rooms

    def table(self) -> dict[str, Handler]:
        return {
            "terminalOutput": self.output,
            "terminalChanged": self.changed,
            "terminalClosed": self.closed,
        }

    async def output(self, connection: Connection, output: t.TerminalOutput) -> None:
        await self._rooms.emit_terminal_output(connection.drone, output)

    async def changed(self, connection: Connection, changed: t.TerminalChanged) -> None:
        session = await self._store.sessions.owned(connection.identity.user, changed.terminal.session)
        if session.archived_at is not None:
            raise NotFound("session that is not archived")
        await self._rooms.emit_to_user(session.user, "terminalChanged", changed)

    async def closed(self, connection: Connection, closed: t.TerminalClosed) -> None:
        await self._rooms.emit_to_user(connection.identity.user, "terminalClosed", closed)
