"""What a turn is worked with, put together from what the drone has."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from gadget_api.model import utc_now
from gadget_api.work_order import WorkOrder
from gadget_api.workspace_files import WorkspaceProject
from gadget_drone.agent.calls import Keep
from gadget_drone.agent.resumption import Resumption
from gadget_drone.agent.sessions import SessionStates
from gadget_drone.agent.turn import TurnPlan
from gadget_drone.agent.workshop import Site
from gadget_drone.images import Images
from gadget_drone.sandbox.standing import Standing
from gadget_drone.settings import DroneSettings
from gadget_drone.supervised import Supervisor
from gadget_drone.tools.tool import Tool
from gadget_drone.uploads import Uploads
from gadget_drone.workspace import Workspace


@dataclass(frozen=True)
class Plans:
    settings: DroneSettings
    workspace: Workspace
    supervisor: Supervisor
    sandbox: Standing | None
    states: SessionStates
    third_party: Sequence[Tool]
    uploads: Uploads
    images: Images

    async def of(self, order: WorkOrder, received_at: datetime, resumption: Resumption | None) -> TurnPlan:
        def on_cloned() -> None:
            now = utc_now()
            others = [p for p in self.workspace.file.projects if p.id != order.project.id]
            here = WorkspaceProject(
                id=order.project.id,
                slug=order.project.slug,
                git_url=order.project.git_url,
                cloned_at=now,
                last_sync_at=now,
            )
            self.workspace.update(projects=(*others, here))

        site = partial(
            Site,
            spool_dir=self.workspace.blobs_dir,
            supervisor=self.supervisor,
            sandbox=self.sandbox,
            state=await self.states.of(order.session.id),
            third_party=self.third_party,
            allow_private=self.settings.allow_private_urls,
            keep=Keep(
                blob=lambda spool: self.uploads.keep(order.turn.id, spool),
                image=partial(self.images.keep, order.turn.user.id),
            ),
        )
        return TurnPlan(
            order=order,
            received_at=received_at,
            workspace=self.workspace,
            allow_local_git=self.settings.allow_local_git,
            resumption=resumption,
            site=site,
            on_cloned=on_cloned,
        )
