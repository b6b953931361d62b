"""What the patterns of denying and asking rules cover. Every door asks this, so that all of them mean the same files.

A pattern covers the file or the directory that it fits, and all that is below. `secrets`, `secrets/` and `secrets/**`
cover the directory itself, too. Letter case does not count, for there are file systems on which it does not.
"""

import fnmatch
import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from gadget_drone.permissions.patterns import path_fits, path_might_fit
from gadget_drone.sandbox.links import let_in

MAX_PLACES = 2000
"""bubblewrap takes 9,000 arguments, three of them for a path that it hides."""
_EVERYTHING = frozenset({"*", "**", "/**"})
_PLAIN_NAME = re.compile(r"[^~/\[\]\\!][^/\[\]\\!]*/*")
_NOT_LOOKED_INTO = frozenset({".git", ".gadget"})
"""At the top of the project: the sandbox treats them by itself."""


class TooManyPlaces(ValueError):
    """More than MAX_PLACES files are covered."""


class Covered:
    """`patterns` are those of rules. Paths are relative to the project, without a slash at the end."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._is_all = any(pattern in _EVERYTHING for pattern in self._patterns)
        # Nearly all patterns are one name for any directory: all of these become one expression, for speed alone.
        names = [pattern for pattern in self._patterns if _is_name(pattern)]
        self._others = tuple(pattern for pattern in self._patterns if pattern not in names)
        self._name = re.compile("|".join(fnmatch.translate(_folded(name.rstrip("/"))) for name in names) or r"(?!)")
        self._known: dict[str, bool] = {}

    def covers(self, path: str) -> bool:
        """Whether a pattern fits `path`, or a directory that it is in."""
        return self.top(path) is not None

    def top(self, path: str) -> str | None:
        """The topmost of `path` and the directories that it is in that a pattern fits."""
        at = path.find("/")
        while at >= 0:
            if self._fits(path[:at]):
                return path[:at]
            at = path.find("/", at + 1)
        return path if self._fits(path) else None

    def without(self, path: str) -> "Covered":
        """Of a call that was judged by `path`: the patterns that do not cover it already."""
        return Covered(pattern for pattern in self._patterns if not path_fits(pattern, path, wide=True))

    def places(self, root: Path) -> list[Path]:
        """The files and directories below `root` that are covered, of each tree the topmost. A link stands for what it
        points at. Blocks. Raises TooManyPlaces."""
        found: dict[Path, None] = {}
        waiting = [""] if self._patterns else []
        real_root = os.path.realpath(root)
        while waiting:
            directory = waiting.pop()
            place = f"{real_root}/{directory}" if directory else real_root
            try:
                entries = _listed(place, real_root)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                path = f"{directory}/{entry.name}" if directory else entry.name
                if path in _NOT_LOOKED_INTO:
                    continue
                if self._fits(path):
                    real = os.path.realpath(entry.path)
                    if real.startswith(f"{real_root}/"):
                        found[Path(real)] = None
                elif entry.is_dir(follow_symlinks=False) and self._may_cover_below(path):
                    waiting.append(path)
            if len(found) > MAX_PLACES:
                raise TooManyPlaces
        return list(found)

    def _fits(self, path: str) -> bool:
        known = self._known.get(path)
        if known is None:
            name = path.rpartition("/")[2]
            known = self._is_all or self._name.match(_folded(name)) is not None
            known = known or any(path_fits(pattern, path, wide=True) for pattern in self._others)
            self._known[path] = known
        return known

    def _may_cover_below(self, directory: str) -> bool:
        return len(self._others) < len(self._patterns) or any(
            path_might_fit(pattern, f"{directory}/", is_glob=False) for pattern in self._others
        )


def _listed(place: str, root: str) -> list[os.DirEntry[str]]:
    """Raises OSError."""
    try:
        found = os.scandir(place)
    except PermissionError:  # a command has closed it, and can open it again
        let_in(root, place)
        found = os.scandir(place)
    return sorted(found, key=lambda entry: entry.name)


def _is_name(pattern: str) -> bool:
    return _PLAIN_NAME.fullmatch(pattern) is not None


def _folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()
