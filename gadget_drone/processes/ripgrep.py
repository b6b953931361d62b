"""Running ripgrep: what `list`, `glob` and `search` stand on.

Python's own `re` cannot be interrupted on a hostile pattern; ripgrep is linear, and a process that can be killed.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gadget_drone.errors import ToolError
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.programs import find_beside_python, find_program

TIMEOUT_S = 30.0
VISIBLE = ("--hidden", "--no-require-git", "--glob=!.git", "--glob=!.gadget")
"""What the project's ignore files leave, dot files too; to be given after other globs, for of those that match the last
one counts."""

_CHUNK_BYTES = 2**16
_MAX_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class Ran:
    status: int
    """1: nothing found; 2 or more: failed, at least in part."""
    errors: str
    complete: bool
    """False when `take` had enough."""


def find_ripgrep() -> str | None:
    """The binary: the `ripgrep` wheel's, beside the interpreter, or the one on PATH."""
    return find_beside_python("rg") or find_program("rg")


def _shown(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


async def ripgrep(
    arguments: Sequence[str],
    cwd: Path,
    *,
    separator: bytes,
    take: Callable[[str], bool],
    decode: Callable[[bytes], str] = _shown,
) -> Ran:
    """Gives each piece of the output to `take` until it answers False. Raises `ToolError`, also after 30 s."""
    binary = find_ripgrep()
    if binary is None:
        raise ToolError("ripgrep is not installed on the drone's machine; use the shell instead.")
    environment = child_environment()
    environment.pop("RIPGREP_CONFIG_PATH", None)
    command = [binary, "--no-config", "--no-messages", "--no-ignore-messages", "--color=never", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    complete = False
    try:
        async with asyncio.timeout(TIMEOUT_S):
            complete = await _feed(process.stdout, separator, lambda piece: take(decode(piece)))
    except TimeoutError as error:
        raise ToolError(f"No answer within {TIMEOUT_S:g} s: narrow it down with path or glob.") from error
    finally:
        if not complete and process.returncode is None:
            process.kill()
        # To the end, for asyncio closes a pipe only there.
        while await process.stdout.read(_CHUNK_BYTES):
            pass
        errors = (await process.stderr.read()).decode("utf-8", "replace")
        status = await process.wait()
    return Ran(status, errors, complete)


async def _feed(stream: asyncio.StreamReader, separator: bytes, take: Callable[[bytes], bool]) -> bool:
    rest = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        *pieces, rest = (rest + chunk).split(separator)
        rest = rest[:_MAX_PIECE_BYTES]
        if not all(map(take, pieces)):
            return False
    return not rest or take(rest)
