"""Who the workspace works for: a session's lock, the turn that runs, or a user who edits by hand."""

from gadget_api.commands import LockSession
from gadget_api.errors import Conflict, ErrorCode
from gadget_api.model import utc_now
from gadget_api.work_order import WorkOrder
from gadget_api.workspace import WorkspaceMode
from gadget_api.workspace_files import LockedProject, LockedSession, WorkspaceFile


class Occupancy:
    """In memory; `station` writes it down for people to look at. What counts is said by the server at each connection,
    or is a turn that was left."""

    def __init__(self, left: WorkspaceFile) -> None:
        self.session = left.chat_session
        """That of the lock or of the running turn."""
        self.project = left.locked_project
        self._is_locked = False
        """Whether it is a lock that holds the workspace, and not just a turn."""
        self.mode = WorkspaceMode.IDLE

    def check(self, session: str) -> None:
        """Raises Conflict unless a turn of `session` may be worked on."""
        if self.mode is WorkspaceMode.USER:
            raise Conflict(ErrorCode.WORKSPACE_BUSY, "You are editing in this workspace; hand it back first.")
        self._check_held(session)

    def lock(self, ask: LockSession) -> None:
        """Keeps the workspace for one session. Raises Conflict when it is another's."""
        self._check_held(ask.chat_session_id)
        self._hold(ask.chat_session_id, ask.name, ask.project_id, ask.slug, ask.git_url)
        self._is_locked = True

    def is_held_by(self, session: str) -> bool:
        return self.session is not None and self.session.id == session

    def unlock(self) -> None:
        """Frees the workspace, whoever holds it."""
        self._is_locked = False
        self.session = self.project = None

    def begin(self, order: WorkOrder) -> None:
        """A turn takes the workspace, unless its session's lock has it."""
        if self.session is None:
            project = order.project
            self._hold(order.session.id, order.session.name, project.id, project.slug, project.git_url)

    def end(self) -> None:
        """The turn is over; a lock stays."""
        if not self._is_locked:
            self.unlock()

    def _check_held(self, session: str) -> None:
        if self.session is not None and self.session.id != session:
            raise Conflict(ErrorCode.DRONE_LOCKED, f"This drone is kept for the session “{self.session.name}”.")

    def _hold(self, session: str, name: str, project: str, slug: str, git_url: str) -> None:
        now = utc_now()
        self.session = LockedSession(id=session, name=name, locked_at=now)
        self.project = LockedProject(id=project, slug=slug, git_url=git_url, locked_at=now)
