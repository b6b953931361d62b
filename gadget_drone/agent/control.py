"""What reaches a running turn from outside: the user's cancel and steering, and the drone's own stop."""

from collections.abc import Collection, Iterable

from gadget_api.turns import MAX_STEERS, Steer


class Stopping(Exception):
    """The drone stops: the turn is left as it is, to be gone on with when a drone starts here again."""


class Control:
    """`steers` wait for the first step; those whose id is in `steered` were before the model already."""

    def __init__(self, steers: Iterable[Steer] = (), *, steered: Collection[str] = ()) -> None:
        self.is_cancelled = False
        self.is_stopping = False
        self.is_working = False
        """Whether the work has begun: a task that is cancelled before would end without a word."""
        self._waiting: list[Steer] = []
        self._seen = set(steered)
        for steer in steers:
            self._take(steer)

    def steer(self, steer: Steer) -> bool:
        """Takes a message for the next step; the same id again changes nothing. False: too many wait already."""
        if steer.steer_id not in self._seen and len(self._waiting) >= MAX_STEERS:
            return False
        self._take(steer)
        return True

    def take_steers(self) -> list[Steer]:
        """The messages that wait, in the order they came."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def check(self) -> None:
        """Between two steps. Raises Stopping."""
        if self.is_stopping:
            raise Stopping

    def _take(self, steer: Steer) -> None:
        if steer.steer_id not in self._seen:
            self._seen.add(steer.steer_id)
            self._waiting.append(steer)
