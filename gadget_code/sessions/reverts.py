"""Reverts a session to its state before a turn, and redoes that: the conversation in the store, the files at the drone
of its workspace."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gadget_api.checkpoints import CheckpointId, Diff, NewRevert, Revert, Reverted, RevertScope
from gadget_api.commands import DiffRead, FilesRestored, ReadDiff, RestoreFiles
from gadget_api.drones import DroneRegistration
from gadget_api.errors import Conflict, ErrorCode, NotFound, Unavailable
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurn
from gadget_code.sessions.claims import RESTORE_S, Claim, check_idle, claimed
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.workspaces.drones import holder_of, order_project

_DIFF_S = 60.0
"""Seconds that a drone may take to compare a large project; it stops by itself after 30 s."""


@dataclass(frozen=True)
class _Restore:
    """Which checkpoint to restore, and at which drone."""

    drone: DroneRegistration
    ask: RestoreFiles


@dataclass(frozen=True)
class Reverts:
    store: MongoStore
    rooms: Rooms
    dispatcher: Dispatcher

    async def revert(self, user: str, session_id: str, new: NewRevert) -> Reverted:
        """Reverts the session to its state before `new.turn`. A second revert before the next prompt goes back further,
        and one redo undoes both. A prompt that arrives meanwhile waits, and ends the chance to redo.

        Raises NotFound, Conflict; and Unavailable when the drone does not confirm the files.
        """
        session = await self.store.sessions.owned(user, session_id)
        first = await self.store.turns.owned(user, new.turn)
        if first.session != session.id:
            raise NotFound("turn in this session")
        if new.preview:
            await check_idle(self.store, session)
            turns, files = await self._plan(session, first, new.scope, await self.store.turns.newest(session.id))
            return _answer(turns, await self._restore(files, preview=True) if files is not None else None)
        async with claimed(self.store, self.dispatcher, session) as claim:
            turns, files = await self._plan(claim.session, first, new.scope, claim.newest)
            before = claim.session.revert if await self._can_redo(claim) else None
            restored = await self._restore_for(claim, files) if files is not None else None
            revert = _joined(before, first, new.scope, restored, claim.at)
            await self._note(claim, revert)
            await self.store.turns.mark_reverted([turn.id for turn in turns], revert.at)
        await self._emit_turns(turns)
        if await self.store.turns.newest(session.id) != claim.newest:
            await self._discard_redo(session, revert)
        return _answer(turns, restored)

    async def redo(self, user: str, session_id: str) -> Reverted:
        """Undoes the reverts since the last prompt. Raises the same errors as `revert`."""
        session = await self.store.sessions.owned(user, session_id)
        nothing = Conflict(ErrorCode.NOTHING_TO_REDO, "Nothing was reverted since the last prompt.")
        if session.revert is None:
            raise nothing
        async with claimed(self.store, self.dispatcher, session) as claim:
            revert = claim.session.revert
            if revert is None or not await self._can_redo(claim):
                raise nothing
            files = None
            if revert.redo is not None:
                first = await self.store.turns.owned(user, revert.turn)
                files = await self._files(session, await self._from(session, first, claim.newest), revert.redo)
            restored = await self._restore_for(claim, files) if files is not None else None
            await self._write(claim, {}, inc={"historyVersion": 1})
            turns = await self.store.turns.unmark_reverted(session.id, revert.turn, revert.at)
            await self.rooms.emit_session(await self._write(claim, {"revert": None}))
        await self._emit_turns(turns)
        return _answer(turns, restored)

    async def turn_diff(self, user: str, turn_id: str) -> Diff:
        """Returns what the turn changed; of a running turn, so far. Raises NotFound, Conflict, Unavailable."""
        turn = await self.store.turns.owned(user, turn_id)
        if turn.checkpoint is None:
            return Diff(files=(), file_count=0)
        until = turn.last_checkpoint if turn.status.is_over else None
        session = await self.store.sessions.owned(user, turn.session)
        return await self._diff(session, turn.workspace_id, turn.checkpoint, until)

    async def session_diff(self, user: str, session_id: str, *, uncommitted: bool) -> Diff:
        """Returns what has changed since the session began, or since the last commit."""
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
        drone = await holder_of(self.store, session.user, workspace)
        ask = ReadDiff(project=await order_project(self.store, session), since=since, until=until)
        return (await self.rooms.ask_drone(drone.id, "readDiff", ask, DiffRead, timeout=_DIFF_S)).diff

    async def _plan(
        self, session: ChatSession, first: ChatTurn, scope: RevertScope, newest: str | None
    ) -> tuple[list[ChatTurn], _Restore | None]:
        """Returns the turns to mark as reverted, and how to restore the files before them. Raises Conflict when `scope`
        matches nothing."""
        since = await self._from(session, first, newest)
        turns: list[ChatTurn] = []
        if scope is not RevertScope.FILES:
            turns = [turn for turn in since if not turn.reverted]
            if not turns:
                raise Conflict(
                    ErrorCode.NOTHING_TO_REDO,
                    "These turns are reverted already; use the scope `files` to revert their files.",
                )
        if scope is RevertScope.CONVERSATION:
            return turns, None
        # Turns whose conversation is reverted already have changed files even so.
        files = await self._files(session, since)
        if files is None and not turns:
            raise Conflict(ErrorCode.CHECKPOINTS_OFF, "These turns changed no files, or have no checkpoints.")
        return turns, files

    async def _from(self, session: ChatSession, first: ChatTurn, newest: str | None) -> list[ChatTurn]:
        """Returns the finished turns from `first` to `newest`. Later turns are not affected."""
        window = {"$gte": first.id, "$lte": newest or first.id}
        turns = await self.store.turns.all({"session": session.id, "_id": window}, limit=100_000, hint="session")
        return [turn for turn in turns if turn.status.is_over]

    async def _can_redo(self, claim: Claim) -> bool:
        """Returns whether no prompt was submitted since the last revert. Compares turns, because the process that took
        a prompt may have died before it cleared `revert`."""
        return claim.newest == await self.store.sessions.reverted_after(claim.session.id)

    async def _files(
        self, session: ChatSession, turns: list[ChatTurn], to: CheckpointId | None = None
    ) -> _Restore | None:
        """Returns how to restore the files to before these turns, or to the checkpoint `to`; None when the turns
        changed none. Raises Conflict when the drone of the files is offline."""
        changed = next((turn for turn in turns if turn.checkpoint is not None), None)
        if changed is None or changed.checkpoint is None:
            return None
        drone = await holder_of(self.store, session.user, changed.workspace_id)
        ask = RestoreFiles(project=await order_project(self.store, session), checkpoint=to or changed.checkpoint)
        return _Restore(drone, ask)

    async def _restore(self, files: _Restore, *, preview: bool = False) -> FilesRestored:
        ask = files.ask.replace(preview=preview)
        return await self.rooms.ask_drone(files.drone.id, "restoreFiles", ask, FilesRestored, timeout=RESTORE_S)

    async def _restore_for(self, claim: Claim, files: _Restore) -> FilesRestored:
        claim.is_at_drone = True
        try:
            restored = await self._restore(files)
        except Unavailable as exc:
            raise Unavailable(
                ErrorCode.DRONE_OFFLINE,
                f"{files.drone.name} did not confirm that it restored the files, and may still be restoring them: "
                "some may be restored and others not. The conversation is unchanged, and its prompts wait for some "
                "minutes. Check the files, and try again.",
            ) from exc
        except Conflict:
            claim.is_at_drone = False
            raise
        claim.is_at_drone = False
        return restored

    async def _note(self, claim: Claim, revert: Revert) -> None:
        """Stores the revert, and raises `historyVersion`, which invalidates the drones' caches of the history."""
        changes = {"revert": revert.model_dump(), "store.revertedAfter": claim.newest}
        await self.rooms.emit_session(await self._write(claim, changes, inc={"historyVersion": 1}))

    async def _write(self, claim: Claim, changes: Mapping[str, Any], **operators: Mapping[str, Any]) -> ChatSession:
        """Updates the session while the claim holds."""
        held = {"_id": claim.session.id, "store.claim.id": claim.id}
        written = await self.store.sessions.update(held, changes, **operators)
        if written is None:
            raise Conflict(
                ErrorCode.TURN_NOT_RUNNING,
                "This took too long and was given up: the conversation is unchanged, the files may be restored. "
                "Check them, and try again.",
                retryable=True,
            )
        return written

    async def _discard_redo(self, session: ChatSession, revert: Revert) -> None:
        """Clears the redo after a prompt that arrived during the revert: at that time there was nothing to clear."""
        ended = await self.store.sessions.update({"_id": session.id, "revert.at": revert.at}, {"revert": None})
        await self.rooms.emit_session(ended)

    async def _emit_turns(self, turns: list[ChatTurn]) -> None:
        for turn in turns[-20:]:  # as many as a client shows; it requests the others
            await self.rooms.emit_turn(await self.store.turns.find({"_id": turn.id}))


def _joined(
    before: Revert | None, first: ChatTurn, scope: RevertScope, restored: FilesRestored | None, at: datetime
) -> Revert:
    """Merges a revert with an earlier one since the last prompt, so that one redo undoes both."""
    redo = restored.before if restored is not None else None
    if before is None:
        return Revert(turn=first.id, scope=scope, at=at, redo=redo)
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
    return Reverted(turns=ids, files=restored.files, file_count=restored.file_count, left_alone=restored.left_alone)
