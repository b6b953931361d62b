"""What a drone keeps of a session between its turns, beside its history: which files the model has seen, and the
commands it left running. Gone with the process."""

from collections import OrderedDict
from dataclasses import dataclass

from gadget_drone.editing.seen import SeenFiles
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.sandbox.bounds import Confined

_MAX_SESSIONS = 4


@dataclass(frozen=True)
class SessionState:
    seen: SeenFiles
    jobs: Jobs
    confined: Confined


class SessionStates:
    def __init__(self) -> None:
        self._states: OrderedDict[str, SessionState] = OrderedDict()

    async def of(self, session: str) -> SessionState:
        """The session that was not used for longest is forgotten past four, and what it left running is ended."""
        state = self._states.pop(session, None) or SessionState(SeenFiles(), Jobs(), Confined())
        self._states[session] = state
        while len(self._states) > _MAX_SESSIONS:
            _, forgotten = self._states.popitem(last=False)
            await forgotten.jobs.close()
        return state

    async def close(self) -> None:
        for state in self._states.values():
            await state.jobs.close()
        self._states.clear()
