"""The git directories that were ever seen in the projects of a workspace, and what is taken out of them.

A command may hide one from the next look, and a drone may die: so they are on disk, where no command writes.
"""

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from gadget_drone.disk.durable import replace_file
from gadget_drone.disk.links import GONE, PATH_MAX, exists_without_links, let_in
from gadget_drone.sandbox.machine import make_own
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

    def add(self, project_dir: Path, found: Iterable[str]) -> list[str]:
        """Adds the git directories `found` to those of the project. Answers what of
        them the sandbox has to keep as it is now. Raises OSError
        when the disk does not take them."""
        known = self._load().get(str(project_dir))
        new = dict.fromkeys(path for path in found if known is None or path not in known)
        if known is None or new:
            known = {**(known or {}), **new}
            if len(known) > _MAX_KNOWN:
                known = {path: None for path in known if exists_without_links(path)}
            changed = self._load() | {str(project_dir): known}
            make_own(str(self._file.parent))
            content = json.dumps({project: list(paths) for project, paths in changed.items()})
            replace_file(self._file, content.encode(), is_synced=False)  # a power cut ends the commands, too
            self._known = changed
        return list(dict.fromkeys(_mountable(path) for path in known if exists_without_links(path)))

    def mend(self, project_dir: Path) -> list[str]:
        """As `mended`, for all that is known of the project."""
        return mended(project_dir, self._load().get(str(project_dir), ()))

    def mend_all(self) -> None:
        """What commands left when a drone was killed. Blocks."""
        for project in self._load():
            for note in self.mend(Path(project)):
                log.warning("%s", note)

    def _load(self) -> dict[str, dict[str, None]]:
        if self._known is None:
            try:
                read = json.loads(self._file.read_bytes())
                self._known = {str(project): dict.fromkeys(map(str, paths)) for project, paths in read.items()}
            except FileNotFoundError:
                self._known = {}
            except (ValueError, AttributeError, TypeError):
                log.warning("%s was damaged: git directories that were seen before are looked for anew", self._file)
                self._known = {}
        return self._known


def _mountable(path: str) -> str:
    """The path, or the first directory above it that is short enough for a mount: nothing in that can be changed."""
    while len(os.fsencode(path)) > _MAX_MOUNTED_BYTES:
        path = os.path.dirname(path)
    return path


def mended(project_dir: Path, nested: Iterable[str] = ()) -> list[str]:
    """Takes out of a project's repositories what a command may have left for a git outside. Answers what it was, in
    sentences for the model. Blocks."""
    own = f"{project_dir}/.git"
    notes = []
    for git in (own, *nested):
        try:
            let_in(str(project_dir), git)
            if git == own and mend_common(own):
                notes.append(f"{own}/commondir was removed: git would not work with it")
            notes += [f"{path} was removed: git would write through it, or wait for it" for path in remove_links(git)]
        except OSError as error:
            if error.errno not in GONE:
                notes.append(f"git may not work with {git}: {error.strerror}")
    return notes[:_MAX_NOTES]
