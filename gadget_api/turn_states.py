"""The table of a turn's states: the allowed transitions, their causes, and which of them start a new epoch.

The store changes a turn's status only by these transitions. `docs/reference/turn-states.md` is generated from them.
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
    """Whether the service refuses all later events of the drone that had the turn before."""
    meaning: str

    @property
    def ends(self) -> bool:
        """Whether the turn ends. The same transaction then stores the turn's `workOrderComplete`."""
        return all(status.is_over for status in self.targets)


_OVER = tuple(status for status in Status if status.is_over)

DISPATCH = Transition(
    "dispatch",
    (Status.QUEUED,),
    (Status.PROCESSING,),
    (Cause.WEB,),
    True,
    "The service has chosen a drone for the turn and offers it the work order.",
)
REFUSE = Transition(
    "refuse",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.DRONE,),
    False,
    "The drone refused the offer or did not reply.",
)
RECOVER = Transition(
    "recover",
    (Status.PROCESSING,),
    (Status.PROCESSING,),
    (Cause.DRONE,),
    True,
    "The drone has restarted in its workspace and resumes the turn from the last step.",
)
REQUEUE = Transition(
    "requeue",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.DRONE,),
    True,
    "The drone has reconnected without the turn's files.",
)
MOVE = Transition(
    "move",
    (Status.PROCESSING,),
    (Status.QUEUED,),
    (Cause.USER,),
    True,
    "The drone is lost, and the user continues the turn on another drone.",
)
COMPLETE = Transition(
    "complete",
    (Status.PROCESSING,),
    _OVER,
    (Cause.DRONE,),
    False,
    "The service has stored the drone's `workOrderComplete`.",
)
END = Transition(
    "end",
    (Status.QUEUED, Status.PROCESSING),
    (Status.CANCELLED, Status.ERROR),
    (Cause.USER, Cause.WEB),
    True,
    "No drone can end the turn: it is queued, its drone is lost or does not end it, or it cannot start. "
    "The service writes the `workOrderComplete`.",
)

TRANSITIONS = (DISPATCH, REFUSE, RECOVER, REQUEUE, MOVE, COMPLETE, END)
INITIAL = Status.QUEUED
"""The status of a newly accepted prompt."""
