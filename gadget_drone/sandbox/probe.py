"""Whether commands can be put into a sandbox on this machine."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Literal

from gadget_api.drones import Sandbox
from gadget_drone.environment import child_environment
from gadget_drone.sandbox.standing import Standing
from gadget_drone.sandbox.wrap import find_bubblewrap

TIMEOUT_S = 5.0
SandboxSetting = Literal["auto", "off", "required"]


class NoSandbox(RuntimeError):
    """The settings require a sandbox, and there is none; the message says why."""


def probe(setting: SandboxSetting = "auto") -> Sandbox:
    """Runs a command as all others will be. Blocks for 10 s at most. Raises NoSandbox when it is required."""
    reason = "It is switched off in the drone's settings." if setting == "off" else _obstacle()
    if reason is not None and setting == "required":
        raise NoSandbox(reason)
    return Sandbox(kind="bubblewrap") if reason is None else Sandbox(kind="none", reason=reason[:500])


def _obstacle() -> str | None:
    if sys.platform != "linux":
        return "bubblewrap runs on Linux alone: run the drone in a container or virtual machine."
    if find_bubblewrap() is None:
        return "bubblewrap is not installed: install the system's package `bubblewrap`."
    return asyncio.run(_try())


async def _try() -> str | None:
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
                ended = await running.ended()
        except TimeoutError:
            return f"A command in bubblewrap's sandbox did not end within {TIMEOUT_S:g} s."
        except OSError as error:
            return _explained(error.strerror or str(error))
        finally:
            await standing.close()
    return None if ended.status == 0 else f"A command in bubblewrap's sandbox ended with {ended.status}."


def _explained(said: str) -> str:
    last = said.splitlines()[-1]
    advice = ""
    if any(words in said for words in ("No permissions", "setting up uid map", "Creating new namespace", "loopback")):
        advice = (
            " This machine or container does not let programs make namespaces: on Ubuntu allow bwrap by an AppArmor"
            " profile; a container needs them allowed when it is started, or holds the commands itself."
        )
    return f"bubblewrap does not work here: {last.removeprefix('bwrap: ')}.{advice}"
