"""The daemon: one workspace, one connection, and what is asked over it."""

import asyncio
import logging
import os
from contextlib import suppress
from importlib.metadata import version

from gadget_api import commands as c
from gadget_api.drones import DroneRegistration, DroneStatus, NewRegistration, Sandbox
from gadget_api.errors import Conflict, ErrorCode, GadgetError
from gadget_api.lag import LagMonitor
from gadget_api.model import WireModel, utc_now
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_api.traces import Tracer
from gadget_api.workspace import WorkspaceMode
from gadget_api.workspace_files import WorkspaceRegistration
from gadget_drone.agent.clients import Clients
from gadget_drone.agent.sessions import SessionStates
from gadget_drone.checkpoints.requests import CheckpointRequests
from gadget_drone.context.analysis import Analyses
from gadget_drone.context.tokens import Calibration
from gadget_drone.files.requests import FileRequests
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.sandbox.known import KnownRepositories
from gadget_drone.sandbox.standing import Standing
from gadget_drone.service.images import Images
from gadget_drone.service.link import Link
from gadget_drone.service.server import Server
from gadget_drone.service.uploads import Uploads
from gadget_drone.settings import DroneSettings
from gadget_drone.terminals.terminals import Terminals
from gadget_drone.tools.entry_points import find_tools
from gadget_drone.tools.toolbox import BUILT_IN
from gadget_drone.turn.history import Histories
from gadget_drone.turn.presence import Presence
from gadget_drone.turn.recovery import find_left_turn
from gadget_drone.turn.scope import DroneScope
from gadget_drone.turn.turns import Turns, takes_nothing
from gadget_drone.workspace.occupancy import Occupancy
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)

