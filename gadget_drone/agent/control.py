"""What reaches a running turn from outside: the user's cancel and steering, and the drone's own stop."""

from collections import OrderedDict

_MAX_STEERS = 100


class Stopping(Exception):
    """The drone stops: the turn is left as it is, to be gone on with when a drone starts here again."""


class Control:
    def __init__(self) -> None:
        self.is_cancelled = False
        self.is_stopping = False
        self.is_working = False
        """Whether the work has begun: a task that is cancelled before would end without a word."""
        self._steers: OrderedDict[str, str] = OrderedDict()
        self._seen: set[str] = set()

    def steer(self, steer_id: str, content: str) -> bool:
        """Takes a message for the next step; the same id again changes nothing. False: too many wait already."""
        if steer_id in self._seen:
            return True
        if len(self._steers) >= _MAX_STEERS:
            return False
        self._seen.add(steer_id)
        self._steers[steer_id] = content
        return True

    def take_steers(self) -> list[tuple[str, str]]:
        """The messages that wait, as (id, content), in the order they came."""
        waiting = list(self._steers.items())
        self._steers.clear()
        return waiting

    def check(self) -> None:
        """Between two steps. Raises Stopping."""
        if self.is_stopping:
            raise Stopping
