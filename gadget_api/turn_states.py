"""The states of a turn, as one table: what may follow what, who causes it, and which of them start a new epoch.

The store changes a turn's status through this table alone, and `docs/reference/turn-states.md` is drawn from it.
"""

from dataclasses import dataclass
from enum import StrEnum

from gadget_api.turns import ChatTurnStatus as Status


class Cause(StrEnum):
    USER = "user"
    WEB = "web service"
    DRONE = "drone"


@dataclass(frozen=True)
class Transition:
    name: str
    sources: tuple[Status, ...]
    targets: tuple[Status, ...]
    causes: tuple[Cause, ...]
    starts_epoch: bool
    """Whether it fences off whoever worked on the turn before: their events are refused from here on."""
    meaning: str

    @property
    def ends(self) -> bool:
        """Whether the turn is over after it: its one `workOrderComplete` is stored with it, or neither is."""
        return all(status.is_over for status in self.targets)


_OVER = tuple(status for status in Status if status.is_over)

DISPATCH = Transition(
    "dispatch",
    (Status.QUEUED,),
    (Status.PROCESSING,),
    (Cause.WEB,),
    True,
    "A drone was claimed for the turn and is offered its work order.",
)
REFUSE = Transition(
    "refuse",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.DRONE,),
    False,
    "The drone did not take the offer, or did not answer it.",
)
RECOVER = Transition(
    "recover",
    (Status.PROCESSING,),
    (Status.PROCESSING,),
    (Cause.DRONE,),
    True,
    "The drone was started again in its workspace and goes on from the last step.",
)
REQUEUE = Transition(
    "requeue",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.DRONE,),
    True,
    "The drone is back and knows nothing of the turn: its files are gone.",
)
MOVE = Transition(
    "move",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.USER,),
    True,
    "The drone is lost, and the user has the turn go on at another.",
)
COMPLETE = Transition(
    "complete",
    (Status.PROCESSING,),
    _OVER,
    (Cause.DRONE,),
    False,
    "The drone's `workOrderComplete` was stored.",
)
END = Transition(
    "end",
    (Status.QUEUED, Status.PROCESSING),
    (Status.CANCELLED, Status.ERROR),
    (Cause.USER, Cause.WEB),
    True,
    "No drone can end it: it waits, its drone is lost or does not end it, or it cannot start. "
    "The service writes the `workOrderComplete`.",
)

TRANSITIONS = (DISPATCH, REFUSE, RECOVER, REQUEUE, MOVE, COMPLETE, END)
INITIAL = Status.QUEUED
"""What a prompt that was accepted is, before anything has happened to it."""
