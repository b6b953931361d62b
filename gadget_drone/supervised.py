"""A command that ends together with everything it has started: when it is told to, and when the drone dies."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gadget_drone.supervisor import GRACE_S

_PROGRAM = str(Path(__file__).with_name("supervisor.py"))
_CONFIRM_S = 2.0
"""For the kernel to end what was killed."""


@dataclass(frozen=True)
class Ended:
    status: int
    """Minus the signal that killed it."""
    group: int
    """The command's process group."""
    is_something_left: bool
    """Whether something that it started still runs."""


class Supervised:
    """The drone's end of `supervisor.py`. The event loop keeps it for as long as anything of the command runs."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, status: int) -> None:
        self._process = process
        self._control = control
        self._status = status
        self._said = b""
        self._ended = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        asyncio.get_running_loop().add_reader(status, self._read)

    @classmethod
    def start(cls, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: int) -> Self:
        """Its input is empty; what it prints goes to the descriptor `output`. Raises OSError."""
        controlled, control = os.pipe()
        status, reporting = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _PROGRAM, str(reporting), *command],
                cwd=cwd,
                env=env,
                stdin=controlled,
                stdout=output,
                stderr=output,
                pass_fds=[reporting],
                start_new_session=True,
            )
        except BaseException:
            os.close(control)
            os.close(status)
            raise
        finally:
            os.close(controlled)
            os.close(reporting)
        return cls(process, control, status)

    async def ended(self) -> Ended:
        """Waits until the command itself has ended. Raises ChildProcessError when its supervisor was killed before."""
        ended: Ended = await asyncio.shield(self._ended)
        if not ended.is_something_left:
            await self._over.wait()
        return ended

    async def kill(self) -> bool:
        """Ends all of it; false when something cannot be killed."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        try:
            async with asyncio.timeout(GRACE_S + _CONFIRM_S):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _read(self) -> None:
        data = os.read(self._status, 100)
        self._said += data
        if self._said.endswith(b"\n") and not self._ended.done():
            group, status, left = map(int, self._said.split())
            self._ended.set_result(Ended(status, group, bool(left)))
        if data:
            return
        asyncio.get_running_loop().remove_reader(self._status)
        os.close(self._status)
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        self._process.wait()  # it closes this pipe by ending
        if not self._ended.done():
            self._ended.set_exception(ChildProcessError("the supervisor of the command was killed"))
            self._ended.exception()  # nobody may be there to hear it
        self._over.set()
