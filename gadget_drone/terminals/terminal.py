"""One terminal: a shell on a pseudo-terminal, what it has said, and how it ends."""

import asyncio
import errno
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gadget_api.errors import Conflict, ErrorCode, NotFound
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.terminals import LISTENER_TTL_S, MAX_OUTPUT_BYTES, SCROLLBACK_BYTES, Terminal
from gadget_drone.jobs.ring import Ring
from gadget_drone.processes.supervised import NotStarted, Supervised, Supervisor

MAX_UNREAD_BYTES = 256 * 1024
"""Typed, and not read by the program."""
_BREATH_S = 0.008
"""Between 64 KiB and the next of a terminal that nobody hears: 8 MiB/s, a few percent of a core, and the rest of the
drone goes on (`yes` alone would have all of it)."""
_LOOK_AGAIN_S = 1.0
_LAST_WORDS_S = 2.0
"""For what the shell said before it ended, where nothing else has the terminal open."""
_SETTLE_S = 0.2
"""The same where something has."""
_IUTF8 = 0o40000
"""<asm-generic/termbits.h>: Backspace takes a whole character. Python's termios does not name it."""


@dataclass(frozen=True)
class Identity:
    session: str
    title: str
    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=utc_now)


class RunningTerminal:
    """Made by `start`. Reads until `close`; `on_news` is called when it has said something, or has ended."""

    def __init__(self, who: Identity, running: Supervised, master: int, on_news: Callable[[], None]) -> None:
        self.who = who
        self.columns, self.rows = 80, 24
        self.exit_code: int | None = None
        self.sent = 0
        """The position up to which those who listen were sent what it said."""
        self.is_told = False
        """Whether the service knows how it is."""
        self._heard_until = time.monotonic()
        self._running = running
        self._master = master
        self._on_news = on_news
        self._said = Ring(SCROLLBACK_BYTES)
        self._typed = bytearray()
        self._read_bytes = 0
        self._drained = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._watch = asyncio.create_task(self._await_end(), name=f"terminal {who.id}")
        self._listen()

    @classmethod
    def start(
        cls,
        supervisor: Supervisor,
        who: Identity,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        size: tuple[int, int],
        on_news: Callable[[], None],
    ) -> "RunningTerminal":
        """`size` is columns and rows. Raises OSError where there is no terminal to be had, or the shell does not
        start."""
        master, slave = pty.openpty()
        try:
            try:
                os.set_blocking(master, False)
                _set_size(master, *size)
                _take_utf8(slave)
                running = supervisor.start(command, cwd=cwd, env=env, output=slave)
            finally:
                os.close(slave)
        except BaseException:
            os.close(master)
            raise
        terminal = cls(who, running, master, on_news)
        terminal.columns, terminal.rows = size
        return terminal

    @property
    def end(self) -> int:
        return self._said.end

    @property
    def is_heard(self) -> bool:
        return time.monotonic() < self._heard_until

    @property
    def unheard_s(self) -> float:
        """For how long nobody has listened."""
        return max(0.0, time.monotonic() - self._heard_until)

    @property
    def unsent(self) -> bool:
        return self.is_heard and self._said.end > self.sent

    @property
    def document(self) -> Terminal:
        return Terminal(
            id=self.who.id,
            session=self.who.session,
            created_at=self.who.created_at,
            title=self.who.title,
            columns=self.columns,
            rows=self.rows,
            exit_code=self.exit_code,
            length=self.sent if self.is_heard else self.end,
        )

    def hear(self) -> None:
        """Somebody listens, from now on for `LISTENER_TTL_S`. What was said while nobody did is sent to nobody."""
        if not self.is_heard:
            self.sent = self.end
        self._heard_until = time.monotonic() + LISTENER_TTL_S

    def hush(self) -> None:
        """What is sent gets nowhere."""
        self._heard_until = min(self._heard_until, time.monotonic())
        self._listen()

    def kept(self, after: int) -> tuple[int, bytes]:
        """What it said from position `after` on, as far as it is kept, and where that begins."""
        start = max(self._said.start, self.end - SCROLLBACK_BYTES)
        begin = after if start <= after <= self.end else start
        return begin, self._said.since(begin)

    def next_output(self) -> tuple[int, bytes]:
        """What is to be sent next, and where it begins."""
        begin = max(self.sent, self._said.start)
        return begin, self._said.since(begin)[:MAX_OUTPUT_BYTES]

    def was_sent(self, up_to: int) -> None:
        self.sent = max(self.sent, up_to)
        self._listen()

    def write(self, data: bytes) -> None:
        """Types it. Raises NotFound when the shell has ended, Conflict when the program does not read."""
        if self.exit_code is not None:
            raise NotFound("terminal that still runs")
        if len(self._typed) + len(data) > MAX_UNREAD_BYTES:
            raise Conflict(
                ErrorCode.RATE_LIMITED,
                "The program in this terminal does not read what is typed; wait for it, or close the terminal.",
                retryable=True,
            )
        self._typed += data
        self._flush()

    def resize(self, columns: int, rows: int) -> None:
        if (columns, rows) == (self.columns, self.rows):
            return
        self.columns, self.rows = columns, rows
        if self._master >= 0:
            with suppress(OSError):  # the kernel tells the program, SIGWINCH
                _set_size(self._master, columns, rows)
        self._news()

    async def close(self) -> None:
        """Ends all that runs in it (SIGHUP, after two seconds SIGKILL), and gives everything back."""
        if not await self._running.kill():
            self._running.let_go()
        self._watch.cancel()
        await asyncio.wait({self._watch})
        self._give_back()

    def _news(self) -> None:
        self.is_told = False
        self._on_news()

    def _listen(self) -> None:
        """Reads on, unless those who listen are behind."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._master < 0 or self._drained.is_set():
            return
        if self.is_heard and self.end - self.sent >= MAX_OUTPUT_BYTES:
            self._pause(_LOOK_AGAIN_S)
        else:
            asyncio.get_running_loop().add_reader(self._master, self._read)

    def _pause(self, for_s: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        self._again = loop.call_later(for_s, self._listen)

    def _read(self) -> None:
        try:
            chunk = os.read(self._master, MAX_OUTPUT_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # Linux: nobody has the other end any more
                raise
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._master)
            self._drained.set()
            return
        self._said.feed(chunk)
        self._read_bytes += len(chunk)
        if self.is_heard:
            self._on_news()
            if self.end - self.sent >= MAX_OUTPUT_BYTES:
                self._pause(_LOOK_AGAIN_S)
        elif self._read_bytes >= MAX_OUTPUT_BYTES:
            self._read_bytes = 0
            self._pause(_BREATH_S)

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._typed:
                del self._typed[: os.write(self._master, self._typed)]
        except BlockingIOError:
            loop.add_writer(self._master, self._flush)
            return
        except OSError:  # the shell has ended
            self._typed.clear()
        loop.remove_writer(self._master)

    async def _await_end(self) -> None:
        within_s = _LAST_WORDS_S
        try:
            ended = await self._running.ended()
            code = ended.status
            within_s = _SETTLE_S if ended.is_something_left else _LAST_WORDS_S
        except NotStarted as error:
            code = 127  # what a shell answers for such a command
            self._said.feed(f"The shell did not start: {error.strerror}.\r\n".encode())
        except ChildProcessError:
            code = -signal.SIGKILL  # what watched over it was killed, and it with that
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), within_s)
        self.exit_code = code
        self._news()

    def _give_back(self) -> None:
        if self._again is not None:
            self._again.cancel()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        loop.remove_writer(self._master)
        os.close(self._master)
        self._master = -1


def _set_size(master: int, columns: int, rows: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _take_utf8(slave: int) -> None:
    if sys.platform == "linux":
        attributes = termios.tcgetattr(slave)
        attributes[0] |= _IUTF8
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
