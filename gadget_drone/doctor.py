"""`gadget-drone doctor`: what a drone needs on this machine, and how to mend what is missing."""

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gadget_api.model import utc_now
from gadget_drone.processes.programs import find_program, find_ripgrep, keep_out_of
from gadget_drone.service.server import Server
from gadget_drone.status import inspect_workspace
from gadget_drone.tools.entry_points import find_tools
from gadget_drone.workspace.lock import Holder

_MIN_FREE_BYTES = 1024**3
_MAX_SKEW_S = 30.0
"""More, and the times and durations that users are shown make no sense."""


@dataclass(frozen=True)
class Finding:
    what: str
    is_well: bool
    says: str
    is_needed: bool = True
    """Whether a drone cannot work without it."""

    @property
    def is_fatal(self) -> bool:
        return self.is_needed and not self.is_well

    @property
    def mark(self) -> str:
        return "ok     " if self.is_well else ("MISSING" if self.is_needed else "note   ")

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "ok": self.is_well, "needed": self.is_needed, "says": self.says}


def examine(workspace: Path, server: str) -> list[Finding]:
    keep_out_of(workspace)
    return [
        Finding("Python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} (3.11 or later is needed)"),
        _git(),
        _ripgrep(),
        _workspace(workspace),
        _disk(workspace),
        *_gadget_dir(workspace),
        _sandbox(),
        *_third_party_tools(),
        *asyncio.run(_server(server)),
    ]


def _git() -> Finding:
    if (git := find_program("git")) is None:
        return Finding("git", False, "not found; install it (apt install git)")
    version = subprocess.run([git, "--version"], capture_output=True, text=True, timeout=10).stdout.strip()
    return Finding("git", True, version)


def _ripgrep() -> Finding:
    found = find_ripgrep()
    return Finding("ripgrep", found is not None, found or "not found; install it (pip install ripgrep)")


def _workspace(workspace: Path) -> Finding:
    if not workspace.is_dir():
        return Finding("workspace", False, f"{workspace} is no directory; make it, or name another with --workspace")
    if not os.access(workspace, os.W_OK):
        return Finding("workspace", False, f"{workspace} is read-only; make it writable for this user")
    return Finding("workspace", True, str(workspace))


def _disk(workspace: Path) -> Finding:
    if not workspace.exists():
        return Finding("disk", False, "unknown without a workspace", is_needed=False)
    free = shutil.disk_usage(workspace).free
    says = f"{free / 1024**3:.1f} GiB free" + ("" if free > _MIN_FREE_BYTES else f"; make room in {workspace}")
    return Finding("disk", free > _MIN_FREE_BYTES, says, is_needed=False)


def _gadget_dir(workspace: Path) -> list[Finding]:
    if not workspace.is_dir():
        return []
    view = inspect_workspace(workspace.resolve())
    findings = [_lock(view.holder)]
    findings += [
        Finding("file", False, f".gadget/{name} is damaged; a drone that starts here sets it aside", is_needed=False)
        for name in view.damaged
    ]
    findings += [
        Finding("file", False, f".gadget/{folder}: {reason} Look at it, and delete it.", is_needed=False)
        for folder, reason in view.set_aside.items()
    ]
    return findings


def _lock(holder: Holder | None) -> Finding:
    if holder is None:
        return Finding("lock", True, "free")
    try:
        state = Path(f"/proc/{holder.pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        state = "R" if sys.platform != "linux" else ""
    if state == "T":
        says = f"held by process {holder.pid}, which is stopped; let it go on (kill -CONT {holder.pid}), or end it"
    elif not state:
        says = "held by a process that is not to be seen from here (of another container or machine?); end it there"
    else:
        return Finding("lock", True, f"held by the drone that works here (process {holder.pid})")
    return Finding("lock", False, says, is_needed=False)


def _sandbox() -> Finding:
    from gadget_drone.sandbox.probe import probe

    found = probe()
    says = found.kind if found.reason is None else f"commands run with all your rights: {found.reason}"
    return Finding("sandbox", found.kind != "none", says, is_needed=False)


def _third_party_tools() -> list[Finding]:
    from gadget_drone.tools.toolbox import BUILT_IN  # and all that its tools import: not for --help

    found = find_tools({tool.spec.name for tool in BUILT_IN})
    findings = [Finding("tools", False, problem, is_needed=False) for problem in found.problems]
    if found.tools:
        findings.append(Finding("tools", True, f"installed: {', '.join(tool.spec.name for tool in found.tools)}"))
    return findings


async def _server(url: str) -> list[Finding]:
    server = Server(url)
    try:
        health = await server.health()
    finally:
        await server.close()
    if health is None:
        says = f"nothing answers at {url}; start it (gadget-code serve), or mend --server"
        return [Finding("server", False, says)]
    findings = [Finding("server", True, url)]
    if health.date is not None:
        behind_s = (health.date - utc_now()).total_seconds()
        says = f"{abs(behind_s):.0f} s {'behind' if behind_s > 0 else 'ahead of'} the server's"
        is_well = abs(behind_s) < _MAX_SKEW_S
        findings.append(Finding("clock", is_well, says if is_well else f"{says}; set it right", is_needed=False))
    return findings
