"""Whether commands can be put into a sandbox on this machine."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from gadget_api.drones import Sandbox
from gadget_drone.environment import child_environment
from gadget_drone.sandbox.wrap import find_bubblewrap, wrap

TIMEOUT_S = 5.0
SandboxSetting = Literal["auto", "off", "required"]


class NoSandbox(RuntimeError):
    """The settings require a sandbox, and there is none; the message says why."""


def probe(setting: SandboxSetting = "auto") -> Sandbox:
    """Starts bubblewrap once, as commands will be. Blocks for 5 s at most. Raises NoSandbox when it is required."""
    reason = "It is switched off in the drone's settings." if setting == "off" else _obstacle()
    if reason is not None and setting == "required":
        raise NoSandbox(reason)
    return Sandbox(kind="bubblewrap") if reason is None else Sandbox(kind="none", reason=reason[:500])


def _obstacle() -> str | None:
    if sys.platform != "linux":
        return "bubblewrap runs on Linux alone: run the drone in a container or virtual machine."
    if find_bubblewrap() is None:
        return "bubblewrap is not installed: install the system's package `bubblewrap`."
    with tempfile.TemporaryDirectory(prefix="gadget-") as directory:
        project = Path(directory, "project")
        project.mkdir()
        argv, env = wrap(
            ["/bin/sh", "-c", "exit 0"],
            child_environment(),
            project_dir=project,
            workspace_dir=Path(directory),
            network=False,
        )
        try:
            ran = subprocess.run(
                argv, env=env, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return f"bubblewrap did not start within {TIMEOUT_S:g} s."
        except OSError as error:
            return f"bubblewrap does not start: {error.strerror}."
    if ran.returncode == 0:
        return None
    return _explained(ran.stderr.decode("utf-8", "replace").strip())


def _explained(said: str) -> str:
    last = said.splitlines()[-1] if said else "it gave no reason"
    advice = ""
    if any(words in said for words in ("No permissions", "setting up uid map", "Creating new namespace", "loopback")):
        advice = (
            " This machine or container does not let programs make namespaces: on Ubuntu allow bwrap by an AppArmor"
            " profile; a container needs them allowed when it is started, or holds the commands itself."
        )
    return f"bubblewrap does not work here: {last.removeprefix('bwrap: ')}.{advice}"
