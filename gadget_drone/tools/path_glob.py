"""Patterns of paths: `**/*.py`, `src/*.{ts,tsx}`.

Not ripgrep's own `--glob`: a glob that names a file would undo .gitignore for it. Matching takes time in proportion to
pattern times path, whatever the pattern: segments become expressions that do not go back (`fnmatch.translate`).
"""

import fnmatch
import re
from collections.abc import Callable, Sequence

_MAX_ALTERNATIVES = 100
_MAX_SEGMENTS = 50
_INNERMOST = re.compile(r"\{([^{}]*)\}")

Segment = Callable[[str], object] | None
"""Whether a name fits; None for `**`: any number of directories."""


class PathGlob:
    """`*`, `?` and `[a-z]` within a name, `**` across directories, `{a,b}` for alternatives. Without a slash it fits
    names in every directory."""

    def __init__(self, pattern: str) -> None:
        """Raises ValueError when it is too much."""
        self._alternatives = [_segments(alternative) for alternative in _expanded(pattern)]

    def fits(self, path: str) -> bool:
        """Of a path with slashes, relative to where the pattern begins."""
        names = path.split("/")
        return any(_fits(segments, names) for segments in self._alternatives)


def _expanded(pattern: str) -> list[str]:
    done: list[str] = []
    open_: list[str] = [pattern]
    while open_:
        current = open_.pop()
        found = _INNERMOST.search(current)
        if found is None:
            done.append(current)
        else:
            open_ += [current[: found.start()] + part + current[found.end() :] for part in found[1].split(",")]
        if len(done) + len(open_) > _MAX_ALTERNATIVES:
            raise ValueError(f"it has more than {_MAX_ALTERNATIVES} alternatives")
    return done


def _segments(pattern: str) -> list[Segment]:
    pattern = pattern.removeprefix("./")
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    names = [name for name in pattern.split("/") if name]
    if not names or pattern.endswith("/"):
        names.append("**")
    if len(names) > _MAX_SEGMENTS:
        raise ValueError(f"it is more than {_MAX_SEGMENTS} directories deep")
    # A file is at the end: `src/**` is every one below.
    if names[-1] == "**":
        names.append("*")
    return [None if name == "**" else re.compile(fnmatch.translate(name)).match for name in names]


def _fits(segments: Sequence[Segment], names: Sequence[str]) -> bool:
    # reached[n]: what was looked at so far of the pattern fits the first n names.
    reached = [True, *(False for _ in names)]
    for segment in segments:
        if segment is None:
            for n in range(len(names)):
                reached[n + 1] |= reached[n]
        else:
            reached = [False, *(before and bool(segment(name)) for before, name in zip(reached, names, strict=False))]
    return reached[-1]
