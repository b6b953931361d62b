"""Taking a session back to where it was before a turn, and bringing it forward again: its conversation here, its files
at the drone that holds its workspace."""

import logging
from dataclasses import dataclass

from gadget_api.checkpoints import CheckpointId, Diff, NewRevert, Revert, Reverted, RevertScope
from gadget_api.commands import DiffRead, FilesRestored, ReadDiff, RestoreFiles, SessionUpdated
from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, ErrorCode, NotFound
from gadget_api.model import utc_now
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurn
from gadget_api.work_order import OrderProject
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import Store

log = logging.getLogger(__name__)

_FILES_S = 60.0
"""How long a drone may take to compare or restore a large project."""


@dataclass(frozen=True)
class _Files:
    """Where files are to be restored, and to what."""

    drone: DroneRegistration
    ask: RestoreFiles


@dataclass(frozen=True)
class Reverting:
    store: Store
    rooms: Rooms

    async def revert(self, user: str, session_id: str, new: NewRevert) -> Reverted:
        """Takes the session back to before `new.turn`. A second time before the next prompt, it goes back further, and
        one redo brings all of it forward. Raises NotFound, Conflict, Unavailable."""
        session = await self.store.sessions.owned(user, session_id)
        first = await self.store.turns.owned(user, new.turn)
        if first.session != session.id:
            raise NotFound("turn in this session")
        await self._check_idle(session)
        turns = [turn for turn in await self._from(session, first) if not turn.reverted]
        talks = new.scope is not RevertScope.FILES
        if talks and not turns:
            raise Conflict(ErrorCode.NOTHING_TO_REDO, "These turns were taken back already.")
        files = None
        if new.scope is not RevertScope.CONVERSATION:
            files = await self._files(session, turns)
            if files is None and not talks:
                raise Conflict(
                    ErrorCode.CHECKPOINTS_OFF, "These turns changed no files, or none were kept where they ran."
                )
        if new.preview:
            restored = await self._restore(files, preview=True) if files is not None else None
            return _answer(turns if talks else [], restored)
        session = await self._claim(session)
        restored = await self._restore(files) if files is not None else None
        revert = _joined(session.revert, first, new.scope, restored)
        await self._note(session, revert)
        if talks:
            await self.store.turns.take_back([turn.id for turn in turns], revert.at)
            await self._tell_turns(turns)
        return _answer(turns if talks else [], restored)

    async def redo(self, user: str, session_id: str) -> Reverted:
        """Brings forward what was taken back since the last prompt. Raises NotFound, Conflict, Unavailable."""
        session = await self.store.sessions.owned(user, session_id)
        revert = session.revert
        newest = await self.store.turns.newest(session.id)
        newest_turn = await self.store.turns.owned(user, newest) if newest is not None else None
        # A prompt ends it; whoever took that may have died before it was noted.
        if revert is None or (newest_turn is not None and newest_turn.created_at > revert.at):
            raise Conflict(ErrorCode.NOTHING_TO_REDO, "Nothing was taken back since the last prompt.")
        await self._check_idle(session)
        files = None
        if revert.redo is not None:
            first = await self.store.turns.owned(user, revert.turn)
            files = await self._files(session, await self._from(session, first), revert.redo)
        session = await self._claim(session)
        restored = await self._restore(files) if files is not None else None
        turns = await self.store.turns.bring_back(session.id, revert.at)
        await self._note(session, None)
        await self._tell_turns(turns)
        return _answer(turns, restored)

    async def turn_diff(self, user: str, turn_id: str) -> Diff:
        """What the turn changed; of one that runs, so far. Raises NotFound, Conflict, Unavailable."""
        turn = await self.store.turns.owned(user, turn_id)
        if turn.checkpoint is None:
            return Diff(files=(), file_count=0)
        until = turn.last_checkpoint if turn.status.is_over else None
        session = await self.store.sessions.owned(user, turn.session)
        return await self._diff(session, turn.workspace_id, turn.checkpoint, until)

    async def session_diff(self, user: str, session_id: str, *, uncommitted: bool) -> Diff:
        """What was changed since the session began, or since the last commit."""
        session = await self.store.sessions.owned(user, session_id)
        if uncommitted:
            return await self._diff(session, session.workspace_id, None, None)
        first = await self.store.turns.first_with_checkpoint(session.id)
        if first is None:
            return Diff(files=(), file_count=0)
        return await self._diff(session, first.workspace_id, first.checkpoint, None)

    async def _diff(
        self, session: ChatSession, workspace: str | None, since: CheckpointId | None, until: CheckpointId | None
    ) -> Diff:
        drone = await self._holder(session, workspace)
        ask = ReadDiff(project=await self._project(session), since=since, until=until)
        return (await self.rooms.ask_drone(drone.id, "readDiff", ask, DiffRead, timeout=_FILES_S)).diff

    async def _from(self, session: ChatSession, first: ChatTurn) -> list[ChatTurn]:
        return await self.store.turns.all({"session": session.id, "_id": {"$gte": first.id}}, limit=100_000)

    async def _check_idle(self, session: ChatSession) -> None:
        if await self.store.turns.unfinished({"session": session.id}):
            raise Conflict(ErrorCode.TURN_NOT_RUNNING, "A turn of this session is not over; cancel it first.")

    async def _files(
        self, session: ChatSession, turns: list[ChatTurn], to: CheckpointId | None = None
    ) -> _Files | None:
        """How the files become what they were before these turns, or what they are at `to`; None when none of the
        turns has changed any. Raises Conflict when the drone that has them is away."""
        changed = next((turn for turn in turns if turn.checkpoint is not None), None)
        if changed is None or changed.checkpoint is None:
            return None
        drone = await self._holder(session, changed.workspace_id)
        ask = RestoreFiles(project=await self._project(session), checkpoint=to or changed.checkpoint)
        return _Files(drone, ask)

    async def _restore(self, files: _Files, *, preview: bool = False) -> FilesRestored:
        ask = files.ask.replace(preview=preview)
        return await self.rooms.ask_drone(files.drone.id, "restoreFiles", ask, FilesRestored, timeout=_FILES_S)

    async def _holder(self, session: ChatSession, workspace: str | None) -> DroneRegistration:
        """The drone of the workspace, connected. Raises Conflict."""
        drone = None
        if workspace is not None:
            drone = await self.store.drones.find({"user": session.user, "workspaceId": workspace})
        if drone is None:
            raise Conflict(
                ErrorCode.DRONE_OFFLINE,
                "The drone that had these files was removed; only the conversation can be taken back.",
            )
        if drone.status is DroneStatus.OFFLINE:
            raise Conflict(
                ErrorCode.DRONE_OFFLINE,
                f"{drone.name} has these files and is offline; start it with `gadget-drone` in {drone.workspace_dir}.",
                retryable=True,
            )
        return drone

    async def _project(self, session: ChatSession) -> OrderProject:
        project = await self.store.projects.owned(session.user, session.project)
        return OrderProject(id=project.id, name=project.name, slug=project.slug, git_url=project.git_url)

    async def _claim(self, session: ChatSession) -> ChatSession:
        """Raises its history's version: what drones keep of it counts no more, and of two that take it back at once
        one does."""
        # A session of the time before has no version.
        version = {"$in": [0, None]} if session.history_version == 0 else session.history_version
        as_read = {"_id": session.id, "historyVersion": version}
        claimed = await self.store.sessions.update(as_read, {}, inc={"historyVersion": 1})
        if claimed is None:
            raise Conflict(
                ErrorCode.TURN_NOT_RUNNING, "The session is taken back just now; look at it again.", retryable=True
            )
        return claimed

    async def _note(self, session: ChatSession, revert: Revert | None) -> None:
        noted = await self.store.sessions.update(
            {"_id": session.id}, {"revert": revert.model_dump() if revert is not None else None}
        )
        if noted is not None:
            await self.rooms.tell_user(noted.user, "sessionUpdated", SessionUpdated(session=noted))

    async def _tell_turns(self, turns: list[ChatTurn]) -> None:
        for turn in turns[-20:]:  # what a client shows; it asks for more
            await self.rooms.tell_turn(await self.store.turns.find({"_id": turn.id}))


def _joined(before: Revert | None, first: ChatTurn, scope: RevertScope, restored: FilesRestored | None) -> Revert:
    """What one redo brings forward: this, and what was taken back before it since the last prompt."""
    redo = restored.before if restored is not None else None
    if before is None:
        return Revert(turn=first.id, scope=scope, at=utc_now(), redo=redo)
    return Revert(
        turn=min(before.turn, first.id),
        scope=scope if scope is before.scope else RevertScope.BOTH,
        at=before.at,
        redo=before.redo or redo,
    )


def _answer(turns: list[ChatTurn], restored: FilesRestored | None) -> Reverted:
    ids = tuple(turn.id for turn in turns)
    if restored is None:
        return Reverted(turns=ids)
    return Reverted(turns=ids, files=restored.files, file_count=restored.file_count)
