"""Sends what terminals say to those who listen: one message of the drone's on its way at a time, so that nothing piles
up on a slow connection and a turn's events never wait behind more than one."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Iterable

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.model import WireModel
from gadget_api.terminals import TerminalChanged, TerminalClosed, TerminalOutput
from gadget_drone.terminals.terminal import RunningTerminal

log = logging.getLogger(__name__)

_GATHER_S = 0.008
"""Between two rounds: what comes meanwhile goes as one. The first byte after a silence goes at once."""
_BYTES_PER_S = 2 * 2**20
"""All terminals of a drone together. A person reads some hundred bytes a second."""
_AGAIN_S = 1.0

Call = Callable[[str, WireModel], Awaitable[None]]


class Relay:
    """`call` asks the service (raises GadgetError); `on_refused` is told of a terminal that the service wants gone."""

    def __init__(
        self, call: Call, terminals: Callable[[], Iterable[RunningTerminal]], on_refused: Callable[[str], None]
    ) -> None:
        self._call = call
        self._terminals = terminals
        self._on_refused = on_refused
        self._closed: list[TerminalClosed] = []
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """There is something to be said."""
        self._wanted.set()

    def say_closed(self, closed: TerminalClosed) -> None:
        self._closed.append(closed)
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                sent_bytes = await self._round()
                await asyncio.sleep(max(_GATHER_S, sent_bytes / _BYTES_PER_S))
            except GadgetError as exc:
                # What is lost with it, who attaches again is told.
                log.debug("terminals are not heard now: %s", exc.message)
                for terminal in self._terminals():
                    terminal.hush()
                await asyncio.sleep(_AGAIN_S)
                self._wanted.set()

    async def _round(self) -> int:
        """Says how every terminal is, and of each what fits into one message; how many bytes that was."""
        sent_bytes = 0
        while self._closed:
            await self._call("terminalClosed", self._closed[0])
            del self._closed[0]
        for terminal in tuple(self._terminals()):
            if not terminal.is_told and terminal.exit_code is None:
                await self._tell(terminal)
            if terminal.unsent:
                begin, data = terminal.next_output()
                output = TerminalOutput(
                    terminal_id=terminal.who.id, offset=begin, data=base64.b64encode(data).decode("ascii")
                )
                await self._call("terminalOutput", output)
                terminal.was_sent(begin + len(data))
                sent_bytes += len(data)
            if not terminal.is_told and not terminal.unsent:  # it has ended, and its last words are said
                await self._tell(terminal)
            if terminal.unsent:
                self._wanted.set()
        return sent_bytes

    async def _tell(self, terminal: RunningTerminal) -> None:
        terminal.is_told = True
        try:
            await self._call("terminalChanged", TerminalChanged(terminal=terminal.document))
        except GadgetError as exc:
            terminal.is_told = False
            if exc.code is not ErrorCode.NOT_FOUND:
                raise
            self._on_refused(terminal.who.id)
