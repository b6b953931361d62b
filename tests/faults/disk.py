"""A small disk of a test's own, that can be full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SIZE = "24m"
_UNMOUNT_S = 20


class Disk:
    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self) -> None:
        """Not a byte is left."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                while _takes(file.fileno(), size):
                    pass

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


def _takes(fd: int, size: int) -> bool:
    try:
        return os.write(fd, b"\x00" * size) == size
    except OSError:
        return False


@contextmanager
def small_disk(place: Path) -> Iterator[Disk]:
    """A tmpfs at `place`. Skips where nobody may mount one; in CI that is a failure."""
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        reason = f"a full disk needs a tmpfs, and mount says: {mounted.stderr.strip()}; run this as root"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield Disk(place)
    finally:
        # Lazily: a process that is just ending may still stand in it.
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=_UNMOUNT_S)
