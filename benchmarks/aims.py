"""What we aim for, as data: the table that `scripts/bench` holds every measurement against.

An aim is about a figure of ours, or about its ratio to the floor that was measured beside it in the same run. Ratios
move little from machine to machine; absolute figures do. So an absolute aim names the floor that its machine had when
it was set, where that was measured, and is held against our figure twice: as it stands, and at the speed of the machine
at hand, moved as the floor has moved.
"""

from dataclasses import dataclass, replace
from typing import Literal

Judged = Literal["ours", "ratio"]
Way = Literal["at most", "at least"]


@dataclass(frozen=True)
class Aim:
    name: str
    """Of the row that it judges."""
    row: int
    """Of the table in `TABLE`, from 0."""
    judged: Judged
    way: Way
    limit: float
    unit: str
    """Of what is measured: ms, s, us, MB, kB, /s, %, tokens, turns, x."""
    floor: float | None = None
    """The floor when the aim was set, in the same unit, by a program like that of `floors/`."""

    def is_met(self, figure: float) -> bool:
        return figure <= self.limit if self.way == "at most" else figure >= self.limit

    def here(self, floor: float | None) -> "Aim | None":
        """The aim at the speed of a machine with this floor; None where one of the two floors is not known."""
        if self.floor is None or floor is None:
            return None
        return replace(self, limit=self.limit * floor / self.floor, floor=floor)

    @property
    def sentence(self) -> str:
        sign = "<=" if self.way == "at most" else ">="
        unit = "x floor" if self.judged == "ratio" else self.unit
        limit = f"{self.limit:,.0f}" if self.limit >= 1000 else f"{self.limit:.4g}"
        return f"{sign} {limit} {unit}"


TABLE = (
    "the drone's own cost of a step: journal, ledger, emit and permission check included, 0 deltas",
    "the same with 400 deltas a step",
    "growth: steps 451-500 against 1-50; turn 1,000 of a session against turn 1",
    "prompt (socket) -> model request, through web, store and drone",
    "model delta -> watcher through drone and web, 50/s",
    "burst of 20,000 deltas, stored and relayed",
    "last model byte -> watcher sees workOrderComplete; cancel -> model connection closed, watcher told",
    "8 drones at once through one web process",
    "simultaneous streaming turns on one web process, 20 deltas/s each; memory of an idle drone and watcher",
    "stored steps/s (majority writes)",
    "open a session of 1,000 turns: first page; the same with 100,000 turns in the store",
    "replay of a turn of 10,000 events to a new watcher",
    "gadget-drone --help, gadget-code --help",
    "drone start -> available; web start -> ready with the private mongod",
    "drone memory, idle and after 500 steps; web memory, idle",
    "bytes of a request that repeat the request before it as an exact prefix",
    "system prompt and tool schemas",
    "a snapshot of a repository of 50,000 files, nothing changed",
)
"""The rows of the aims, in words."""

AIMS = (
    Aim("step", 0, "ratio", "at most", 3, "ms"),
    Aim("step, below every other agent", 0, "ours", "at most", 7.3, "ms"),
    Aim("step with 400 deltas", 1, "ratio", "at most", 2, "ms"),
    Aim("growth of a step", 2, "ours", "at most", 1.3, "x"),
    Aim("growth of a turn", 2, "ours", "at most", 1.3, "x"),
    Aim("prompt -> model request", 3, "ours", "at most", 15, "ms", 0.8),
    Aim("delta -> watcher", 4, "ours", "at most", 1.5, "ms", 0.49),
    Aim("delta -> watcher, p99", 4, "ours", "at most", 5, "ms", 0.61),
    Aim("burst: deltas at the watcher", 5, "ours", "at least", 60_000, "/s", 120_000),
    Aim("burst: half of the floor", 5, "ratio", "at least", 0.5, "/s"),
    Aim("burst: CPU of a delta", 5, "ours", "at most", 20, "us"),
    Aim("last model byte -> end at the watcher", 6, "ours", "at most", 8, "ms", 0.4),
    Aim("cancel -> model connection closed", 6, "ours", "at most", 10, "ms", 1.6),
    Aim("cancel -> watcher told", 6, "ours", "at most", 20, "ms", 1.7),
    Aim("8 drones: steps", 7, "ours", "at least", 250, "/s", 823),
    Aim("streaming turns", 8, "ours", "at least", 500, "turns", 800),
    Aim("memory of an idle drone and watcher", 8, "ours", "at most", 150, "kB"),
    Aim("stored steps", 9, "ratio", "at least", 0.5, "/s"),
    Aim("open a session of 1,000 turns", 10, "ours", "at most", 50, "ms"),
    Aim("open it with 100,000 turns in the store", 10, "ours", "at most", 50, "ms"),
    Aim("replay of 10,000 events", 11, "ours", "at most", 1, "s"),
    Aim("gadget-drone --help", 12, "ratio", "at most", 5, "ms"),
    Aim("gadget-code --help", 12, "ratio", "at most", 5, "ms"),
    Aim("drone start -> available", 13, "ours", "at most", 1, "s"),
    Aim("web start -> ready", 13, "ours", "at most", 2.5, "s"),
    Aim("drone memory, idle", 14, "ours", "at most", 60, "MB"),
    Aim("drone memory, after 500 steps", 14, "ours", "at most", 90, "MB"),
    Aim("web memory, idle", 14, "ours", "at most", 110, "MB"),
    Aim("repeated prefix of a request", 15, "ours", "at least", 100, "%"),
    Aim("system prompt and tool schemas", 16, "ours", "at most", 6_000, "tokens"),
    Aim("snapshot, nothing changed", 17, "ratio", "at most", 1.5, "ms"),
)
BY_NAME = {aim.name: aim for aim in AIMS}
