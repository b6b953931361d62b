"""The git directories that were ever seen in the projects of a workspace, and what is taken out of them.

A command may hide one from the next look, and a drone may die: so they are on disk, where no command writes.
"""

import json
import logging
import os
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from gadget_drone.disk.durable import read_regular, replace_file
from gadget_drone.disk.links import GONE, PATH_MAX, exists_without_links, is_git_directory, let_in
from gadget_drone.sandbox.machine import is_in, make_own
from gadget_drone.sandbox.nested import git_directories
from gadget_drone.sandbox.planted import made_harmless, set_aside
from gadget_drone.sandbox.repositories import mend_common, remove_links

log = logging.getLogger(__name__)

_NAME = "git-directories.json"
_MAX_KNOWN = 10_000
"""Of more than these in a project, those that are gone are forgotten."""
_MAX_NOTES = 20
_MAX_MOUNTED_BYTES = PATH_MAX - 96
"""Of a path that is mounted: bubblewrap puts a name before it, and what git has in it has names, too."""


class KnownRepositories:
    """Of the workspace `workspace_dir`. Its file is an object: a project's directory, and the git directories in it."""

    def __init__(self, workspace_dir: Path) -> None:
        self._file = workspace_dir / ".gadget" / _NAME
        self._known: dict[str, dict[str, None]] | None = None
        self._open: set[str] = set()
        """The projects in which a command may have made a repository that was not looked at yet."""
        self._notes: list[str] = []

    def add(self, project_dir: Path, found: Iterable[str]) -> list[str]:
        """Adds the git directories `found`, and its own, to those of the project, where a command is going to start.
        Answers what the sandbox has to keep as it is of those that are there, without the project's own.

        What nobody looked at since commands ran may be theirs, and is made harmless. Raises OSError when the disk does
        not take them.
        """
        known = self._load().get(str(project_dir))
        own = f"{project_dir}/.git"
        found = (*found, own) if exists_without_links(own) else found
        new = dict.fromkeys(path for path in found if known is None or path not in known)
        if known is not None and str(project_dir) in self._open:
            self._notes += _made_harmless(new, project_dir, known)
        self._open.add(str(project_dir))
        if known is None or new:
            known = {**(known or {}), **new}
            if len(known) > _MAX_KNOWN:
                known = {path: None for path in known if exists_without_links(path)}
            changed = self._load() | {str(project_dir): known}
            make_own(str(self._file.parent))
            content = json.dumps({project: list(paths) for project, paths in changed.items()})
            replace_file(self._file, content.encode(), is_synced=False)  # a power cut ends the commands, too
            self._known = changed
        return list(dict.fromkeys(_mountable(path) for path in known if path != own and exists_without_links(path)))

    def mend(self, project_dir: Path) -> list[str]:
        """As `mended`, for all that is known of the project."""
        return mended(project_dir, self._load().get(str(project_dir), ()))

    def look_back(self, project_dir: Path, *, nothing_runs: bool) -> list[str]:
        """As `mend`, and makes the repositories harmless that commands have made since the turn began. Blocks.

        Those made after this count as the user's when `nothing_runs` any more.
        """
        if str(project_dir) not in self._open:
            return []
        if nothing_runs:
            self._open.discard(str(project_dir))  # first, for a command may start meanwhile
        known = self._load().get(str(project_dir), {})
        notes, self._notes = self._notes, []
        notes += mended(project_dir, known, objects=True)
        try:
            found = [*git_directories(os.path.realpath(project_dir)), f"{project_dir}/.git"]
        except OSError as error:
            return [*notes, f"new git repositories in {project_dir} cannot be looked for: {error.strerror}"]
        notes += _made_harmless((path for path in found if path not in known), project_dir, known)
        return _as_text(notes)

    def mend_all(self) -> None:
        """What commands left when a drone was killed. Blocks."""
        for project in self._load():
            for note in self.mend(Path(project)):
                log.warning("%s", note)

    def _load(self) -> dict[str, dict[str, None]]:
        """A repository may bring the file: what lies outside of its project, or of the workspace, does not count."""
        if self._known is None:
            workspace = str(self._file.parent.parent)
            try:
                read = json.loads(read_regular(self._file))
                self._known = {
                    project: {path: None for path in paths if _is_below(path, project)}
                    for project, paths in read.items()
                    if _is_below(project, workspace)
                }
            except FileNotFoundError:
                self._known = {}
            except (OSError, ValueError, AttributeError, TypeError, RecursionError):
                log.warning("%s was damaged: git directories that were seen before are looked for anew", self._file)
                self._known = {}
        return self._known


def _is_below(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or in it, by its name alone. Raises TypeError for anything but text."""
    return os.path.normpath(path) == path and is_in(path, directory)


def _mountable(path: str) -> str:
    """The path, or the first directory above it that is short enough for a mount: nothing in that can be changed."""
    while len(os.fsencode(path)) > _MAX_MOUNTED_BYTES:
        path = os.path.dirname(path)
    return path


def _made_harmless(new: Iterable[str], project_dir: Path, known: Container[str]) -> list[str]:
    notes = []
    for git in new:
        try:
            notes += made_harmless(git, str(project_dir), known)
        except OSError as error:
            notes.append(f"a command has made {git}, and git may run what it names: {error.strerror}")
    return notes


def mended(project_dir: Path, nested: Iterable[str] = (), *, objects: bool = False) -> list[str]:
    """Takes out of a project's repositories what a command may have left for a git outside. Answers what it was, in
    sentences for the model. Blocks."""
    own = f"{project_dir}/.git"
    notes = []
    let_in(str(project_dir), own)
    if is_git_directory(str(project_dir)):
        with suppress(OSError):
            notes.append(set_aside(str(project_dir), "HEAD", "git would take the project itself for a git directory"))
    if os.path.isdir(own) and not os.path.islink(own):
        lost = [name for name in ("HEAD", "objects", "refs") if not os.path.lexists(f"{own}/{name}")]
        notes += [f"{own}/{name} is missing: git does not work here, and may take another repository" for name in lost]
    for git in dict.fromkeys((own, *nested)):
        try:
            let_in(str(project_dir), git)
            if git == own and mend_common(own):
                notes.append(f"{own}/commondir was removed: git would not work with it")
            notes += [
                f"{path} was removed: git would write through it, or wait for it"
                for path in remove_links(git, objects=objects)
            ]
        except OSError as error:
            if error.errno not in GONE:
                notes.append(f"git may not work with {git}: {error.strerror}")
    return _as_text(notes)


def _as_text(notes: Sequence[str]) -> list[str]:
    """The first notes; a file name that is not UTF-8 has marks in it."""
    return [os.fsencode(note).decode("utf-8", "replace") for note in notes[:_MAX_NOTES]]
