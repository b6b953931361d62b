"""A drone's terminals with a service that the test plays: it hears what they say."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gadget_api import terminals as t
from gadget_api.errors import ErrorCode, GadgetError, Unavailable
from gadget_api.ids import new_id
from gadget_api.model import WireModel
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.terminals.terminals import Terminals
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.conftest import project_at

WAIT_S = 20.0
SESSION = "a" * 24


class Bench:
    """`terminals`, and all that they told the service."""

    def __init__(self, workspace: Workspace, supervisor: Supervisor, **options: Any) -> None:
        self.workspace = workspace
        self.terminals = Terminals(workspace, supervisor, self._call, **options)
        self.outputs: list[tuple[str, int, bytes]] = []
        self.changes: list[t.Terminal] = []
        self.closed: list[str] = []
        self.is_away = False
        self.gone_sessions: set[str] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = 0
        self._said = asyncio.Event()

    async def _call(self, event: str, message: WireModel) -> None:
        self.asked += 1
        if self.is_away:
            raise Unavailable(ErrorCode.SERVER_UNREACHABLE, "The connection to the server is lost.")
        match message:
            case t.TerminalOutput():
                self.outputs.append((message.terminal_id, message.offset, base64.b64decode(message.data)))
            case t.TerminalChanged():
                if message.terminal.session in self.gone_sessions:
                    raise GadgetError(ErrorCode.NOT_FOUND, "There is no such session.")
                self.changes.append(message.terminal)
            case t.TerminalClosed():
                self.closed.append(message.terminal_id)
        self._said.set()
        await self.may_answer.wait()

    async def until(self, condition: Callable[[], bool], timeout: float = WAIT_S) -> None:
        """Until it is so; looked at whenever something was said."""
        async with asyncio.timeout(timeout):
            while not condition():
                self._said.clear()
                await self._said.wait()

    async def open(self, columns: int = 80, rows: int = 24, session: str = SESSION) -> str:
        """Opened and attached to; its id."""
        project = project_at("https://example.org/hello.git")
        opened = await self.terminals.open(
            t.StartTerminal(chat_session_id=session, project=project, columns=columns, rows=rows)
        )
        await self.attach(opened.terminal.id, session=session)
        return opened.terminal.id

    async def attach(self, terminal: str, after: int = 0, session: str = SESSION) -> tuple[int, bytes]:
        """What is kept from `after` on, and where that begins."""
        attached = await self.terminals.attach(
            t.AttachTerminal(chat_session_id=session, terminal_id=terminal, after=after)
        )
        return attached.offset, base64.b64decode(attached.data)

    async def type(self, terminal: str, text: str | bytes, session: str = SESSION) -> None:
        data = text.encode() if isinstance(text, str) else text
        encoded = base64.b64encode(data).decode()
        await self.terminals.write(t.WriteTerminal(chat_session_id=session, terminal_id=terminal, data=encoded))

    def heard(self, terminal: str) -> bytes:
        """All that was sent of it."""
        return b"".join(data for of, _, data in self.outputs if of == terminal)

    async def until_heard(self, terminal: str, text: str | bytes) -> None:
        wanted = text.encode() if isinstance(text, str) else text
        await self.until(lambda: wanted in self.heard(terminal))

    async def until_kept(self, terminal: str, length: int) -> None:
        """Until the drone itself has read so many bytes of it: a shell is ahead of that."""
        async with asyncio.timeout(WAIT_S):
            while True:
                listed = await self.terminals.list(t.ListTerminals(chat_session_id=SESSION))
                if any(one.id == terminal and one.length >= length for one in listed.terminals):
                    return
                await asyncio.sleep(0.01)

    def exit_code(self, terminal: str) -> int | None:
        return next((one.exit_code for one in reversed(self.changes) if one.id == terminal), None)


@pytest.fixture(autouse=True)
def plain_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that says `$ ` and nothing else of its own, whoever runs it."""
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\nPS1='$ ' exec /bin/sh -i\n")
    plain.chmod(0o755)
    monkeypatch.setenv("SHELL", str(plain))


@pytest.fixture
async def bench_with(tmp_path: Path) -> AsyncIterator[Callable[..., Bench]]:
    """Makes a bench with the options of `Terminals`."""
    supervisor = Supervisor()
    (tmp_path / "w").mkdir()
    made: list[tuple[Bench, asyncio.Task[None]]] = []
    with Workspace.open(tmp_path / "w", hostname="here") as workspace:

        def make(**options: Any) -> Bench:
            bench = Bench(workspace, supervisor, **options)
            made.append((bench, asyncio.create_task(bench.terminals.run(), name=f"bench {new_id()}")))
            return bench

        yield make
        for bench, task in made:
            bench.may_answer.set()
            await bench.terminals.close()
            task.cancel()
            await asyncio.wait({task})
        supervisor.close()


@pytest.fixture
async def bench(bench_with: Callable[..., Bench]) -> Bench:
    return bench_with()
