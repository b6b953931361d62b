"""Ending a process together with everything it started."""

import asyncio
import os
import signal
from pathlib import Path

from gadget_drone.processes.supervisor import GRACE_S

CONFIRM_S = 2.0
"""For the kernel to end what was killed."""
_LOOK_EVERY_S = 0.02


def is_group_alive(group: int) -> bool:
    """Whether process group `group` has a member that still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        return True
    # A zombie counts for killpg, and stays one where nobody reaps orphans (a container without an init).
    return any(_runs_in(group, entry) for entry in proc.iterdir() if entry.name.isdigit())


def _runs_in(group: int, entry: Path) -> bool:
    try:
        after_name = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return False
    state, member_of = after_name[0], int(after_name[2])
    return member_of == group and state not in (b"Z", b"X")


async def kill_group(group: int, *, grace_s: float = GRACE_S) -> bool:
    """Asks the group to end, then kills it; false when something in it cannot be killed.

    Cancelled while it waits, it kills at once.
    """
    try:
        _signal(group, signal.SIGTERM)
        await _gone(group, grace_s)
    finally:
        _signal(group, signal.SIGKILL)
    return await _gone(group, CONFIRM_S)


async def _gone(group: int, within_s: float) -> bool:
    # The kernel announces the end of a child, but not of a group: there is nothing to wait on.
    deadline = asyncio.get_running_loop().time() + within_s
    while is_group_alive(group):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_LOOK_EVERY_S)
    return True


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
