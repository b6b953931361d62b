"""Running ripgrep: what `list`, `glob` and `search` stand on.

Python's own `re` cannot be interrupted on a hostile pattern; ripgrep is linear, and a process that can be killed.
"""

import asyncio
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from gadget_drone.errors import ToolError
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.pipes import CHUNK_BYTES, open_pipe
from gadget_drone.processes.programs import find_ripgrep
from gadget_drone.processes.supervised import Ended, NotStarted

TIMEOUT_S = 30.0
VISIBLE = ("--hidden", "--no-require-git", "--glob=!.git", "--glob=!.gadget")
"""What the project's ignore files leave, dot files too; to be given after other globs, for of those that match the last
one counts."""

_MAX_PIECE_BYTES = 2**20
_MAX_ERROR_BYTES = 4000


@dataclass(frozen=True)
class Ran:
    status: int
    """1: nothing found; 2 or more: failed, at least in part; minus the signal that killed it."""
    errors: str
    complete: bool
    """False when `take` had enough."""


class Running(Protocol):
    async def ended(self) -> Ended: ...

    async def kill(self) -> object: ...


class Start(Protocol):
    """Starts a command in the directory to be looked at. Raises NotStarted."""

    async def __call__(self, command: Sequence[str], *, output: int, errors: int) -> Running: ...


def _shown(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


async def ripgrep(
    arguments: Sequence[str],
    where: Path | Start,
    *,
    separator: bytes,
    take: Callable[[str], bool],
    decode: Callable[[bytes], str] = _shown,
) -> Ran:
    """Gives each piece of the output to `take` until it answers False. Raises `ToolError`, also after 30 s.

    `where`: a directory, or what starts it there. In a directory it runs outside of the sandbox, where a command that
    runs can make it read elsewhere: it exchanges a directory for a link between the look at a name and its opening.
    """
    binary = find_ripgrep()
    if binary is None:
        raise ToolError("ripgrep is not installed on the drone's machine; use the shell instead.")
    start = partial(_start_outside, where) if isinstance(where, Path) else where
    command = [binary, "--no-config", "--no-messages", "--no-ignore-messages", "--color=never", *arguments]
    printed, printing, output = await open_pipe()
    with closing(printing), output, TemporaryFile() as errors:
        try:
            running = await start(command, output=output.fileno(), errors=errors.fileno())
            output.close()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    if not await _feed(printed, separator, lambda piece: take(decode(piece))):
                        return Ran(0, "", complete=False)
                    status = (await running.ended()).status
            finally:
                await running.kill()
        except NotStarted as error:
            raise ToolError(f"ripgrep did not start: {error.strerror}.") from error
        except ChildProcessError as error:
            raise ToolError("What watched over ripgrep was killed: try again.") from error
        except TimeoutError as error:
            raise ToolError(f"No answer within {TIMEOUT_S:g} s: narrow it down with path or glob.") from error
        errors.seek(0)
        return Ran(status, errors.read(_MAX_ERROR_BYTES).decode("utf-8", "replace"), complete=True)


@dataclass(frozen=True)
class _Outside:
    process: Process

    async def ended(self) -> Ended:
        return Ended(await self.process.wait(), None, is_something_left=False)

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


async def _start_outside(directory: Path, command: Sequence[str], *, output: int, errors: int) -> Running:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=child_environment(), stdin=DEVNULL, stdout=output, stderr=errors,
        start_new_session=True,
    )  # fmt: skip
    return _Outside(process)


async def _feed(stream: asyncio.StreamReader, separator: bytes, take: Callable[[bytes], bool]) -> bool:
    rest = b""
    while chunk := await stream.read(CHUNK_BYTES):
        *pieces, rest = (rest + chunk).split(separator)
        rest = rest[:_MAX_PIECE_BYTES]
        if not all(map(take, pieces)):
            return False
    return not rest or take(rest)