_HELLO_AGAIN_S = 1.0
_MAX_HELLO_AGAIN_S = 8.0
_AVAILABLE_AGAIN_S = 15.0


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
        self._sandbox = sandbox
        self._occupancy = Occupancy(workspace.file)
        self._uploads = Uploads(
            workspace.blobs_dir, server, on_full=lambda turn, message: self._turns.note_full(turn, message)
        )
        self._supervisor = Supervisor()
        shown = [path for path in settings.sandbox_paths.split(":") if os.path.isabs(path)]
        self._standing = Standing(workspace.dir, shown) if sandbox.kind == "bubblewrap" else None
        self._sessions = SessionStates()
        self._lag = LagMonitor()
        images = Images(workspace.images_dir, server, self._uploads)
        self._clients = Clients(images.load)
        self._checkpoints = CheckpointRequests(workspace, lambda: self._turns.is_free())
        self._files = FileRequests(workspace, lambda: self._turns.is_free(), self._checkpoints.of)
        self._presence = Presence(workspace, self._occupancy, self._lag, self._call)
        self._terminals = Terminals(workspace, self._supervisor, self._call, is_on=settings.terminals == "on")
        scope = DroneScope(
            settings=settings,
            workspace=workspace,
            server=server,
            supervisor=self._supervisor,
            sandbox=self._standing,
            sessions=self._sessions,
            histories=Histories(images),
            clients=self._clients,
            uploads=self._uploads,
            images=images,
            analyses=Analyses(),
            calibration=Calibration(),
            checkpoints=self._checkpoints.of,
            third_party=find_tools({tool.spec.name for tool in BUILT_IN}).tools,
            tracer=tracer,
        )
        self._turns = Turns(workspace, self._occupancy, self._presence, scope, self._send, self._greet)
        self._hello: asyncio.Task[None] | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._link = Link(
            {
                "requestSessionLock": self._lock_session,
                "releaseSessionLock": self._unlock_session,
                "requestWorkspaceMode": self._set_mode,
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
                **self._turns.handlers,
            },
            self._on_up,
            lambda: workspace.note_connection(is_connected=False),
        )

    async def _call(self, event: str, message: WireModel) -> None:
        await self._link.call(event, message)

    async def _send(self, event: str, payload: bytes) -> None:
        await self._link.send(event, payload)

    async def register(self) -> None:
        """Signs in and registers. Raises GadgetError."""
        settings = self._settings
        if settings.drone_token is not None:
            self._server.token = settings.drone_token.get_secret_value()
        else:
            assert settings.email is not None
            assert settings.password is not None
            await self._server.sign_in(settings.email, settings.password.get_secret_value())
            if self._workspace.has_lost_id:
                place = self._workspace.file
                own = await self._server.registration_at(place.hostname, place.workspace_dir)
                if own is not None:
                    self._recall(own)
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
            self._recall(own)
            registered = await self._server.register(new.replace(workspace_id=own.workspace_id))
        registration = registered.registration
        note = WorkspaceRegistration(id=registration.id, status=DroneStatus.STARTING, registered_at=utc_now())
        with suppress(OSError):  # for people to look at; nothing depends on it
            self._workspace.update(registration=note)
        log.info("registered as %s (%s) at %s", registration.name, registration.id, self._server.url)

    def _recall(self, own: DroneRegistration) -> None:
        """Takes the id of this workspace back from the server."""
        log.warning("workspace.json had lost this workspace's id; the server knows it: %s", own.workspace_id)
        self._workspace.update(workspace_id=own.workspace_id)
        self._workspace.has_lost_id = False

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set. Raises GadgetError when the server does not want this drone any more."""
        self._uploads.remove_leftovers()
        await asyncio.to_thread(KnownRepositories(self._workspace.dir).mend_all)  # the one before may have been killed
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = self._turns.tasks = tasks
                link = tasks.create_task(self._link.run(self._server.url, lambda: self._server.token), name="link")
                blobs = tasks.create_task(self._uploads.run(), name="blobs")
                repeat = tasks.create_task(self._repeat_availability(), name="availability")
                terminals = tasks.create_task(self._terminals.run(), name="terminals")
                lag = tasks.create_task(self._lag.measure(), name="event loop lag")
                await stop.wait()
                await asyncio.gather(self._turns.stop(), self._terminals.close())
                hello = [self._hello] if self._hello is not None else []
                for task in (link, blobs, repeat, terminals, lag, *hello):
                    task.cancel()
        except* GadgetError as group:
            raise group.exceptions[0] from None
        finally:
            await self._sessions.close()
            await self._clients.close()
            await self._terminals.close()
            self._supervisor.close()
            if self._standing is not None:
                await self._standing.close()
            await self._link.drop()
            self._presence.status = DroneStatus.OFFLINE
            self._presence.save()
            self._turns.close()

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
                log.error("%s The turn that was left here goes on then.", takes_nothing(self._workspace, exc))
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _MAX_HELLO_AGAIN_S)

    async def _say_what_we_do(self) -> None:
        if await self._turns.say_what_runs():
            return
        discarded = False
        while (left := find_left_turn(self._workspace)) is not None:
            if await self._turns.recover(left):
                return
            discarded = True
        # A lock that still holds the server tells us again.
        self._occupancy.unlock()
        if discarded:
            await self._presence.enter_mode(WorkspaceMode.IDLE)
        await self._turns.become_available()

    async def _repeat_availability(self) -> None:
        """Says from time to time that we wait for work: whatever the server believed, it knows better then."""
        while True:
            await asyncio.sleep(_AVAILABLE_AGAIN_S)
            self._workspace.note_lag(self._lag.summary)
            if self._link.is_up and self._turns.is_idle and find_left_turn(self._workspace) is None:
                with suppress(GadgetError):
                    await self._turns.become_available()
                await self._checkpoints.prune()

    # Locks and modes

    async def _lock_session(self, ask: c.LockSession) -> None:
        self._occupancy.lock(ask)
        self._presence.save()

    async def _unlock_session(self, ask: c.UnlockSession) -> None:
        if not self._occupancy.is_held_by(ask.chat_session_id):
            return
        if not await self._turns.is_free():
            raise Conflict(ErrorCode.DRONE_BUSY, "The drone works for this session; wait, or cancel the turn first.")
        self._occupancy.unlock()
        self._presence.save()

    async def _set_mode(self, ask: c.SetWorkspaceMode) -> None:
        if not await self._turns.is_free():
            raise Conflict(ErrorCode.WORKSPACE_BUSY, "The agent works in this workspace; wait, or cancel the turn.")
        self._occupancy.mode = ask.mode
