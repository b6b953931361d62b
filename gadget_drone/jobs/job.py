"""One command in the background: what it printed, what it is told, how it ended."""

import asyncio
import codecs
import errno
import os
import time
from contextlib import suppress

from gadget_drone.jobs.ring import Ring
from gadget_drone.supervised import Ended, NotStarted, Supervised

MAX_INPUT_BYTES = 64 * 1024
"""Of one write: what a pipe of Linux takes when it is empty (pipe(7))."""
WRITE_S = 5.0
"""For a program that does not read what it is told."""
SETTLE_S = 0.2
"""Between the first new output and the answer: what belongs together comes together."""
_CHUNK_BYTES = 2**18


class InputClosed(OSError):
    """The command does not take input any more."""


class Job:
    """Made by `Jobs.start`. Reads what its command prints from then on, until the last that may print has ended, or
    `close`."""

    def __init__(
        self,
        job_id: str,
        command: str,
        running: Supervised,
        output: asyncio.StreamReader,
        pipe: asyncio.BaseTransport,
        stdin: int,
    ) -> None:
        """`output` is fed by `pipe`; `stdin` is a descriptor that does not block."""
        self.id = job_id
        self.command = command
        self.was_stopped = False
        self.is_end_told = False
        """Whether the model knows that it has ended."""
        self._running = running
        self._stdin: int | None = stdin
        self._printed = Ring()
        self._read_to = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended: Ended | OSError | None = None
        self._begun = time.monotonic()
        self._over_at: float | None = None
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._pipe = pipe
        self._pump = asyncio.create_task(self._read_output(output))
        self._watch = asyncio.create_task(self._await_end())

    @property
    def is_running(self) -> bool:
        """Whether the command itself runs; what it left may run on."""
        return self._ended is None

    @property
    def has_failed(self) -> bool:
        return isinstance(self._ended, OSError) or (self._ended is not None and self._ended.status != 0)

    @property
    def has_unread(self) -> bool:
        return self._printed.end > self._read_to

    @property
    def not_started(self) -> NotStarted | None:
        return self._ended if isinstance(self._ended, NotStarted) else None

    @property
    def state(self) -> str:
        """In words: `running for 12 s`, `exit status 0 after 3.1 s` ..."""
        took_s = (self._over_at or time.monotonic()) - self._begun
        match self._ended:
            case None:
                return f"running for {took_s:.0f} s"
            case NotStarted() as error:
                return f"did not start: {error.strerror}"
            case OSError():
                return f"what watched over it was killed after {took_s:.1f} s: its outcome is unknown"
            case Ended(status, _, left):
                said = f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
                because = self._running.ended_because
                said = "stopped" if self.was_stopped else f"ended: {because}" if because is not None else said
                runs_on = "; something that it started still runs" if left and not self._running.is_over else ""
                return f"{said} after {took_s:.1f} s{runs_on}"

    def read(self) -> tuple[str, int]:
        """What it printed since the last time, and how many bytes before that were not kept."""
        dropped = max(self._printed.start - self._read_to, 0)
        if dropped:
            self._decoder.reset()
        data = self._printed.since(self._read_to)
        self._read_to = self._printed.end
        return self._decoder.decode(data, final=self._pump.done()), dropped

    def has_printed(self, text: str, *, unread: bool) -> bool:
        """Whether `text` is in what it printed (`unread`: since the last `read`), as far as that is kept."""
        return text.encode("utf-8", "replace") in self._printed.since(self._read_to if unread else 0)

    async def wait(self, within_s: float, text: str | None = None) -> None:
        """Until there is something unread (with `text`: until that is in it), or the command has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.is_running and not (
                    self.has_unread if text is None else self.has_printed(text, unread=True)
                ):
                    self._changed.clear()
                    await self._changed.wait()
                await self.settle()

    async def settle(self) -> None:
        """For a moment: until it has ended and said its last words, which come in either order."""
        await asyncio.wait({self._pump, self._watch}, timeout=SETTLE_S)

    async def write(self, data: bytes) -> int:
        """How many bytes it took within 5 s. Raises InputClosed."""
        taken = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(WRITE_S):
                while taken < len(data):
                    taken += await self._write_some(data[taken:])
        return taken

    def close_input(self) -> None:
        if self._stdin is not None:
            asyncio.get_running_loop().remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = None
            self._writable.set()

    async def stop(self) -> bool:
        """Ends all that runs of it; false when something cannot be killed."""
        self.was_stopped = self.was_stopped or self.is_running
        is_dead = await self._running.kill()
        await self.settle()
        return is_dead

    async def close(self) -> None:
        """Ends it, and gives everything back."""
        if not await self.stop():
            self._running.let_go()
        self.close_input()
        self._pipe.close()  # ends the pump
        await asyncio.wait({self._pump, self._watch})

    async def _write_some(self, data: bytes) -> int:
        while True:
            if self._stdin is None:
                raise InputClosed(errno.EPIPE, "its input is closed")
            try:
                return os.write(self._stdin, data)
            except BlockingIOError:
                await self._until_writable(self._stdin)
            except BrokenPipeError as error:
                raise InputClosed(error.errno, "its input is closed") from error

    async def _until_writable(self, stdin: int) -> None:
        self._writable.clear()
        asyncio.get_running_loop().add_writer(stdin, self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if self._stdin is not None:
                asyncio.get_running_loop().remove_writer(stdin)

    async def _read_output(self, output: asyncio.StreamReader) -> None:
        while chunk := await output.read(_CHUNK_BYTES):
            self._printed.feed(chunk)
            self._changed.set()
        self._pipe.close()

    async def _await_end(self) -> None:
        try:
            self._ended = await self._running.ended()
        except OSError as error:
            self._ended = error
        if (because := self._running.ended_because) is not None:
            self._printed.feed(f"\n[Gadget Code ended this: {because}]\n".encode())
        self._over_at = time.monotonic()
        self.close_input()
        self._changed.set()
