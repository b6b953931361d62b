"""The checkpoints of one project, as the drone uses them: bounded, cancellable, one piece of work at a time."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from gadget_api.checkpoints import CheckpointId, CheckpointTaken, Diff, FileChange
from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints import compare
from gadget_drone.checkpoints.compare import Side
from gadget_drone.checkpoints.limits import CheckpointError, CheckpointLimits, refusal
from gadget_drone.checkpoints.named_pipes import NamedPipes
from gadget_drone.checkpoints.prune import prune
from gadget_drone.checkpoints.restore import Restored, restore
from gadget_drone.checkpoints.snapshot import Skipped, look
from gadget_drone.checkpoints.store import Commit, Store, gone
from gadget_drone.checkpoints.store_git import GitFailed, Stopped, StoreGit
from gadget_drone.programs import find_program

Result = TypeVar("Result")

_TIMEOUTS_UNTIL_OFF = 2
_LOOK_AT_SIZE_EVERY = 50
"""Checkpoints; it walks through the store."""


def _ignore(notice: str) -> None:
    pass


class Checkpoints:
    """Snapshots of `project_dir` in a store of their own. The user's `.git` is read at most, never written.

    Every method raises CheckpointError, and then the files are as they were.
    """

    def __init__(
        self,
        store_dir: Path,
        project_dir: Path,
        *,
        limits: CheckpointLimits | None = None,
        on_notice: Callable[[str], None] = _ignore,
    ) -> None:
        """`store_dir`: `.gadget/checkpoints/<project id>`, made when it is needed. `on_notice` is called on the event
        loop, with a sentence for the user."""
        self._store = Store(store_dir, project_dir)
        self._project_dir = project_dir
        self._limits = limits or CheckpointLimits()
        self._on_notice = on_notice
        self._lock = asyncio.Lock()
        self._pruning: StoreGit | None = None
        self._timeouts = 0
        self._told: set[str] = set()
        """The named pipes that the user knows of."""
        self._taken = 0
        self._is_full = False
        self._refused = refusal(store_dir, project_dir)
        if find_program("git") is None:
            self._refused = "There are no checkpoints without git: install it on the drone's machine."
        self.off = self._refused
        """Why nothing is taken any more, a sentence; None while something is."""
        self.skipped: tuple[Skipped, ...] = ()
        """What the newest snapshot left out."""
        self.processes = 0
        """Git processes that the last piece of work has started."""
        self.wants_pruning = True
        """Whether `prune` may have something to do; call it when the drone is idle, it makes way for the rest."""

    @property
    def has_begun(self) -> bool:
        """Whether a snapshot was made before; the first takes longest."""
        return (self._store.dir / "index").exists()

    async def take(self, label: str, parent: CheckpointId | None) -> CheckpointTaken | None:
        """A checkpoint of the files as they are; None when they are as in `parent`.

        A parent that is gone counts as none, and the answer's `parent` is then null.
        Gives up after `CheckpointLimits.take_s`; after the second time in a row `off` says so, and it raises
        `checkpointsOff`.
        A time that a named pipe may explain does not count: a command could turn checkpoints off with one.
        """
        if self.off is not None:
            raise CheckpointError(ErrorCode.CHECKPOINTS_OFF, self.off)
        limit_s = self._limits.take_s if self.has_begun else self._limits.first_take_s
        try:
            taken = await self._do(partial(self._take, label, parent), limit_s, "The checkpoint")
        except _TooSlow as error:
            if error.pipes:
                raise
            self._timeouts += 1
            if self._timeouts >= _TIMEOUTS_UNTIL_OFF:
                self.off = (
                    f"Checkpoints are off until the next session: {self._timeouts} in a row took more than "
                    f"{limit_s:.3g} s; name directories that programs make in .gitignore."
                )
                raise CheckpointError(ErrorCode.CHECKPOINTS_OFF, self.off) from error
            raise
        self._timeouts = 0
        return taken

    async def restore(self, checkpoint: CheckpointId, *, preview: bool) -> Restored:
        """Makes the files what they were, after a checkpoint of what they are: `Restored.redo`.

        `preview` changes nothing, and answers the same. Once it writes, it is not stopped: cancelled, it ends first.
        """

        def work(git: StoreGit) -> Restored:
            return restore(self._store, git, self._limits, checkpoint, preview=preview)

        return await self._do(work, self._limits.restore_s, "The restore")

    async def diff(self, since: CheckpointId | None, until: CheckpointId | None) -> Diff:
        """`since` None: HEAD of the user's own git, or nothing at all; `until` None: the files now."""
        return await self._do(partial(self._compared, compare.diff, since, until), self._limits.diff_s, "The diff")

    async def changes(self, since: CheckpointId | None, until: CheckpointId | None) -> tuple[list[FileChange], int]:
        """As `diff`, without the text: the first 200 files, and how many there are."""
        work = partial(self._compared, compare.changed_files, since, until)
        return compare.listed(await self._do(work, self._limits.diff_s, "The diff"))

    async def prune(self) -> int:
        """Removes what is too old or too much; how many checkpoints went. It may take minutes, and stops with 0 when
        something else is to be done."""
        return await self._do(self._prune, self._limits.prune_s, "Pruning the checkpoints")

    def _take(self, label: str, parent: CheckpointId | None, git: StoreGit) -> CheckpointTaken | None:
        self._check_size(git)
        now = look(self._store, git, self._limits)
        self.skipped = now.skipped
        before = self._parent(git, parent)
        if before is not None and before.tree == now.tree:
            self._store.set_head(before)
            return None
        files: list[FileChange] = []
        if before is not None:
            try:
                old, new = Side(before.tree, before.skipped), Side(now.tree, now.skipped_paths)
                files = compare.changed_files(git, old, new)
            except GitFailed:
                before = None
        parent = before.id if before is not None else None
        taken = self._store.add_commit(now.tree, label, parent, now.skipped_paths, is_checkpoint=True)
        self._taken += 1
        first, count = compare.listed(files)
        return CheckpointTaken(checkpoint_id=taken.id, parent=parent, files=tuple(first), file_count=count)

    def _parent(self, git: StoreGit, parent: CheckpointId | None) -> Commit | None:
        if parent is None:
            return None
        try:
            return self._store.commit(git, parent)
        except CheckpointError:
            return None

    def _compared(
        self,
        how: Callable[[StoreGit, Side, Side], Result],
        since: CheckpointId | None,
        until: CheckpointId | None,
        git: StoreGit,
    ) -> Result:
        old = self._side(git, since) if since is not None else self._users_head(git)
        new = self._side(git, until) if until is not None else self._now(git)
        try:
            return how(git, old, new)
        except GitFailed as error:
            raise gone(since or until or old.tree) from error

    def _side(self, git: StoreGit, checkpoint: CheckpointId) -> Side:
        commit = self._store.commit(git, checkpoint)
        return Side(commit.tree, commit.skipped)

    def _now(self, git: StoreGit) -> Side:
        now = look(self._store, git, self._limits)
        if not now.is_head:  # no checkpoint: the index, and what git takes it for, are to agree
            self._store.add_commit(now.tree, "now", None, now.skipped_paths, is_checkpoint=False)
        return Side(now.tree, now.skipped_paths)

    def _users_head(self, git: StoreGit) -> Side:
        """Its objects are read where they are, and not relied on: the user's git may remove them at any time."""
        objects = self._store.user_objects
        tree = git.ask_user("rev-parse", "--quiet", "--verify", "HEAD^{tree}") if objects is not None else None
        if objects is None or tree is None:
            return Side(self._store.empty_tree)
        quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
        return Side(tree, alternates=f'"{quoted}"')

    def _check_size(self, git: StoreGit) -> None:
        if self._taken % _LOOK_AT_SIZE_EVERY == 0:
            size = self._store.size_bytes(git)
            self._is_full = size > 1.5 * self._limits.store_bytes
            self.wants_pruning = self.wants_pruning or size > self._limits.store_bytes
        if self._is_full:
            self.wants_pruning = True
            raise CheckpointError(
                ErrorCode.TOO_LARGE, "The store of checkpoints is full; it is made smaller when the drone is idle."
            )

    def _prune(self, git: StoreGit) -> int:
        self._pruning = git
        try:
            removed = prune(self._store, git, self._limits)
        except Stopped:
            return 0
        finally:
            self._pruning = None
        self._taken = 0
        self._is_full = self.wants_pruning = False
        return removed

    async def _do(self, work: Callable[[StoreGit], Result], limit_s: float, what: str) -> Result:
        if self._refused is not None:
            raise CheckpointError(ErrorCode.CHECKPOINTS_OFF, self._refused)
        pruning = self._pruning  # its thread lets go of it at any time
        if pruning is not None:
            await pruning.stop()
        async with self._lock:
            git = StoreGit(self._store.dir, self._project_dir)
            pipes = NamedPipes(self._project_dir)
            running = asyncio.ensure_future(asyncio.to_thread(_done, self._store, work, git, pipes))
            # Whoever is cancelled a second time does not wait for it below, and asks no more how it ended.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                # wait() leaves the thread's work alone when cancelled: git must be gone before the next one starts.
                await asyncio.wait({running}, timeout=limit_s)
            finally:
                if not running.done():
                    await git.stop()
                    await asyncio.wait({running})
                self.processes = git.started
                while self._store.notices:
                    self._on_notice(self._store.notices.pop(0))
                for path in sorted(pipes.waited - self._told):
                    self._on_notice(f"Git waits for a named pipe, and takes it for an empty file: remove {path}.")
                self._told |= pipes.waited
        try:
            return running.result()
        except Stopped as error:
            message = f"{what} took more than {limit_s:.3g} s, and was given up."
            if pipes.found:
                message += f" Git may wait for a named pipe: remove {pipes.found[0]}."
            too_slow = _TooSlow(ErrorCode.GIT_FAILED, message, retryable=True)
            too_slow.pipes = tuple(pipes.found)
            raise too_slow from error
        except GitFailed as error:
            raise CheckpointError(
                ErrorCode.GIT_FAILED, f"{what} failed: git said {error.said!r}; try again.", retryable=True
            ) from error
        except OSError as error:
            raise CheckpointError(
                ErrorCode.GIT_FAILED,
                f"{what} failed ({error.strerror}): see to the disk and the permissions of {self._project_dir}.",
                retryable=True,
            ) from error


class _TooSlow(CheckpointError):
    pipes: tuple[str, ...] = ()
    """Named pipes that git may have waited for."""


def _done(store: Store, work: Callable[[StoreGit], Result], git: StoreGit, pipes: NamedPipes) -> Result:
    with pipes.released(), store.locked(git):
        return work(git)
