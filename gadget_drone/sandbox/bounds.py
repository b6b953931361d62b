"""What the policy lets a project's commands do, and the end of those that were started when it let them do more."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from gadget_drone.processes.supervised import Supervised

STRICTER = "the rules became stricter than those that it, or a command beside it, was started under; start it again"


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
    """What runs in the sandbox in a project, of all its sessions: jobs, and what commands have left in the background.

    One process can hand another what it has opened, a file or a connection, by a socket in the project, the home or
    /tmp. So all that runs may do what any may that ran beside it, and ends with it.
    """

    def __init__(self) -> None:
        self._running: set[Supervised] = set()
        self._bounds: set[Bounds] = set()
        """Those of all that was started since nothing ran."""

    def add(self, running: Supervised, bounds: Bounds) -> None:
        """`bounds`: those that it was started under."""
        self._forget_what_is_over()
        self._running.add(running)
        self._bounds.add(bounds)

    def hold_to(self, bounds: Bounds) -> None:
        """Where anything was started under looser bounds, ends all, without waiting."""
        if not all(its.hold(bounds) for its in self._bounds):
            for running in self._running:
                running.end(STRICTER)

    async def is_held_to(self, bounds: Bounds) -> bool:
        """As `hold_to`, and waits for the end, 4 seconds at most; false when something cannot be ended."""
        self.hold_to(bounds)
        if not all(its.hold(bounds) for its in self._bounds):
            await asyncio.gather(*(running.kill() for running in self._running))
            self._forget_what_is_over()
        return all(its.hold(bounds) for its in self._bounds)

    def _forget_what_is_over(self) -> None:
        self._running = {running for running in self._running if not running.is_over}
        if not self._running:
            self._bounds.clear()
