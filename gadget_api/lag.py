"""Measures the lag of an event loop, in both processes, all the time.

Code that blocks the loop (a large file, a large JSON, git) delays everything else on it: the socket's pings and other
users' turns. A tick every 100 ms measures the delay, and a sleeping thread records the stack of the code that blocks.
On a busy machine a tick is also late because other processes run; on Linux the monitor subtracts that time.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from sys import _current_frames
from types import FrameType

from gadget_api.drones import LoopLag

log = logging.getLogger(__name__)

TICK_S = 0.1
BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
LATE_S = 0.05
"""The longest time that our code may block the loop."""
BLOCKED_S = 0.25
"""A longer block is logged, because a person notices it."""
_WARN_EVERY_S = 60.0
_FRAMES = 8


class LagMonitor:
    """Monitors the loop that `measure` runs on. `max_s`, `blocked_s`, `sum_s` and `counts` cover all ticks so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_s = 0.0
        self.blocked_s = 0.0
        """The longest lag that the process itself caused, without the time in which the machine ran other processes.
        Only Linux reports that time; elsewhere this equals `max_s`."""
        self.sum_s = 0.0
        self.counts = [0] * (len(BUCKETS_S) + 1)
        """Number of ticks per bucket: BUCKETS_S are the upper bounds; the last bucket is for longer lags."""
        self._clock = clock
        self._due_s = 0.0
        self._blocker: tuple[float, str] | None = None
        """The due time of the overdue tick, and the stack of the code that blocks it."""
        self._warned_s: float | None = None
        self._suppressed = 0

    async def measure(self) -> None:
        """Runs until it is cancelled."""
        stopped = threading.Event()
        self._due_s = self._clock() + TICK_S
        watcher = threading.Thread(
            target=self._watch, args=(threading.get_ident(), stopped), name="event loop lag", daemon=True
        )
        watcher.start()
        try:
            with _run_queue_wait() as waited_s:
                while True:
                    self._due_s = due_s = self._clock() + TICK_S
                    others_s, used_s = waited_s(), time.thread_time()
                    await asyncio.sleep(TICK_S)
                    lag_s = max(0.0, self._clock() - due_s)
                    own_s = max(0.0, lag_s - (waited_s() - others_s))
                    self.record(lag_s, own_s)
                    if own_s >= BLOCKED_S:
                        self._warn(own_s, time.thread_time() - used_s, due_s)
        finally:
            stopped.set()

    def record(self, lag_s: float, own_s: float | None = None) -> None:
        """Records one tick; `own_s` is the part of the lag that the process itself caused, None: all of it."""
        self.max_s = max(self.max_s, lag_s)
        self.blocked_s = max(self.blocked_s, lag_s if own_s is None else own_s)
        self.sum_s += lag_s
        self.counts[next((n for n, most in enumerate(BUCKETS_S) if lag_s <= most), len(BUCKETS_S))] += 1

    @property
    def summary(self) -> LoopLag:
        return LoopLag(
            max_ms=round(self.max_s * 1000),
            blocked_ms=round(self.blocked_s * 1000),
            over_50_ms=sum(self.counts[BUCKETS_S.index(LATE_S) + 1 :]),
            over_250_ms=sum(self.counts[BUCKETS_S.index(BLOCKED_S) + 1 :]),
        )

    def _watch(self, thread: int, stopped: threading.Event) -> None:
        """Records the stack of the loop's thread when a tick is overdue. Wakes at most four times a second."""
        while not stopped.wait(max(self._due_s + BLOCKED_S - self._clock(), 0.01)):
            due_s = self._due_s
            if self._clock() - due_s < BLOCKED_S or (self._blocker is not None and self._blocker[0] == due_s):
                continue
            frame = _current_frames().get(thread)
            if frame is not None:
                self._blocker = (due_s, _stack_of(frame))

    def _warn(self, blocked_s: float, used_s: float, due_s: float) -> None:
        now_s = self._clock()
        if self._warned_s is not None and now_s - self._warned_s < _WARN_EVERY_S:
            self._suppressed += 1
            return
        more = f" ({self._suppressed} more times since the last such line)" if self._suppressed else ""
        blocker = self._blocker[1] if self._blocker is not None and self._blocker[0] == due_s else "unknown code"
        log.warning(
            "the event loop was blocked for %.2f s, and its thread used %.2f s of CPU: %s%s",
            blocked_s,
            used_s,
            blocker,
            more,
        )
        self._warned_s, self._suppressed = now_s, 0


@contextmanager
def _run_queue_wait() -> Iterator[Callable[[], float]]:
    """Returns a function that reads the total seconds in which this thread was ready but other threads ran. It returns
    0 on systems without `schedstat`."""
    try:
        fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(fd, 100, 0).split()[1]) / 1e9
    finally:
        os.close(fd)


def _stack_of(frame: FrameType) -> str:
    """Returns the stack of a thread, outermost call first: names and line numbers, without values."""
    places: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(places) < _FRAMES:
        path = PurePath(at.f_code.co_filename)
        places.append(f"{'/'.join(path.parts[-2:])}:{at.f_lineno} {at.f_code.co_name}")
        at = at.f_back
    return " > ".join(reversed(places))
