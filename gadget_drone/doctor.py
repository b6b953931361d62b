"""`gadget-drone doctor`: what a drone needs on this machine, and how to mend what is missing."""

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gadget_drone.server import Server
from gadget_drone.tools.ripgrep import find_ripgrep

_MIN_FREE_BYTES = 1024**3


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
    return [
        Finding("Python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} (3.11 or later is needed)"),
        _git(),
        _ripgrep(),
        _workspace(workspace),
        _disk(workspace),
        _sandbox(),
        asyncio.run(_server(server)),
    ]


def _git() -> Finding:
    if shutil.which("git") is None:
        return Finding("git", False, "not found; install it (apt install git)")
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=10).stdout.strip()
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
    return Finding("disk", free > _MIN_FREE_BYTES, f"{free / 1024**3:.1f} GiB free", is_needed=False)


def _sandbox() -> Finding:
    found = shutil.which("bwrap")
    says = found or "bubblewrap is not installed: commands run with all your rights (apt install bubblewrap)"
    return Finding("sandbox", found is not None, says, is_needed=False)


async def _server(url: str) -> Finding:
    server = Server(url)
    try:
        if await server.is_alive():
            return Finding("server", True, url)
    finally:
        await server.close()
    return Finding("server", False, f"nothing answers at {url}; start it (gadget-code serve), or mend --server")
