"""The names of a project's files, and the text of some: bounded in time and size, whatever is in it. Blocks."""

import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

from gadget_drone.disk.confined import open_file
from gadget_drone.disk.links import exists_without_links
from gadget_drone.errors import ToolError
from gadget_drone.git.settings import git_environment
from gadget_drone.processes.environment import child_environment
from gadget_drone.processes.programs import find_program, find_ripgrep
from gadget_drone.processes.ripgrep import VISIBLE

MAX_LIST_BYTES = 16 * 1024 * 1024
"""Of names: about 300,000 files."""
_SHALLOW = 2
MAX_TEXT_BYTES = 256 * 1024
"""Of one file that is read."""


class ProjectFiles:
    """`paths` are relative to the project, sorted: those that git knows, or where it knows none those that no ignore
    file hides. `is_complete` is false when there were too many, or too little time."""

    def __init__(self, project_dir: Path, *, timeout_s: float) -> None:
        self._dir = project_dir
        self._deadline = time.monotonic() + timeout_s
        self.is_complete = True
        self.paths = sorted(self._listed())
        self._shallow = [path for path in self.paths if path.count("/") <= _SHALLOW]
        """Those that a manifest or a script may be, out of what may be very many."""
        self.names = frozenset(path for path in self._shallow if "/" not in path)
        """At the root."""

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def fitting(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """The paths at most two directories deep that `pattern` fits. They are looked for once more without links: a
        command that runs may have led ripgrep elsewhere."""
        root = os.path.realpath(self._dir)
        found = filter(None, map(pattern.fullmatch, self._shallow))
        return [match for match in found if not self.is_late and exists_without_links(f"{root}/{match[0]}")]

    def text(self, path: str) -> str:
        """What is in a file; "" where there is none, or it is too large to be what it should be, or time is over."""
        if self.is_late:
            return ""
        try:
            with open_file(self._dir, path) as file:
                data = file.read(MAX_TEXT_BYTES + 1)
        except ToolError:
            return ""
        return data.decode("utf-8", "replace") if len(data) <= MAX_TEXT_BYTES else ""

    def _listed(self) -> list[str]:
        git = find_program("git")
        paths = self._run([git, "ls-files", "-z"], git_environment()) if git is not None else []
        if paths or (binary := find_ripgrep()) is None:
            return paths
        environment = child_environment()
        environment.pop("RIPGREP_CONFIG_PATH", None)
        ripgrep = [binary, "--no-config", "--no-messages", "--files", "--null", "--sort=path", *VISIBLE]
        return self._run(ripgrep, environment)

    def _run(self, command: list[str], environment: dict[str, str]) -> list[str]:
        try:
            process = subprocess.Popen(
                command,
                cwd=self._dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return []
        with process:
            assert process.stdout is not None
            timer = threading.Timer(max(0.0, self._deadline - time.monotonic()), process.kill)
            timer.start()
            try:
                data = self._read(process.stdout)
            finally:
                timer.cancel()
                process.kill()
        *whole, rest = data.split(b"\0")
        if rest or self.is_late:
            self.is_complete = False
        return [os.fsdecode(path) for path in whole]

    def _read(self, stream: IO[bytes]) -> bytes:
        data = stream.read(MAX_LIST_BYTES)
        if len(data) == MAX_LIST_BYTES:
            self.is_complete = False
        return data
