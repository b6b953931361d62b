"""What a drone keeps of a session between its turns, beside its history: which files the model has seen, and the
commands it left running. Gone with the process."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path

from gadget_drone.editing.seen import SeenFiles
from gadget_drone.jobs.jobs import Jobs
from gadget_drone.sandbox.bounds import Confined

_MAX_SESSIONS = 4


@dataclass(frozen=True)
class SessionState:
    seen: SeenFiles
    jobs: Jobs
    confined: Confined
    """That of its project."""


class SessionStates:
    def __init__(self) -> None:
        self._states: OrderedDict[tuple[str, Path], SessionState] = OrderedDict()
        self._confined: defaultdict[Path, Confined] = defaultdict(Confined)

    async def of(self, session: str, project_dir: Path) -> SessionState:
        """The session that was not used for longest is forgotten past four, and what it left running is ended."""
        key = session, project_dir
        state = self._states.pop(key, None) or SessionState(SeenFiles(), Jobs(), self._confined[project_dir])
        self._states[key] = state
        while len(self._states) > _MAX_SESSIONS:
            _, forgotten = self._states.popitem(last=False)
            await forgotten.jobs.close()
        return state

    async def close(self) -> None:
        for state in self._states.values():
            await state.jobs.close()
        self._states.clear()
