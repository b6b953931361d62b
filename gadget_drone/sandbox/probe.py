"""Whether commands can be put into a sandbox on this machine."""

import asyncio
import errno
import sys
import tempfile
from pathlib import Path
from typing import Literal

from gadget_api.drones import Sandbox
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.supervised import Ended, NotStarted
from gadget_drone.sandbox.standing import Standing
from gadget_drone.sandbox.wrap import find_bubblewrap

TIMEOUT_S = 5.0
SandboxSetting = Literal["auto", "off", "required"]


class NoSandbox(RuntimeError):
    """No drone may start with this setting: the message says why, and what to do."""


_NEVER = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})
"""Errors of a kernel that does not allow a sandbox, or has none: Linux before 5.3, a container. A full disk or a busy
machine causes others, and its commands must not run without a sandbox for that."""
_MOST_NAMESPACES = "/proc/sys/user/max_user_namespaces"


def probe(setting: SandboxSetting = "auto") -> Sandbox:
    """Runs a command as all others will be. Blocks for 10 s at most.

    Raises NoSandbox when a sandbox is required and there is none, and when it is not known whether there is one.
    """
    reason = "It is switched off in the drone's settings." if setting == "off" else _obstacle()
    if reason is not None and setting == "required":
        raise NoSandbox(f"GADGET_SANDBOX requires a sandbox: {reason}")
    return Sandbox(kind="bubblewrap") if reason is None else Sandbox(kind="none", reason=reason[:500])


def _obstacle() -> str | None:
    if sys.platform != "linux":
        return "bubblewrap runs on Linux alone: run the drone in a container or virtual machine."
    if find_bubblewrap() is None:
        return "bubblewrap is not installed: install the system's package `bubblewrap`."
    try:
        ended = asyncio.run(_try())
    except NotStarted as error:
        if error.errno in _NEVER or _are_namespaces_off():
            return _explained(str(error.strerror))
        raise _not_known(str(error.strerror)) from error
    except OSError as error:
        raise _not_known(str(error) or f"a command did not end within {TIMEOUT_S:g} s") from error
    if ended.status != 0:
        raise _not_known(f"a command ended with {ended.status}")
    return None


async def _try() -> Ended:
    """Raises NotStarted, another OSError where something else fails, and TimeoutError."""
    with tempfile.TemporaryDirectory(prefix="gadget-") as directory:
        standing = Standing(Path(directory))
        project = Path(directory, "project")
        project.mkdir()
        try:
            running = await standing.start(
                ["/bin/sh", "-c", "exit 0"],
                child_environment(),
                project_dir=project,
                network=False,
                output=2,
            )
            async with asyncio.timeout(TIMEOUT_S):
                return await running.ended()
        finally:
            await standing.close()


def _are_namespaces_off() -> bool:
    """bubblewrap cannot tell this from too many of them."""
    try:
        return Path(_MOST_NAMESPACES).read_text().strip() == "0"
    except OSError:
        return False


def _not_known(what: str) -> NoSandbox:
    return NoSandbox(
        f"The sandbox was tried, and failed: {_last_line(what)}. That may pass: mend it (a full disk? a busy machine?) "
        "and start again. With GADGET_SANDBOX=off a drone starts, and its commands have all rights of this account."
    )


def _explained(said: str) -> str:
    return (
        f"bubblewrap does not work here: {_last_line(said)}. This machine or container does not let programs make or "
        "enter namespaces. It needs Linux 5.3 or later and a bwrap that is not setuid; on Ubuntu allow bwrap by an "
        "AppArmor profile; a container needs them allowed when it is started, or holds the commands itself."
    )


def _last_line(said: str) -> str:
    return said.splitlines()[-1].removeprefix("bwrap: ").rstrip(".")
