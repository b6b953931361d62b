"""One daemon per workspace: a lock that the kernel frees when its holder dies."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.model import iso, utc_now

_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02


def take_lock(path: Path) -> int:
    """The descriptor that holds the lock. Raises GadgetError `workspaceInUse`, which names the holder."""
    # Not inherited: a shell that outlives its drone must not keep the workspace locked.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for attempt in range(_LOCK_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # `holder_of` holds it for an instant.
                if attempt + 1 == _LOCK_TRIES:
                    raise
                time.sleep(_LOCK_PAUSE_S)
        with suppress(OSError):  # a full disk: it is held all the same, and nobody is told by whom
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n{iso(utc_now())}\n".encode())
    except BlockingIOError as error:
        pid, since = _holder(fd)
        os.close(fd)
        who = f"process {pid}, since {since}" if pid else "its process is not known"
        raise GadgetError(
            ErrorCode.WORKSPACE_IN_USE,
            f"Another drone ({who}) works in {path.parent.parent}: stop it, or choose another directory with "
            "--workspace.",
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _holder(fd: int) -> tuple[int | None, str | None]:
    lines = os.pread(fd, 200, 0).decode("ascii", "replace").splitlines()
    return (int(lines[0]), lines[1]) if len(lines) == 2 and lines[0].isdecimal() else (None, None)


def holder_of(path: Path) -> tuple[int | None, str | None]:
    """The process id of the daemon that holds the lock, and since when (ISO 8601); None where nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(fd)
    finally:
        os.close(fd)
    return None, None
