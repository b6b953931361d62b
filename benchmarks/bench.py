"""What a bench is, and all there are."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Row


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    quick: bool
    """Small numbers: to see that a bench runs, not what it says."""

    def of(self, quick: int, full: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Line:
    """Points to draw: a cost against something that grows."""

    chart: str
    """Lines of one chart share it: its title."""
    name: str
    x: str
    y: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Result:
    rows: Sequence[Row]
    lines: Sequence[Line] = ()


Run = Callable[[Scale], Coroutine[Any, Any, Result]]


@dataclass(frozen=True)
class Bench:
    name: str
    """As it is called on the command line."""
    says: str
    """One sentence for `--list`."""
    measures: tuple[str, ...]
    """The names of the aims that its rows are judged by."""
    run: Run
