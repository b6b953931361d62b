"""Finding files by a few letters of their paths."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from gadget_api.events import MAX_EVENT_BYTES
from gadget_api.files import FoundFiles
from gadget_drone.errors import ToolError
from gadget_drone.files.places import wire_size
from gadget_drone.files.scoring import best
from gadget_drone.processes.ripgrep import VISIBLE, ripgrep

_MAX_PATHS = 100_000
_KEPT_S = 5.0
"""How long a list of paths counts: as long as one types."""


@dataclass(frozen=True)
class _Paths:
    root: Path
    at: float
    paths: tuple[str, ...]
    truncated: bool


class Finder:
    """Keeps the paths of one project, the last that was asked about."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._kept: _Paths | None = None

    async def find(self, root: Path, query: str, limit: int) -> FoundFiles:
        """What fits `query` best of the files that git does not ignore. Raises ToolError."""
        async with self._lock:  # whoever types asks again before the first list is made
            kept = self._kept
            if kept is None or kept.root != root or asyncio.get_running_loop().time() > kept.at + _KEPT_S:
                kept = self._kept = await _paths_of(root)
        paths, more = await asyncio.to_thread(best, kept.paths, query, limit)
        fitting = list(takewhile(lambda sized: sized[0] <= MAX_EVENT_BYTES - 10_000, _sized(paths)))
        truncated = more or kept.truncated or len(fitting) < len(paths)
        return FoundFiles(paths=tuple(path for _, path in fitting), truncated=truncated)

    def forget(self) -> None:
        """Files came or went."""
        self._kept = None


def _sized(paths: list[str]) -> Iterator[tuple[int, str]]:
    """Each with the size of the answer up to it."""
    size = 0
    for path in paths:
        size += wire_size(path) + 1
        yield size, path


async def _paths_of(root: Path) -> _Paths:
    paths: list[str] = []

    def take(path: str) -> bool:
        if "�" not in path:  # no path of the wire names a file whose name is not UTF-8
            paths.append(path)
        return len(paths) < _MAX_PATHS

    try:
        complete = (await ripgrep(["--files", "--null", *VISIBLE], root, separator=b"\0", take=take)).complete
    except ToolError:
        if not paths:
            raise
        complete = False  # it took too long: what was found until then
    return _Paths(root, asyncio.get_running_loop().time(), tuple(paths), truncated=not complete)
