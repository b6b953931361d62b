"""What the drone says of itself: to the server, and in `workspace.json` for people to look at."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from gadget_api import commands as c
from gadget_api.drones import DroneStatus
from gadget_api.errors import GadgetError
from gadget_api.lag import LagMonitor
from gadget_api.model import WireModel
from gadget_api.workspace import WorkspaceMode
from gadget_drone.workspace.occupancy import Occupancy
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)


@dataclass
class Presence:
    workspace: Workspace
    occupancy: Occupancy
    lag: LagMonitor
    call: Callable[[str, WireModel], Awaitable[None]]
    """The link's: raises GadgetError."""
    status: DroneStatus = DroneStatus.STARTING

    async def report(self, status: DroneStatus) -> None:
        """Raises GadgetError."""
        self.status = status
        projects = tuple(project.id for project in self.workspace.file.projects)
        lag = self.lag.summary
        self.workspace.note_lag(lag)
        said = c.ReportStatus(status=status, projects=projects, loop_lag=lag)
        # The server does not wait for the disk.
        await asyncio.gather(self.call("droneStatus", said), asyncio.to_thread(self.save))

    def save(self) -> None:
        """Writes down what we do now and for whom, where it is news. Blocks; in any thread."""
        registration = self.workspace.file.registration
        if registration is not None:
            registration = registration.replace(status=self.status)
        with suppress(OSError):  # for people to look at; nothing depends on it
            self.workspace.update(
                registration=registration, chat_session=self.occupancy.session, locked_project=self.occupancy.project
            )

    async def enter_mode(self, mode: WorkspaceMode) -> None:
        self.occupancy.mode = mode
        try:
            await self.call("requestWorkspaceMode", c.DroneWorkspaceMode(mode=mode))
        except GadgetError as exc:
            log.info("the server does not know yet that the workspace is in mode %s: %s", mode, exc.message)
