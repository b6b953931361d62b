"""The files as they are now, as a tree in the store: one git process when nothing changed, three when something did."""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints.limits import CheckpointError, CheckpointLimits
from gadget_drone.checkpoints.store import Store
from gadget_drone.checkpoints.store_git import GitFailed, StoreGit

_BATCH = 5000
"""Files for one git; each leaves its part in the index, so that the next try goes on from there."""
_PACKED_FROM = 500
"""So many new files go into one pack, which takes half the system time of files of their own."""
_MB = 1024 * 1024


@dataclass(frozen=True)
class Skipped:
    """Something that a snapshot leaves out, and that no restore touches."""

    path: str
    """From the project's directory; a whole directory ends in `/`."""
    reason: str


@dataclass(frozen=True)
class Now:
    """What the work tree is."""

    tree: str
    skipped: tuple[Skipped, ...]
    is_head: bool
    """Whether the store's HEAD has this tree."""

    @property
    def skipped_paths(self) -> frozenset[str]:
        return frozenset(skipped.path for skipped in self.skipped)


@dataclass
class _Changes:
    """What `git status` says, sorted by what is to be done."""

    put: list[bytes]
    """To be read again, or gone."""
    drop: list[bytes]
    """Known files that are now something that is left out."""
    skipped: list[Skipped]
    is_index_ahead: bool
    """Whether an earlier snapshot ended before it was done."""
    new_bytes: int = 0
    new_files: int = 0


def look(store: Store, git: StoreGit, limits: CheckpointLimits) -> Now:
    """Brings the store's index to what the work tree is, and mends the store where that fails.

    Raises CheckpointError, and Stopped.
    """
    _check_room(store, git, limits)
    repairs = iter((_nothing, _read_all_again, _begin_anew))
    while True:
        try:
            return _look(store, git, limits)
        except GitFailed as error:
            # A file may have gone between two looks; a full disk is no damage.
            _check_room(store, git, limits)
            repair = next(repairs, None)
            if repair is None or not repair(store, git, error):
                raise CheckpointError(
                    ErrorCode.GIT_FAILED, f"No checkpoint was made: git said {error.said!r}.", retryable=True
                ) from error


def _nothing(store: Store, git: StoreGit, error: GitFailed) -> bool:
    return True


def _read_all_again(store: Store, git: StoreGit, error: GitFailed) -> bool:
    store.forget_index()
    return True


def _begin_anew(store: Store, git: StoreGit, error: GitFailed) -> bool:
    """Only where the store is to blame, and not what it is to hold."""
    try:
        git.run("fsck", "--connectivity-only", "--no-dangling")
    except GitFailed as damage:
        store.move_aside(damage.said)
        return True
    return False


def _check_room(store: Store, git: StoreGit, limits: CheckpointLimits) -> None:
    if shutil.disk_usage(store.dir).free < limits.free_bytes:
        raise CheckpointError(
            ErrorCode.CHECKPOINTS_OFF, f"The disk that {store.dir} is on is full: make room for checkpoints."
        )


def _look(store: Store, git: StoreGit, limits: CheckpointLimits) -> Now:
    head = store.head(git)
    listed = git.run(
        *("status", "--porcelain=v1", "-z", "--untracked-files=all"), "--no-renames", "--ignore-submodules=all"
    )
    is_first = head is None or store.index_count() == 0
    changes = _sorted_out(listed, store.project_dir, git, limits)
    if is_first:
        _add_ignored_but_committed(changes, store.project_dir, git, limits)
    _check_limits(changes, store, limits, is_first=is_first)
    skipped = tuple(sorted(changes.skipped, key=lambda skipped: skipped.path))
    if head is not None and not (changes.put or changes.drop or changes.is_index_ahead):
        return Now(head.tree, skipped, is_head=True)
    if changes.drop:
        null = b"0" * len(store.empty_tree)
        removals = b"".join(b"0 %s\t%s\0" % (null, path) for path in changes.drop)
        git.run("update-index", "-z", "--index-info", feed=removals)
    for start in range(0, len(changes.put), _BATCH):
        batch = changes.put[start : start + _BATCH]
        packed = ("-c", "core.bigFileThreshold=1") if len(batch) >= _PACKED_FROM else ()
        feed = b"".join(path + b"\0" for path in batch)
        git.run(*packed, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
    tree = git.run("write-tree").decode().strip()
    return Now(tree, skipped, is_head=head is not None and head.tree == tree)


def _entries(listed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each `XY` and its path."""
    for line in listed.split(b"\0"):
        if line:
            yield line[:2], line[3:]


def _sorted_out(listed: bytes, project_dir: os.PathLike[str], git: StoreGit, limits: CheckpointLimits) -> _Changes:
    changes = _Changes([], [], [], is_index_ahead=False)
    for status, path in _entries(listed):
        git.check()
        if status[:1] not in b" ?":
            changes.is_index_ahead = True
        if status[1:] != b" ":
            _sort_out(changes, os.fsencode(project_dir), path, limits, is_known=status != b"??")
    return changes


def _sort_out(changes: _Changes, project_dir: bytes, path: bytes, limits: CheckpointLimits, *, is_known: bool) -> None:
    reason = None
    if path.endswith(b"/"):
        reason = "it is a git repository of its own"
    elif any(part.lower() == b".git" for part in path.split(b"/")):
        reason = "git keeps no files of this name"
    else:
        full = os.path.join(project_dir, path)
        try:
            found = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            found = None
        except PermissionError:
            reason = "it cannot be read"
        if reason is not None or found is None or stat.S_ISLNK(found.st_mode):
            pass
        elif not stat.S_ISREG(found.st_mode):
            changes.drop += [path] if is_known else []
            return
        elif found.st_size > limits.file_bytes:
            reason = f"it is larger than {limits.file_bytes / _MB:.3g} MiB"
        elif not os.access(full, os.R_OK):
            reason = "it cannot be read"
        else:
            changes.new_bytes += found.st_size
    if reason is None:
        changes.put.append(path)
        changes.new_files += not is_known
        return
    changes.skipped.append(Skipped(os.fsdecode(path), reason))
    if is_known:
        changes.drop.append(path)


def _add_ignored_but_committed(
    changes: _Changes, project_dir: os.PathLike[str], git: StoreGit, limits: CheckpointLimits
) -> None:
    """What the user's own git tracks although .gitignore names it, as `git add --force` does."""
    listed = git.ask_user("ls-files", "-z", "--cached", "--ignored", "--exclude-standard") or ""
    for path in map(os.fsencode, filter(None, listed.split("\0"))):
        if os.path.lexists(os.path.join(os.fsencode(project_dir), path)):
            _sort_out(changes, os.fsencode(project_dir), path, limits, is_known=False)


def _check_limits(changes: _Changes, store: Store, limits: CheckpointLimits, *, is_first: bool) -> None:
    allowed = limits.first_bytes if is_first else limits.new_bytes
    count = store.index_count() + changes.new_files
    if changes.new_bytes > allowed:
        what = f"{changes.new_bytes / _MB:.0f} MiB are new, and {allowed / _MB:.0f} MiB may be"
    elif count > limits.files:
        what = f"there would be about {count:,} files in it, and {limits.files:,} may be"
    else:
        return
    # Where most of the files are, that is what the user may want to name.
    top, _ = Counter(path.split(b"/")[0] for path in changes.put).most_common(1)[0]
    raise CheckpointError(
        ErrorCode.TOO_LARGE,
        f"No checkpoint was made: {what}. Name what is made by programs in .gitignore; most is in "
        f"{os.fsencode(top).decode('utf-8', 'replace')!r}.",
    )
