"""Who the workspace works for: a session's lock, the turn that runs, or a user who edits by hand."""

from contextlib import suppress

from gadget_api.commands import LockSession
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.model import utc_now
from gadget_api.work_order import WorkOrder
from gadget_api.workspace import WorkspaceMode
from gadget_api.workspace_files import LockedProject, LockedSession
from gadget_drone.workspace import Workspace


class Occupancy:
    """Kept in `workspace.json`, too: `chatSession` and `lockedProject` are those of the lock or of the running turn."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._is_locked = False
        """Whether it is a lock that holds the workspace, and not just a turn."""
        self.mode = WorkspaceMode.IDLE

    def check(self, session: str) -> None:
        """Raises Conflict unless a turn of `session` may be worked on."""
        if self.mode is WorkspaceMode.USER:
            raise Conflict(ErrorCode.WORKSPACE_BUSY, "You are editing in this workspace; hand it back first.")
        held = self._workspace.file.chat_session
        if held is not None and held.id != session:
            raise Conflict(ErrorCode.DRONE_LOCKED, f"This drone is kept for the session “{held.name}”.")

    def lock(self, ask: LockSession) -> None:
        """Keeps the workspace for one session. Raises Conflict when it is another's, OSError."""
        held = self._workspace.file.chat_session
        if held is not None and held.id != ask.chat_session_id:
            raise Conflict(ErrorCode.DRONE_LOCKED, f"This drone is kept for the session “{held.name}”.")
        self._hold(ask.chat_session_id, ask.name, ask.project_id, ask.slug, ask.git_url)
        self._is_locked = True

    def is_held_by(self, session: str) -> bool:
        held = self._workspace.file.chat_session
        return held is not None and held.id == session

    def unlock(self) -> None:
        """Frees the workspace, whoever holds it."""
        self._is_locked = False
        if self._workspace.file.chat_session is not None:
            with suppress(OSError):  # for people to look at; what counts is said by the server at each connection
                self._workspace.update(chat_session=None, locked_project=None)

    def begin(self, order: WorkOrder) -> None:
        """A turn takes the workspace, unless its session's lock has it. Raises OSError."""
        if self._workspace.file.chat_session is None:
            project = order.project
            self._hold(order.session.id, order.session.name, project.id, project.slug, project.git_url)

    def end(self) -> None:
        """The turn is over; a lock stays."""
        if not self._is_locked:
            self.unlock()

    def _hold(self, session: str, name: str, project: str, slug: str, git_url: str) -> None:
        now = utc_now()
        self._workspace.update(
            chat_session=LockedSession(id=session, name=name, locked_at=now),
            locked_project=LockedProject(id=project, slug=slug, git_url=git_url, locked_at=now),
        )
