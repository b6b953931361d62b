"""How a turn goes on that had begun before."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Resumption:
    started_before: frozenset[str] | None
    """Tool calls that had started and are not known to have ended; None: any that is open may have."""
    level: Literal["info", "warning"]
    message: str
    """What the user is told, first of all."""


def resumed(started_before: frozenset[str] | None) -> Resumption:
    """By its own journal."""
    return Resumption(
        started_before,
        "info",
        "The drone came back and goes on from the last step; what was being said when it went is begun again.",
    )


def rebuilt() -> Resumption:
    """Without its journal, which cannot be used."""
    return Resumption(
        None,
        "warning",
        "The drone came back, and its journal of this turn could not be used. It goes on from the last step that the "
        "server has; what came after that is done again.",
    )


def taken_over() -> Resumption:
    """By a drone that knows nothing of it yet."""
    return Resumption(
        None, "info", "This drone goes on from the last step; what was being said when the other went is begun again."
    )
