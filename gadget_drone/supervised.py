"""A command that ends together with everything it has started: when it is told to, and when the drone dies."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gadget_drone.environment import child_environment
from gadget_drone.process_group import CONFIRM_S
from gadget_drone.supervisor import GRACE_S

_PACKAGES = str(Path(__file__).parent.parent)
_PROGRAM = f"import sys; sys.path.append({_PACKAGES!r}); from gadget_drone.supervisor import main; main()"
"""Without `site`, which takes longer than all else, our own packages are not found."""


CleanUp = Callable[["Supervised"], Coroutine[None, None, None]]
"""Is called once nothing of a command runs any more; the command counts as over when it has returned."""


class NotStarted(OSError):
    """The command did not start; nothing of it ran."""


@dataclass(frozen=True)
class Ended:
    status: int
    """Minus the signal that killed it."""
    group: int | None
    """The command's process group; None in a sandbox, where it has no name out here."""
    is_something_left: bool
    """Whether something that it started still runs."""


class Supervised:
    """A command, kept by its `Supervisor` for as long as anything of it runs."""

    def __init__(
        self,
        supervising: socket.socket,
        message: bytes,
        on_over: Callable[["Supervised"], object],
        clean_up: CleanUp | None,
    ) -> None:
        self._socket = supervising
        self._unsent = memoryview(message)
        self._on_over = on_over
        self._clean_up = clean_up
        self._cleaning: asyncio.Task[None] | None = None
        self.ended_because: str | None = None
        """Why we ended it, where its starter did not ask for that."""
        self._said = b""
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        asyncio.get_running_loop().add_reader(supervising, self._read)
        asyncio.get_running_loop().add_writer(supervising, self._write)
        self._write()

    async def ended(self) -> Ended:
        """Waits until the command itself has ended.

        Raises NotStarted, and ChildProcessError when what watched over it was killed before.
        """
        ended = await asyncio.shield(self._ended)
        if not ended.is_something_left:
            await self._over.wait()
        return ended

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more, and what it left is cleaned up."""
        return self._over.is_set()

    async def kill(self) -> bool:
        """Ends all of it; false when something cannot be killed."""
        self._end()
        try:
            async with asyncio.timeout(GRACE_S + CONFIRM_S):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def end(self, because: str) -> None:
        """Ends all of it, and does not wait for that."""
        if not self.is_over:
            self.ended_because = because
            self._end()

    def _end(self) -> None:
        with suppress(OSError):  # it is over
            self._socket.shutdown(socket.SHUT_WR)

    def let_go(self) -> None:
        """Ends all of it, without waiting."""
        if self._socket.fileno() < 0:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        asyncio.get_running_loop().remove_writer(self._socket)
        self._socket.close()
        if not self._ended.done():
            self._fail(ChildProcessError("the supervisor of the command was killed"))
        if self._clean_up is None:
            return self._be_over()
        self._cleaning = asyncio.create_task(self._clean_up(self))
        self._cleaning.add_done_callback(lambda _: self._be_over())

    def _be_over(self) -> None:
        self._over.set()
        self._on_over(self)

    def _write(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except ConnectionError:  # `_read` learns why
            pass
        asyncio.get_running_loop().remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(100)
        except ConnectionResetError:  # it has left something unread
            data = b""
        if not data:
            return self.let_go()
        self._said += data
        if self._said.endswith(b"\n"):
            match [int(number) for number in self._said.split()]:
                case [group, status, left]:
                    self._ended.set_result(Ended(status, group or None, bool(left)))
                case [number]:
                    self._fail(NotStarted(number, os.strerror(number)))

    def _fail(self, error: OSError) -> None:
        self._ended.set_exception(error)
        self._ended.exception()  # nobody may be there to hear it


@dataclass(frozen=True)
class Namespaces:
    """Those of a sandbox, as descriptors that are open for as long as this is in use."""

    outer: tuple[int, ...]
    """In the order to enter them."""
    user: int | None
    """The namespace of users that commands are in, or None where it is one of the outer, or the drone's own."""

    @property
    def fds(self) -> tuple[int, ...]:
        return self.outer if self.user is None else (*self.outer, self.user)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Supervisor:
    """The drone's end of the process `supervisor.py`, which is started with the first command, and again with the next
    one when somebody has killed it: commands that run do not depend on it."""

    def __init__(self) -> None:
        self._namespaces: Namespaces | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []
        self._link: socket.socket | None = None
        self._running: set[Supervised] = set()

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: int,
        errors: int | None = None,
        stdin: int | None = None,
        clean_up: CleanUp | None = None,
    ) -> Supervised:
        """Runs the program at the path `command[0]`. It prints to the descriptor `output`, its errors to `errors` or
        there, too; its input is the descriptor `stdin`, or empty. A terminal as `output` is all three, and its
        controlling terminal.

        Raises NotStarted, or leaves that to `Supervised.ended`.
        """
        message = _message(command, cwd, env)
        try:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            try:
                with theirs:
                    printed = (output, output if errors is None else errors)
                    self._hand_over([theirs.fileno(), *printed, *(() if stdin is None else (stdin,))])
            except BaseException:
                ours.close()
                raise
        except OSError as error:
            raise NotStarted(error.errno, error.strerror) from error
        running = Supervised(ours, message, self._running.discard, clean_up)
        self._running.add(running)
        return running

    def move_to(self, namespaces: Namespaces) -> None:
        """From the next command on, commands run in these. What was started before goes on where it is."""
        if self._link is not None and self._process is not None:
            self._link.close()  # it ends by itself once it has taken what is on its way
            self._link = None
            self._left = [process for process in self._left if process.poll() is None] + [self._process]
            self._process = None
        self._namespaces = namespaces

    def close(self) -> None:
        """Ends the process, and lets go of every command: what of them still runs ends too."""
        for running in tuple(self._running):
            running.let_go()
        self._stop()
        for process in self._left:
            process.kill()
            process.wait()
        self._left.clear()

    def _hand_over(self, fds: Sequence[int]) -> None:
        count = bytes([len(fds)])
        if self._process is not None and self._process.poll() is not None:
            self._stop()  # somebody has killed it
        if self._link is not None:
            try:
                socket.send_fds(self._link, [count], fds)
                return
            except ConnectionError:
                self._stop()
        socket.send_fds(self._launch(), [count], fds)

    def _launch(self) -> socket.socket:
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        inside = self._namespaces
        sandbox = () if inside is None else (",".join(map(str, inside.outer)), str(inside.user or ""))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), *sandbox],
                cwd="/",
                env=child_environment(),  # commands can read it
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *(() if inside is None else inside.fds)],
                start_new_session=True,
            )
        return self._link

    def _stop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            self._process.kill()  # it ends by itself unless somebody has stopped it
            self._process.wait()
            self._process = None


def _message(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    """As `supervisor.py` reads it."""
    words = [str(cwd), str(len(command)), *command, *(f"{name}={value}" for name, value in env.items())]
    message = b"\0".join(map(os.fsencode, words))
    if message.count(b"\0") != len(words) - 1:
        raise ValueError("a command cannot contain a NUL character")
    return len(message).to_bytes(4, "big") + message
