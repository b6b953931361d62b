"""The shells themselves, as the judge: what they really run, written down by the programs that they run."""

import os
import secrets
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

REAL = ("env", "nice", "nohup", "timeout", "xargs", "find", "sh", "bash", "dash", "setsid", "stdbuf")
"""Programs that start others; they cannot reach anything but what is in the directory of shims."""
SHIMS = (
    "git",
    "rm",
    "npm",
    "curl",
    "make",
    "cat",
    "tee",
    "ls",
    "grep",
    "danger",
    "safe",
    "rmx",
    "push",
    "x",
    "EOF",
    "a",
    "b",
)
_END = "end-of-the-words"
SHELLS = tuple(shell for shell in ("dash", "bash") if shutil.which(shell))


@dataclass(frozen=True)
class Shells:
    bin_dir: Path
    work_dir: Path
    log: Path

    @classmethod
    def in_directory(cls, directory: Path) -> "Shells":
        made = cls(directory / "bin", directory / "work", directory / "log")
        made.bin_dir.mkdir()
        made.work_dir.mkdir()
        # One write, so that two that run at once do not mix.
        shim = f'#!/bin/sh\nprintf "%s\\0" "$RUN" "${{0##*/}}" "$@" {_END} >> {made.log}\n'
        for name in SHIMS:
            (made.bin_dir / name).write_text(shim)
            (made.bin_dir / name).chmod(0o755)
        for name in REAL:
            if found := shutil.which(name, path="/usr/bin:/bin"):
                (made.bin_dir / name).symlink_to(found)
        return made

    def executed(self, shell: str, line: str) -> list[list[str]]:
        """What `line` has run, as `shell` reads it: the words of each shim."""
        run = secrets.token_hex(4)
        self.log.write_bytes(b"")
        shutil.rmtree(self.work_dir)
        self.work_dir.mkdir()
        (self.work_dir / "push").touch()
        # Everything it leaves in the background dies with the group.
        process = subprocess.Popen(
            [self.bin_dir / shell, "-c", f"ulimit -f 100 -t 2 -n 64; {os.linesep}{line}"],
            cwd=self.work_dir,
            env={"RUN": run, "PATH": str(self.bin_dir), "HOME": str(self.work_dir), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        commands: list[list[str]] = [[]]
        for word in self.log.read_bytes().decode("utf-8", "replace").split("\0")[:-1]:
            if word == _END:
                commands.append([])
            else:
                commands[-1].append(word)
        # What an earlier line has left in the background may still write.
        return [command[1:] for command in commands if command and command[0] in (run, "")]
