"""The terminals of a drone: what the service asks of them, and when they end without being asked."""

import asyncio
import base64
import logging
from pathlib import Path

from gadget_api import terminals as t
from gadget_api.errors import Conflict, ErrorCode, GadgetError, NotFound, TooMany
from gadget_api.work_order import OrderProject
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.terminals.relay import Call, Relay
from gadget_drone.terminals.shell import shell_command, shell_environment
from gadget_drone.terminals.terminal import Identity, RunningTerminal
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)

FORGOTTEN_AFTER_S = 24 * 3600.0
"""Nobody has looked at it for so long: it is closed."""
_LOOK_EVERY_S = 60.0


class Terminals:
    """They end with their session, with `close`, and with the drone, whatever ends that (see `supervisor.py`)."""

    def __init__(
        self,
        workspace: Workspace,
        supervisor: Supervisor,
        call: Call,
        *,
        is_on: bool = True,
        forgotten_after_s: float = FORGOTTEN_AFTER_S,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        """`call` asks the service, and raises GadgetError."""
        self._workspace = workspace
        self._supervisor = supervisor
        self._is_on = is_on
        self._forgotten_after_s = forgotten_after_s
        self._look_every_s = look_every_s
        self._open: dict[str, RunningTerminal] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._relay = Relay(call, lambda: self._open.values(), self._end)

    async def run(self) -> None:
        """Sends what they say, and closes the forgotten, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._relay.run(), name="terminal output")
            tasks.create_task(self._close_forgotten(), name="forgotten terminals")

    async def close(self) -> None:
        """Ends all of them, and takes none any more; 4 seconds at most."""
        self._is_closed = True
        for terminal_id in tuple(self._open):
            self._end(terminal_id)
        if self._ending:
            await asyncio.wait(self._ending)

    def greet(self) -> None:
        """The connection stands (again): the service is told how they are, and answers which sessions are gone."""
        for terminal in self._open.values():
            terminal.is_told = False
        self._relay.wake()

    async def list(self, ask: t.ListTerminals) -> t.DroneTerminals:
        here = (one.document for one in self._open.values() if one.who.session == ask.chat_session_id)
        return t.DroneTerminals(terminals=tuple(here))

    async def open(self, ask: t.StartTerminal) -> t.TerminalOpened:
        if not self._is_on:
            raise Conflict(
                ErrorCode.TERMINALS_OFF,
                "This drone takes no terminals; start it without GADGET_TERMINALS=off to have them.",
            )
        command, env = shell_command(), shell_environment()
        directory = await asyncio.to_thread(self._directory, ask.project)
        if self._is_closed:
            raise Conflict(ErrorCode.DRONE_STOPPING, "This drone is stopping.")
        self._make_room()
        who = Identity(session=ask.chat_session_id, title=self._title(ask.chat_session_id, Path(command[0]).name))
        try:
            terminal = RunningTerminal.start(
                self._supervisor,
                who,
                command,
                cwd=directory,
                env=env,
                size=(ask.columns, ask.rows),
                on_news=self._relay.wake,
            )
        except OSError as exc:
            raise Conflict(
                ErrorCode.WORKSPACE_REFUSED, f"No terminal can be opened on this machine: {exc.strerror}."
            ) from exc
        self._open[who.id] = terminal
        self._relay.wake()
        return t.TerminalOpened(terminal=terminal.document)

    async def attach(self, ask: t.AttachTerminal) -> t.TerminalAttached:
        terminal = self._of(ask.chat_session_id, ask.terminal_id)
        terminal.hear()
        offset, data = terminal.kept(ask.after)
        kept = base64.b64encode(data).decode("ascii")
        return t.TerminalAttached(terminal=terminal.document, offset=offset, data=kept)

    async def write(self, ask: t.WriteTerminal) -> None:
        self._of(ask.chat_session_id, ask.terminal_id).write(base64.b64decode(ask.data))

    async def resize(self, ask: t.ResizeTerminal) -> None:
        self._of(ask.chat_session_id, ask.terminal_id).resize(ask.columns, ask.rows)

    async def close_one(self, ask: t.CloseTerminal) -> None:
        self._end(self._of(ask.chat_session_id, ask.terminal_id).who.id)

    async def close_session(self, ask: t.CloseTerminals) -> None:
        for terminal in tuple(self._open.values()):
            if terminal.who.session == ask.chat_session_id:
                self._end(terminal.who.id)

    async def heard(self, ask: t.TerminalsHeard) -> None:
        for terminal_id in ask.terminal_ids:
            terminal = self._open.get(terminal_id)
            if terminal is not None:
                if not terminal.is_heard:
                    terminal.is_told = False  # who listens learns by its length what was missed
                terminal.hear()
        self._relay.wake()

    def _of(self, session: str, terminal_id: str) -> RunningTerminal:
        terminal = self._open.get(terminal_id)
        if terminal is None or terminal.who.session != session:
            raise NotFound("terminal")
        return terminal

    def _end(self, terminal_id: str) -> None:
        """It is gone for everybody at once; what runs in it ends meanwhile."""
        terminal = self._open.pop(terminal_id, None)
        if terminal is None:
            return
        self._relay.say_closed(t.TerminalClosed(chat_session_id=terminal.who.session, terminal_id=terminal_id))
        ending = asyncio.create_task(terminal.close(), name=f"end of terminal {terminal_id}")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _make_room(self) -> None:
        if len(self._open) < t.MAX_TERMINALS:
            return
        ended = next((one for one in self._open.values() if one.exit_code is not None), None)
        if ended is None:
            raise TooMany(f"{t.MAX_TERMINALS} terminals are open on this drone; close one of them.")
        self._end(ended.who.id)

    def _title(self, session: str, shell: str) -> str:
        taken = {one.who.title for one in self._open.values() if one.who.session == session}
        titles = (shell if number == 1 else f"{shell} {number}" for number in range(1, t.MAX_TERMINALS + 2))
        return next(title for title in titles if title not in taken)[:100]

    def _directory(self, project: OrderProject) -> Path:
        try:
            place = self._workspace.project_dir(project)
        except GadgetError:  # a project that cannot be here
            return self._workspace.dir
        return place if place.is_dir() else self._workspace.dir

    async def _close_forgotten(self) -> None:
        while True:
            await asyncio.sleep(self._look_every_s)
            for terminal in tuple(self._open.values()):
                if terminal.unheard_s > self._forgotten_after_s:
                    log.info("terminal %s is closed: nobody has looked at it for long", terminal.who.id)
                    self._end(terminal.who.id)
