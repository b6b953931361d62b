"""How late an event loop is: measured all the time, in both processes.

Whatever blocks a loop (a large file, a large JSON, git) delays everybody who is on it: the socket's pings, other
people's turns. A tick each 100 ms says by how much, and a thread that sleeps says what ran while a tick did not come.
On a busy machine a tick is late because others run; Linux says for how long, and that is told apart.
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

EVERY_S = 0.1
BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
LATE_S = 0.05
"""What nothing of ours shall take on the loop."""
BLOCKED_S = 0.25
"""What is worth a line in the log: a person notices it."""
_WARN_EVERY_S = 60.0
_FRAMES = 8


class Lag:
    """Of the loop that `measure` runs on. `max_s`, `blocked_s`, `sum_s` and `counts` are of every tick so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_s = 0.0
        self.blocked_s = 0.0
        """The most that a tick was late by the process's own doing: without what the machine took to run it again.
        Where the system does not say that (only Linux does), the same as `max_s`."""
        self.sum_s = 0.0
        self.counts = [0] * (len(BUCKETS_S) + 1)
        """By the first of BUCKETS_S that is not less; the last is of those above them all."""
        self._clock = clock
        self._due_s = 0.0
        self._ran: tuple[float, str] | None = None
        """The tick that did not come, and what ran instead of it."""
        self._warned_s: float | None = None
        self._unsaid = 0

    async def measure(self) -> None:
        """For as long as the process works."""
        over = threading.Event()
        self._due_s = self._clock() + EVERY_S
        watcher = threading.Thread(
            target=self._watch, args=(threading.get_ident(), over), name="event loop lag", daemon=True
        )
        watcher.start()
        try:
            with _kept_waiting() as waited_s:
                while True:
                    self._due_s = due_s = self._clock() + EVERY_S
                    others_s, used_s = waited_s(), time.thread_time()
                    await asyncio.sleep(EVERY_S)
                    lag_s = max(0.0, self._clock() - due_s)
                    own_s = max(0.0, lag_s - (waited_s() - others_s))
                    self.take(lag_s, own_s)
                    if own_s >= BLOCKED_S:
                        self._warn(own_s, time.thread_time() - used_s, due_s)
        finally:
            over.set()

    def take(self, lag_s: float, own_s: float | None = None) -> None:
        """Counts one tick; `own_s` is what the process itself did of it, None all."""
        self.max_s = max(self.max_s, lag_s)
        self.blocked_s = max(self.blocked_s, lag_s if own_s is None else own_s)
        self.sum_s += lag_s
        self.counts[next((n for n, most in enumerate(BUCKETS_S) if lag_s <= most), len(BUCKETS_S))] += 1

    @property
    def seen(self) -> LoopLag:
        return LoopLag(
            max_ms=round(self.max_s * 1000),
            blocked_ms=round(self.blocked_s * 1000),
            over_50_ms=sum(self.counts[BUCKETS_S.index(LATE_S) + 1 :]),
            over_250_ms=sum(self.counts[BUCKETS_S.index(BLOCKED_S) + 1 :]),
        )

    def _watch(self, thread: int, over: threading.Event) -> None:
        """Looks where the loop's thread is when a tick is overdue. It sleeps from one such moment to the next: four
        times a second at most."""
        while not over.wait(max(self._due_s + BLOCKED_S - self._clock(), 0.01)):
            due_s = self._due_s
            if self._clock() - due_s < BLOCKED_S or (self._ran is not None and self._ran[0] == due_s):
                continue
            frame = _current_frames().get(thread)
            if frame is not None:
                self._ran = (due_s, _where(frame))

    def _warn(self, blocked_s: float, used_s: float, due_s: float) -> None:
        now_s = self._clock()
        if self._warned_s is not None and now_s - self._warned_s < _WARN_EVERY_S:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} times more since the last such line)" if self._unsaid else ""
        ran = self._ran[1] if self._ran is not None and self._ran[0] == due_s else "nobody saw what"
        log.warning(
            "the event loop stood still for %.2f s, and its thread used %.2f s of CPU: %s%s",
            blocked_s,
            used_s,
            ran,
            more,
        )
        self._warned_s, self._unsaid = now_s, 0


@contextmanager
def _kept_waiting() -> Iterator[Callable[[], float]]:
    """Says for how many seconds in all this thread could have run while others did; 0 where the system does not say."""
    try:
        fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(fd, 100, 0).split()[1]) / 1e9
    finally:
        os.close(fd)


def _where(frame: FrameType) -> str:
    """Where a thread is, outermost first: names and lines, and no values."""
    places: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(places) < _FRAMES:
        path = PurePath(at.f_code.co_filename)
        places.append(f"{'/'.join(path.parts[-2:])}:{at.f_lineno} {at.f_code.co_name}")
        at = at.f_back
    return " > ".join(reversed(places))
