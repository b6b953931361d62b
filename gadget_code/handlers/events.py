"""The handlers of socket events, registered from the protocol table. Every event passes `door`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from gadget_api import commands as c
from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput, NotAllowed, Unavailable, error_reply
from gadget_api.events import EVENT_TYPES
from gadget_api.inquiries import Answer
from gadget_api.model import WireModel, utc_now
from gadget_api.projects import Project
from gadget_api.protocol import Peer, SocketEvent, events_between
from gadget_api.sessions import ChatSession, SessionLock
from gadget_api.turns import ChatTurn
from gadget_api.workspace import WorkspaceMode
from gadget_code.handlers.connections import Connection, Connections
from gadget_code.handlers.terminals import DroneTerminals, IdeTerminals
from gadget_code.recording.replay import start_of
from gadget_code.service import Service

log = logging.getLogger(__name__)

_LATEST_TURNS = 20
_AT_WILL = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_EVENT})
Handler = Callable[[Connection, Any], Awaitable[WireModel | None]]


def register(service: Service, connections: Connections) -> None:
    """Registers a handler for every event that a client may send."""
    ide = _IdeHandlers(service).table() | IdeTerminals(service).table()
    drone = _DroneHandlers(service).table() | DroneTerminals(service).table()
    from_ide = events_between(Peer.IDE, Peer.WEB)
    from_drone = events_between(Peer.DRONE, Peer.WEB)
    if missing := (from_ide.keys() - ide.keys()) | (from_drone.keys() - EVENT_TYPES.keys() - drone.keys()):
        raise LookupError(f"events without a handler: {missing}")
    server = service.sockets
    server.on("connect", connections.admit)
    server.on("disconnect", connections.leave)

    async def door(name: str, sid: str, *arguments: Any) -> dict[str, Any]:
        """The entry point of every event: finds the connection, validates, replies. No exception leaves it."""
        connection = connections.get(sid)
        try:
            if connection is None:
                raise NotAllowed("This socket is not signed in.")
            payload = arguments[0] if len(arguments) == 1 else None
            if connection.is_drone and name in EVENT_TYPES:
                if not isinstance(payload, dict):
                    raise InvalidInput("The payload of an event is one object.")
                await connection.pace()
                await service.recorder.record(connection.drone, sid, name, payload)
                return {"ok": True}
            if connection.is_drone and name == "terminalOutput":
                await connection.pace()
            else:
                connection.spend()
            event = (from_drone if connection.is_drone else from_ide).get(name)
            if event is None:
                raise InvalidInput(f"The event {name!r:.60} is not allowed here.", ErrorCode.UNKNOWN_EVENT)
            reply = await (drone if connection.is_drone else ide)[name](connection, _validated(event, payload))
            return (reply or c.OkReply()).to_wire()
        except GadgetError as exc:
            # A client can cause any number of these, of any length.
            level = logging.DEBUG if exc.code in _AT_WILL else logging.INFO
            log.log(level, "%.60r: %s", name, exc.code)
            return error_reply(exc)
        except Exception:
            log.exception("%.60r failed", name)
            return error_reply(GadgetError(ErrorCode.INTERNAL, "An internal error occurred; see the server's log."))

    server.on("*", door)


def _validated(event: SocketEvent, payload: Any) -> WireModel:
    try:
        return event.payload.model_validate(payload)
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, error['loc']))[:100] or 'payload'}: {error['msg']}" for error in exc.errors()[:5]
        )
        raise InvalidInput(f"{event.name} is invalid: {problems}.") from exc


def lock_message(session: ChatSession, project: Project) -> c.LockSession:
    return c.LockSession(
        chat_session_id=session.id,
        name=session.name,
        project_id=project.id,
        slug=project.slug,
        git_url=project.git_url,
    )


class _IdeHandlers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.store
        self._rooms = service.rooms

    def table(self) -> dict[str, Handler]:
        return {
            "selectSession": self.select_session,
            "requestSessionLock": self.request_lock,
            "releaseSessionLock": self.release_lock,
            "requestWorkspaceMode": self.request_mode,
            "submitPrompt": self.submit_prompt,
            "cancelTurn": self.cancel_turn,
            "steerTurn": self.steer_turn,
            "continueTurn": self.continue_turn,
            "answerInquiry": self.answer_inquiry,
        }

    async def select_session(self, connection: Connection, ask: c.SelectSession) -> c.SessionSelected:
        session = await self._store.sessions.owned(connection.identity.user, ask.chat_session_id)
        latest = await self._store.turns.all(
            {"session": session.id}, limit=_LATEST_TURNS, newest_first=True, hint="session"
        )
        position = ask.after or start_of(latest)
        if connection.replay is not None:
            connection.replay.cancel()
        server = self._service.sockets
        for room in server.rooms(connection.sid):
            if room.startswith("session:"):
                await server.leave_room(connection.sid, room)
        answer = c.SessionSelected(
            session=session, turns=tuple(latest), lock=session.lock, workspace_mode=await self._mode_of(session)
        )
        # The replay starts after this handler has replied: nothing is awaited before.
        connection.replay = self._service.background.start(
            self._service.replay.watch(connection.sid, session.id, position), f"replay of session {session.id}"
        )
        return answer

    async def submit_prompt(self, connection: Connection, ask: c.SubmitPrompt) -> c.PromptSubmitted:
        turn = await self._service.turns.submit(
            connection.identity.user, ask.chat_session_id, ask.content, ask.prompt_id, ask.images
        )
        return c.PromptSubmitted(turn=turn)

    async def cancel_turn(self, connection: Connection, ask: c.CancelTurn) -> None:
        await self._service.turns.cancel(connection.identity.user, ask.turn_id)

    async def steer_turn(self, connection: Connection, ask: c.SteerTurn) -> None:
        await self._service.turns.steer(connection.identity.user, ask.turn_id, ask.content, ask.steer_id)

    async def continue_turn(self, connection: Connection, ask: c.ContinueTurn) -> None:
        await self._service.turns.move(connection.identity.user, ask.turn_id, ask.drone_id)

    async def answer_inquiry(self, connection: Connection, ask: c.AnswerInquiry) -> None:
        answer = Answer(choice=ask.choice, text=ask.text)
        await self._service.inquiries.answer(connection.identity.user, ask.inquiry_id, answer)

    async def request_lock(self, connection: Connection, ask: c.RequestSessionLock) -> None:
        session = await self._store.sessions.owned(connection.identity.user, ask.chat_session_id)
        drone = await self._store.drones.owned(connection.identity.user, ask.drone_id)
        holder = await self._store.sessions.find({"user": session.user, "lock.droneId": drone.id})
        if holder is not None and holder.id != session.id:
            raise Conflict(
                ErrorCode.DRONE_LOCKED, f"{drone.name} is locked for session “{holder.name}”; release it there first."
            )
        if session.lock is not None and session.lock.drone_id == drone.id:
            return
        project = await self._store.projects.owned(session.user, session.project)
        if session.lock is not None:
            await self._unlock(session)
        await self._rooms.call_drone(drone.id, "requestSessionLock", lock_message(session, project))
        lock = SessionLock(drone_id=drone.id, locked_at=utc_now())
        await self._set_lock(session, lock)
        self._service.dispatcher.kick(session.user)

    async def release_lock(self, connection: Connection, ask: c.ReleaseSessionLock) -> None:
        session = await self._store.sessions.owned(connection.identity.user, ask.chat_session_id)
        if session.lock is not None:
            await self._unlock(session)
            self._service.dispatcher.kick(session.user)

    async def _unlock(self, session: ChatSession) -> None:
        assert session.lock is not None
        drone = await self._store.drones.find({"_id": session.lock.drone_id})
        if drone is not None and drone.status is not DroneStatus.OFFLINE:
            # An offline drone learns it when it connects again.
            with suppress(Unavailable):
                unlock = c.UnlockSession(chat_session_id=session.id)
                await self._rooms.call_drone(drone.id, "releaseSessionLock", unlock)
        await self._set_lock(session, None)

    async def _set_lock(self, session: ChatSession, lock: SessionLock | None) -> None:
        await self._store.sessions.update({"_id": session.id}, {"lock": lock and lock.model_dump()})
        changed = c.SessionLockChanged(chat_session_id=session.id, lock=lock)
        await self._rooms.emit_to_user(session.user, "sessionLock", changed)

    async def request_mode(self, connection: Connection, ask: c.RequestWorkspaceMode) -> None:
        session = await self._store.sessions.owned(connection.identity.user, ask.chat_session_id)
        if ask.mode is WorkspaceMode.AGENT:
            raise InvalidInput("Only a drone gives the workspace to the agent; send a prompt instead.")
        drone_id = session.lock.drone_id if session.lock is not None else session.drone
        if drone_id is None and session.workspace_id is not None:
            holder = await self._store.drones.find({"user": session.user, "workspaceId": session.workspace_id})
            drone_id = holder.id if holder is not None else None
        if drone_id is None:
            raise Conflict(ErrorCode.DRONE_OFFLINE, "This session has no workspace yet; lock a drone for it first.")
        drone = await self._store.drones.owned(session.user, drone_id)
        set_mode = c.SetWorkspaceMode(chat_session_id=session.id, mode=ask.mode)
        await self._rooms.call_drone(drone.id, "requestWorkspaceMode", set_mode)
        await self._store.drones.report(drone.id, {"workspaceMode": ask.mode})
        changed = c.WorkspaceModeChanged(chat_session_id=session.id, drone_id=drone.id, mode=ask.mode)
        await self._rooms.emit_to_user(session.user, "workspaceMode", changed)
        if ask.mode is WorkspaceMode.IDLE:
            self._service.dispatcher.kick(session.user)

    async def _mode_of(self, session: ChatSession) -> WorkspaceMode:
        if session.workspace_id is None:
            return WorkspaceMode.IDLE
        drone = await self._store.drones.find({"user": session.user, "workspaceId": session.workspace_id})
        return drone.workspace_mode if drone is not None else WorkspaceMode.IDLE


class _DroneHandlers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.store
        self._rooms = service.rooms

    def table(self) -> dict[str, Handler]:
        return {
            "beginTurn": self.begin_turn,
            "requestWorkspaceMode": self.workspace_mode,
            "requestCrashRecovery": self.crash_recovery,
            "droneStatus": self.status,
        }

    async def begin_turn(self, connection: Connection, ask: c.BeginTurn) -> None:
        drone_id = connection.drone
        turn, _ = await asyncio.gather(
            self._service.leases.begin(drone_id, ask.turn_id, ask.epoch),
            self._store.drones.report(drone_id, {"workspaceMode": WorkspaceMode.AGENT}),
        )
        await self._emit_mode(drone_id, turn, WorkspaceMode.AGENT)
        # In the background: the drone gets its reply first. Only then can it answer requests, and its first event needs
        # an open stream.
        opening = self._service.recorder.open_stream(drone_id, connection.sid, turn)
        self._service.background.start(opening, f"stream of turn {turn.id}")
        self._service.background.start(self._service.leases.turn_begun(turn), f"turn of drone {drone_id}")

    async def workspace_mode(self, connection: Connection, ask: c.DroneWorkspaceMode) -> None:
        drone = await self._store.drones.report(connection.drone, {"workspaceMode": ask.mode})
        if drone is None:
            return
        if drone.turn is None:  # the drone has reported meanwhile that it is free, so the mode belongs to no turn
            await self._rooms.emit_drone(drone)
        elif (turn := await self._store.turns.find({"_id": drone.turn})) is not None:
            await self._emit_mode(drone.id, turn, ask.mode)

    async def _emit_mode(self, drone: str, turn: ChatTurn, mode: WorkspaceMode) -> None:
        changed = c.WorkspaceModeChanged(chat_session_id=turn.session, drone_id=drone, mode=mode)
        await self._rooms.emit_to_user(turn.user, "workspaceMode", changed)

    async def status(self, connection: Connection, ask: c.ReportStatus) -> None:
        drone_id = connection.drone
        if ask.loop_lag is not None:
            self._service.metrics.drone_lags[drone_id] = ask.loop_lag
        changes: dict[str, Any] = {} if ask.projects is None else {"projects": ask.projects}
        if ask.status is DroneStatus.AVAILABLE:
            drone = await self._service.leases.drone_free(drone_id, changes)
        else:
            drone = await self._store.drones.report(drone_id, {**changes, "status": ask.status})
        if drone is None:
            return
        await self._rooms.emit_drone(drone)
        if ask.status is DroneStatus.AVAILABLE:
            # In the background: the drone's reply can be read only after this handler returns.
            self._service.background.start(self._restore_lock(drone), f"lock of drone {drone.id}")
        elif ask.status is DroneStatus.BUSY:
            # In the background: it sends the drone requests.
            self._service.background.start(self._service.leases.drone_working(drone), f"turn of drone {drone.id}")

    async def _restore_lock(self, drone: DroneRegistration) -> None:
        """Locks the drone again for its session: a drone loses its lock with its connection."""
        session = await self._store.sessions.find({"user": drone.user, "lock.droneId": drone.id})
        if session is not None:
            with suppress(GadgetError):
                project = await self._store.projects.owned(session.user, session.project)
                await self._rooms.call_drone(drone.id, "requestSessionLock", lock_message(session, project))
        self._service.dispatcher.kick(drone.user)

    async def crash_recovery(self, connection: Connection, ask: c.RequestCrashRecovery) -> None:
        answer = await self._service.leases.recover(connection.drone, ask)
        await self._rooms.emit_to_drone(connection.drone, "crashRecoveryResponse", answer)
