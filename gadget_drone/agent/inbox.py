"""What reaches one agent while it runs: messages for its next step, its cancel, and the drone's stop."""

from collections.abc import Collection, Iterable

from gadget_api.turns import MAX_STEERS, Steer


class Stopping(Exception):
    """The drone stops. The turn stays as it is; the next drone that starts here resumes it."""


class Inbox:
    """`steers` wait for the first step, except those in `steered`: the agent has read these before."""

    def __init__(self, steers: Iterable[Steer] = (), *, steered: Collection[str] = ()) -> None:
        self.is_cancelled = False
        self.is_stopping = False
        self._waiting: list[Steer] = []
        self._seen = set(steered)
        for steer in steers:
            self._take(steer)

    def put(self, steer: Steer) -> bool:
        """Takes a message for the next step. The same id again changes nothing. False: too many wait already."""
        if steer.steer_id not in self._seen and len(self._waiting) >= MAX_STEERS:
            return False
        self._take(steer)
        return True

    def take(self) -> list[Steer]:
        """The messages that wait, in the order in which they came."""
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
