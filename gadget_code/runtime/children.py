"""Child processes that end with this process: MongoDB, the drone of `up`, the demo's model."""

import asyncio
import ctypes
import functools
import os
import signal
import sys
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


async def start_child(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """Starts `command` outside the terminal's process group, so that Ctrl+C reaches only this process. On Linux the
    kernel sends it SIGTERM when this process is killed."""
    tie = functools.partial(_die_with_parent, os.getpid()) if _libc is not None else None
    options = {"stdin": asyncio.subprocess.DEVNULL, "start_new_session": True, "preexec_fn": tie, **options}
    return await asyncio.create_subprocess_exec(*command, **options)


async def stop_child(process: asyncio.subprocess.Process, *, within_s: float) -> None:
    """Sends SIGTERM, then SIGKILL. The process has ended when this returns."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), within_s)
    except TimeoutError:
        process.kill()
        await process.wait()


async def run_child(*command: str) -> str:
    """Runs `command` to its end and returns its output. Raises GadgetError when it fails."""
    process = await start_child(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    output, errors = await process.communicate()
    if process.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it printed no error"])[-1]
        raise GadgetError(ErrorCode.INTERNAL, f"{command[0]} failed: {last}")
    return output.decode(errors="replace")


def _die_with_parent(parent: int) -> None:
    """Runs in the child, before exec."""
    assert _libc is not None
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)
