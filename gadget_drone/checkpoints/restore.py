"""Making the files what they were at a checkpoint. All block.

Nothing is lost: a restore replaces and removes only what the checkpoint made right before it has, and leaves alone
whatever no snapshot knows: ignored and large files, repositories of their own, `.git`, `.gadget`. New content is
written out whole before the first change, and each file is then replaced by a rename.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gadget_api.checkpoints import CheckpointId, FileChange
from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints.compare import Change, Side, changed_files, differences, shown
from gadget_drone.checkpoints.limits import CheckpointError, CheckpointLimits
from gadget_drone.checkpoints.snapshot import Now, Skipped, look
from gadget_drone.checkpoints.store import SCRATCH, Commit, Store, gone
from gadget_drone.checkpoints.store_git import GitFailed, StoreGit
from gadget_drone.checkpoints.work_tree import Seen, WorkTree

_TRIES = 3
"""To find the files at rest."""
_SYMLINK = "120000"


@dataclass(frozen=True)
class Restored:
    """What a restore did, or would do."""

    files: list[FileChange]
    """The first 200."""
    file_count: int
    redo: CheckpointId | None
    """The files as they were right before; None when nothing was changed."""
    left_alone: list[Skipped]
    """Files that are not what they were, and why."""


@dataclass
class _Plan:
    changes: list[Change]
    left_alone: dict[bytes, str]
    seen: dict[bytes, Seen]
    """Each file of `changes` as it was when the plan was made."""


def restore(
    store: Store, git: StoreGit, limits: CheckpointLimits, checkpoint: CheckpointId, *, preview: bool
) -> Restored:
    """Raises CheckpointError, and then has changed nothing; and Stopped, likewise."""
    target = store.commit(git, checkpoint)
    with WorkTree(store.project_dir) as work_tree:
        now, plan = _plan(store, git, limits, target, work_tree)
        if preview or not plan.changes:
            return _answer(git, now, target, plan, redo=None)
        with _scratch(store) as scratch:
            _write_out(git, limits, plan.changes, scratch, checkpoint)
            for _ in range(_TRIES):
                again, new_plan = _plan(store, git, limits, target, work_tree)
                if again.tree == now.tree and new_plan.seen == plan.seen:
                    break
                now, plan = again, new_plan
                _write_out(git, limits, plan.changes, scratch, checkpoint)
            else:
                raise CheckpointError(
                    ErrorCode.GIT_FAILED,
                    "The files change while they are to be restored: stop the program that writes, and try again.",
                    retryable=True,
                )
            redo = store.add_commit(
                now.tree, f"Before going back to {checkpoint}", None, now.skipped_paths, is_checkpoint=True
            )
            answer = _answer(git, now, target, plan, redo=redo.id)
            git.check()  # from here on it is not stopped
            failed = _apply(plan, scratch, work_tree)
    left = [*answer.left_alone, *(Skipped(shown(path), reason) for path, reason in failed.items())]
    return Restored(answer.files, answer.file_count, redo.id, left)


def _plan(
    store: Store, git: StoreGit, limits: CheckpointLimits, target: Commit, work_tree: WorkTree
) -> tuple[Now, _Plan]:
    now = look(store, git, limits)
    if not now.is_head:  # so that the index, and what git knows of it, agree
        store.add_commit(now.tree, "now", None, now.skipped_paths, is_checkpoint=False)
    try:
        changes = differences(git, Side(now.tree), Side(target.tree))
        kept = _ignored_then(store, git, target, changes)
    except GitFailed as error:
        raise gone(target.id) from error
    side = Side(target.tree, target.skipped)
    removed = {change.path for change in changes if change.kind == "D"}
    plan = _Plan([], {}, {})
    for change in changes:
        git.check()
        if change.kind == "D" and (change.path in kept or side.left_out(os.fsdecode(change.path))):
            plan.left_alone[change.path] = "the checkpoint says nothing about it"
            removed.discard(change.path)
    for change in changes:
        git.check()
        if change.path in plan.left_alone:
            continue
        reason = work_tree.obstacle(change.path, is_new=change.kind == "A", removed=removed)
        if reason is None:
            plan.changes.append(change)
            plan.seen[change.path] = work_tree.seen(change.path)
        else:
            plan.left_alone[change.path] = reason
    return now, plan


def _ignored_then(store: Store, git: StoreGit, target: Commit, changes: list[Change]) -> set[bytes]:
    """Files to be deleted that the ignore rules of that time had hidden: they may have been there."""
    removed = [change.path for change in changes if change.kind == "D"]
    if not removed or not any(os.path.basename(change.path) == b".gitignore" for change in changes):
        return set()
    entries = git.run("ls-tree", "-r", "-z", "--full-tree", target.tree).split(b"\0")[:-1]
    rules: list[Change] = []
    for entry in entries:
        meta, _, path = entry.partition(b"\t")
        mode, kind, object_id = meta.decode().split(" ")
        if kind == "blob" and mode != _SYMLINK and os.path.basename(path) == b".gitignore":
            rules.append(Change("A", mode, object_id, path))
    with _scratch(store) as scratch:
        for number, content in enumerate(_contents(git, rules)):
            place = Path(os.fsdecode(os.path.join(os.fsencode(scratch), rules[number].path)))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        feed = (b"./" + path + b"\0" for path in removed)  # a colon in front would be a pathspec's
        said = git.run("check-ignore", "--no-index", "-z", "--stdin", feed=feed, allowed=(0, 1), work_tree=scratch)
    return {path.removeprefix(b"./") for path in said.split(b"\0")}


def _answer(git: StoreGit, now: Now, target: Commit, plan: _Plan, *, redo: CheckpointId | None) -> Restored:
    paths = {shown(change.path) for change in plan.changes}
    files = [file for file in changed_files(git, Side(now.tree), Side(target.tree)) if file.path in paths]
    left = [Skipped(shown(path), reason) for path, reason in sorted(plan.left_alone.items())]
    return Restored(files[:200], len(files), redo, left)


def _contents(git: StoreGit, changes: list[Change]) -> Iterator[bytes]:
    """The new content of each. Raises GitFailed when one is missing."""
    feed = (f"{change.object_id}\n".encode() for change in changes)
    with git.stream("cat-file", "--batch", "--buffer", feed=feed) as output:
        for change in changes:
            git.check()
            header = output.readline().split()
            if len(header) != 3 or header[1] != b"blob":
                raise GitFailed("cat-file", 0, f"{change.object_id} is missing")
            size = int(header[2])
            content = output.read(size)
            if len(content) != size or output.read(1) != b"\n":
                raise GitFailed("cat-file", 0, f"{change.object_id} is cut off")
            yield content


def _write_out(
    git: StoreGit, limits: CheckpointLimits, changes: list[Change], scratch: Path, checkpoint: CheckpointId
) -> None:
    """Each new file into `scratch`, by its number in `changes`; modes as the user's umask wants them."""
    writes = [(number, change) for number, change in enumerate(changes) if change.kind != "D"]
    for left in scratch.iterdir():
        left.unlink()
    try:
        for (number, change), content in zip(writes, _contents(git, [change for _, change in writes]), strict=True):
            if shutil.disk_usage(scratch).free < limits.free_bytes + len(content):
                raise CheckpointError(
                    ErrorCode.GIT_FAILED, "The disk has no room for the files: make room, and try again."
                )
            place = scratch / str(number)
            if change.mode == _SYMLINK:
                os.symlink(content, os.fsencode(place))
                continue
            mode = 0o777 if change.mode.endswith("755") else 0o666
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except GitFailed as error:
        raise gone(checkpoint) from error


def _apply(plan: _Plan, scratch: Path, work_tree: WorkTree) -> dict[bytes, str]:
    """Deletes, then writes; what could not be done, and why."""
    failed: dict[bytes, str] = {}
    for is_removal in (True, False):
        for number, change in enumerate(plan.changes):
            if (change.kind == "D") != is_removal:
                continue
            try:
                if work_tree.seen(change.path) != plan.seen[change.path]:
                    failed[change.path] = "it was changed meanwhile"
                elif is_removal:
                    work_tree.remove(change.path)
                else:
                    work_tree.replace(change.path, scratch / str(number))
            except OSError as error:
                failed[change.path] = f"it could not be changed ({error.strerror})"
    return failed


@contextmanager
def _scratch(store: Store) -> Iterator[Path]:
    """A directory on the disk that the store is on, and not in it: git works in no repository's own directory."""
    place = store.dir.with_name(f"{store.dir.name}{SCRATCH}{secrets.token_hex(4)}")
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
