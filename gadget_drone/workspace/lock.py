"""One daemon per workspace: a lock that the kernel frees when its holder dies."""

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gadget_api.drones import LoopLag
from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.model import iso, utc_now

_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02
_MAX_BYTES = 200


@dataclass(frozen=True)
class Holder:
    """What the holder of a lock says of itself in it: lines with its process id, when it began (ISO 8601), whether it
    is connected since when, and how late its event loop was. A disk that was full has none of it."""

    pid: int | None = None
    since: str | None = None
    is_connected: bool = False
    connection_since: str | None = None
    """Since when it is connected, or not; None: it has not been yet."""
    loop_lag: LoopLag | None = None
    """None: it has not said."""


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
        holder = _holder(fd)
        os.close(fd)
        who = f"process {holder.pid}, since {holder.since}" if holder.pid else "its process is not known"
        raise GadgetError(
            ErrorCode.WORKSPACE_IN_USE,
            f"Another drone ({who}) works in {path.parent.parent}: stop it, or choose another directory with "
            "--workspace.",
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def note_connection(fd: int, *, is_connected: bool) -> None:
    """Says in the lock file whether its holder is connected, and since now. Raises OSError, ValueError."""
    state = "connected" if is_connected else "disconnected"
    _note(fd, connection=f"{state} {iso(utc_now())}")


def note_lag(fd: int, lag: LoopLag) -> None:
    """Says in the lock file how late its holder's event loop was. Raises OSError, ValueError."""
    _note(fd, lag=f"{lag.max_ms} {lag.blocked_ms} {lag.over_50_ms} {lag.over_250_ms}")


def _note(fd: int, *, connection: str | None = None, lag: str | None = None) -> None:
    pid, since, *noted = os.pread(fd, _MAX_BYTES, 0).decode("ascii", "replace").splitlines()
    was_connection, was_lag = [*noted, "", ""][:2]
    lines = (pid, since, was_connection if connection is None else connection, was_lag if lag is None else lag)
    note = "".join(f"{line}\n" for line in lines).encode()
    os.pwrite(fd, note, 0)
    os.ftruncate(fd, len(note))


def _holder(fd: int) -> Holder:
    lines = os.pread(fd, _MAX_BYTES, 0).decode("ascii", "replace").splitlines()
    if len(lines) < 2 or not lines[0].isdecimal():
        return Holder()
    state, _, since = lines[2].partition(" ") if len(lines) > 2 else ("", "", "")
    return Holder(int(lines[0]), lines[1], state == "connected", since or None, _lag(lines[3]) if lines[3:] else None)


def _lag(line: str) -> LoopLag | None:
    numbers = [int(number) for number in line.split() if number.isdecimal()]
    if len(numbers) != 4:
        return None
    most, blocked, over_50, over_250 = numbers
    return LoopLag(max_ms=most, blocked_ms=blocked, over_50_ms=over_50, over_250_ms=over_250)


def holder_of(path: Path) -> Holder | None:
    """The daemon that holds the lock; None when nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(fd)
    finally:
        os.close(fd)
    return None
