"""Git on the store of checkpoints: with no configuration but the store's, bounded, and ended on request."""

import os
import subprocess
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints.limits import CheckpointError
from gadget_drone.git.settings import git_environment
from gadget_drone.processes.process_group import kill_group
from gadget_drone.processes.programs import program

MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""Of a list of files: 200,000 long names."""
_SIGPIPE = -13


class Stopped(Exception):
    """The work was cancelled, or its time is over."""


class GitFailed(Exception):
    """A git process failed; `said` is the last line that tells why."""

    def __init__(self, command: str, status: int, said: str) -> None:
        super().__init__(f"git {command}: status {status}: {said}")
        self.said = said


class StoreGit:
    """The git processes of one piece of work, one after another, in a thread; `stop` is for the event loop."""

    def __init__(self, store_dir: Path, project_dir: Path) -> None:
        self.store_dir = store_dir
        self.project_dir = project_dir
        self.excludes_file = os.devnull
        """What the user's `core.excludesFile` names."""
        self.lock_fd = -1
        """The store's lock; git inherits it, so that one that outlives a killed drone still holds it."""
        self.started = 0
        self._guard = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Raises Stopped when the work is to end; for loops that start no process."""
        if self._stopped:
            raise Stopped

    async def stop(self) -> None:
        """Ends the process that runs, and lets no other start."""
        with self._guard:
            self._stopped = True
        if self._process is not None and self._process.poll() is None:
            await kill_group(self._process.pid)

    def run(
        self,
        *arguments: str,
        feed: Iterable[bytes] = (),
        allowed: Collection[int] = (0,),
        work_tree: Path | None = None,
        alternates: str | None = None,
    ) -> bytes:
        """What git prints. Raises GitFailed, Stopped, and CheckpointError when it is too much."""
        environment = self._environment(work_tree or self.project_dir, alternates)
        options = ("-c", f"core.excludesFile={self.excludes_file}")
        with self._running([*options, *arguments], environment, feed, allowed, work_tree) as output:
            answer = output.read(MAX_ANSWER_BYTES + 1)
            if len(answer) > MAX_ANSWER_BYTES:
                raise CheckpointError(ErrorCode.TOO_LARGE, "There are too many files: name some in .gitignore.")
            return answer

    @contextmanager
    def stream(self, *arguments: str, feed: Iterable[bytes] = (), alternates: str | None = None) -> Iterator[IO[bytes]]:
        """What git prints, to be read as it comes; who leaves early ends it. Raises GitFailed and Stopped."""
        environment = self._environment(self.project_dir, alternates)
        with self._running([*arguments], environment, feed, (0, _SIGPIPE)) as output:
            yield output

    def ask_user(self, *arguments: str) -> str | None:
        """What git says about the user's own repository, which it only reads; None when it fails."""
        try:
            with self._running([*arguments], git_environment(), (), (0,)) as output:
                return os.fsdecode(output.read(MAX_ANSWER_BYTES)).removesuffix("\n")
        except GitFailed:
            return None

    def _environment(self, work_tree: Path, alternates: str | None) -> dict[str, str]:
        own = {
            "GIT_DIR": str(self.store_dir),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "1",  # `status` keeps what it has learnt: the index is ours alone
        }
        if alternates is not None:
            own["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = alternates
        return git_environment() | own

    @contextmanager
    def _running(
        self,
        arguments: list[str],
        environment: dict[str, str],
        feed: Iterable[bytes],
        allowed: Collection[int],
        directory: Path | None = None,
    ) -> Iterator[IO[bytes]]:
        # Its input and its complaints are files: only one pipe is left, and nothing waits for another.
        with TemporaryFile() as given, TemporaryFile() as complaints:
            given.writelines(feed)
            given.seek(0)
            with self._guard:
                self.check()
                self.started += 1
                process = self._process = subprocess.Popen(
                    [program("git"), *arguments],
                    cwd=directory or self.project_dir,
                    env=environment,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    pass_fds=() if self.lock_fd < 0 else (self.lock_fd,),
                    start_new_session=True,
                    umask=0o077,  # what it keeps is for this user alone, as all in .gadget/
                )
            assert process.stdout is not None
            try:
                with process.stdout as output:
                    yield output
            finally:
                status = process.wait()  # it ends when it cannot print any more
            self.check()
            if status not in allowed:
                complaints.seek(0)
                lines = complaints.read(10_000).decode("utf-8", "replace").strip().splitlines()
                command = next((word for word in arguments if not word.startswith("-") and "=" not in word), "")
                raise GitFailed(command, status, lines[-1][:300] if lines else f"it ended with {status}")
