"""What the policy lets a session's commands do, and the end of those that were started when it let them do more."""

from collections.abc import Iterable
from dataclasses import dataclass

from gadget_drone.supervised import Supervised

STRICTER = "the rules became stricter than the sandbox that it was started in; start it again"


@dataclass(frozen=True)
class Bounds:
    """`hidden` and `read_only` are patterns of denying rules, as .gitignore has them."""

    network: bool
    hidden: frozenset[str]
    read_only: frozenset[str]

    @classmethod
    def of(cls, *, network: bool, hidden: Iterable[str], read_only: Iterable[str]) -> "Bounds":
        return cls(network, frozenset(hidden), frozenset(read_only))

    def hold(self, other: "Bounds") -> bool:
        """Whether these allow nothing that `other` does not."""
        return (
            self.network <= other.network
            and self.hidden >= other.hidden
            and self.hidden | self.read_only >= other.read_only
        )


class Confined:
    """What runs of a session in the sandbox: jobs, and what commands have left in the background."""

    def __init__(self) -> None:
        self._running: dict[Supervised, Bounds] = {}

    def add(self, running: Supervised, bounds: Bounds) -> None:
        """`bounds`: those that it was started under."""
        self._running = {one: its for one, its in self._running.items() if not one.is_over}
        self._running[running] = bounds

    def hold_to(self, bounds: Bounds) -> None:
        """Ends what was started under looser bounds, without waiting."""
        for running, its in self._running.items():
            if not its.hold(bounds):
                running.end(STRICTER)
