"""Named pipes where git looks for a file of its own.

A command can make one called `.gitignore`, or put one into a `.git`. A git that opens it for reading waits until
somebody opens it for writing. Opening and closing it is enough: git goes on, and takes it for an empty file.
"""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FROM_GIT = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
_AFTER_S = 1.0
"""A git that takes longer may be waiting: only then it is worth a walk through all directories."""
_AGAIN_S = 0.05


class NamedPipes:
    """Those of one project, for one piece of work of git."""

    def __init__(self, project_dir: Path) -> None:
        self.found: list[str] = []
        self.waited: set[str] = set()
        """Those that something waited for."""
        self._project = os.path.realpath(project_dir)
        self._is_over = threading.Event()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within it no git waits for the opening of a pipe for long. A pipe that a command keeps open still blocks a
        git that reads from it."""
        thread = threading.Thread(target=self._release, name="named-pipes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _release(self) -> None:
        if self._is_over.wait(_AFTER_S):
            return
        for path in self._walk():
            self.found.append(path)
            self._open(path)
        while self.found and not self._is_over.wait(_AGAIN_S):
            for path in self.found:
                self._open(path)

    def _open(self, path: str) -> None:
        with suppress(OSError):  # nobody reads it, or it is gone
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC))
            self.waited.add(path)

    def _walk(self) -> Iterator[str]:
        directories = [(self._project, False)]
        while directories and not self._is_over.is_set():
            directory, is_git = directories.pop()
            with suppress(OSError), os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path != f"{self._project}/.gadget":
                            directories.append((entry.path, is_git or entry.name.casefold() == ".git"))
                    elif not entry.is_file(follow_symlinks=False) and (is_git or entry.name in _FROM_GIT):
                        yield from self._pipe_at(entry.path)

    def _pipe_at(self, path: str) -> Iterator[str]:
        real = os.path.realpath(path)  # git follows a link in a git directory
        with suppress(OSError):
            if real.startswith(f"{self._project}/") and stat.S_ISFIFO(os.lstat(real).st_mode):
                yield real
