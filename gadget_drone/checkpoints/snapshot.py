"""The files as they are now, as a tree in the store: one git process when nothing changed, three when something did.

Git follows a link that a command exchanges for a directory at the right moment, and would read what is outside of the
project. So git writes no content into the store. What changed is read here, from the project's directory without
following links, and git only notes it in the index: its id, as git sees it, and its times. Git makes no tree of an
index that names what the store has not.
"""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gadget_api.errors import ErrorCode
from gadget_drone.checkpoints.compare import shown
from gadget_drone.checkpoints.limits import CheckpointError, CheckpointLimits
from gadget_drone.checkpoints.store import Store
from gadget_drone.checkpoints.store_git import GitFailed, StoreGit
from gadget_drone.checkpoints.work_tree import WorkTree, is_the_projects

_BATCH = 5000
"""Files for one git; each leaves its part in the index, so that the next try goes on from there."""
_BATCH_BYTES = 32 * 1024 * 1024
"""Read at a time, and up to one file more."""
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
    with WorkTree(store.project_dir) as work_tree:
        return _look_until_well(store, work_tree, git, limits)


def _look_until_well(store: Store, work_tree: WorkTree, git: StoreGit, limits: CheckpointLimits) -> Now:
    _check_room(store, git, limits)
    repairs = iter((_nothing, _read_all_again, _begin_anew))
    while True:
        try:
            return _look(store, work_tree, git, limits)
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


def _look(store: Store, work_tree: WorkTree, git: StoreGit, limits: CheckpointLimits) -> Now:
    head = store.head(git)
    listed = git.run(
        *("status", "--porcelain=v1", "-z", "--untracked-files=all"), "--no-renames", "--ignore-submodules=all"
    )
    is_first = head is None or store.index_count() == 0
    changes = _sorted_out(listed, work_tree, git, limits)
    if is_first:
        _add_ignored_but_committed(changes, work_tree, git, limits)
    _check_limits(changes, store, limits, is_first=is_first)
    skipped = tuple(sorted(changes.skipped, key=lambda skipped: skipped.path))
    if head is not None and not (changes.put or changes.drop or changes.is_index_ahead):
        return Now(head.tree, skipped, is_head=True)
    if changes.drop:
        _set(git, dict.fromkeys(changes.drop, _no_entry(store)))
    entries: dict[bytes, bytes] = {}
    left = iter(changes.put)
    while some := _put(store, work_tree, git, limits, left):
        entries |= some
    try:
        written = git.run("write-tree")
    except GitFailed:
        # Git has seen something else: a file changed meanwhile, or a link led it elsewhere.
        noted, nothing = _index(git), _no_entry(store)
        _set(git, {path: entry for path, entry in entries.items() if noted.get(path, nothing) != entry})
        written = git.run("write-tree")
    tree = written.decode().strip()
    return Now(tree, skipped, is_head=head is not None and head.tree == tree)


def _put(
    store: Store, work_tree: WorkTree, git: StoreGit, limits: CheckpointLimits, paths: Iterator[bytes]
) -> dict[bytes, bytes]:
    """Takes the next batch of `paths` into the store; what the index is to have for each."""
    entries: dict[bytes, bytes] = {}
    blobs: dict[str, bytes] = {}
    size = 0
    for path in paths:
        git.check()
        try:
            found = work_tree.read(path, limits.file_bytes)
        except OSError as error:
            raise GitFailed("update-index", 0, f"{shown(path)} cannot be read ({error.strerror})") from error
        entries[path] = _no_entry(store)
        if found is not None:
            mode, content = found
            name = store.hash_of("blob", content)
            entries[path] = b"%b %b" % (mode, name.encode())
            blobs[name] = content
            size += len(content)
        if len(entries) == _BATCH or size > _BATCH_BYTES:
            break
    store.add_blobs(git, blobs)
    if entries:
        feed = (path + b"\0" for path in entries)
        try:
            git.run("update-index", "--info-only", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
        except GitFailed:  # as below: something is not what it was a moment ago
            _set(git, entries)
    return entries


def _no_entry(store: Store) -> bytes:
    return b"0 %b" % (b"0" * len(store.empty_tree))


def _set(git: StoreGit, entries: dict[bytes, bytes]) -> None:
    """Without the times of files: the next snapshot reads these again."""
    git.run("update-index", "-z", "--index-info", feed=(b"%b\t%b\0" % (entry, path) for path, entry in entries.items()))


def _index(git: StoreGit) -> dict[bytes, bytes]:
    lines = (line.partition(b"\t") for line in git.run("ls-files", "--stage", "-z").split(b"\0")[:-1])
    return {path: meta.removesuffix(b" 0") for meta, _, path in lines}


def _entries(listed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each `XY` and its path."""
    for line in listed.split(b"\0"):
        if line:
            yield line[:2], line[3:]


def _sorted_out(listed: bytes, work_tree: WorkTree, git: StoreGit, limits: CheckpointLimits) -> _Changes:
    changes = _Changes([], [], [], is_index_ahead=False)
    for status, path in _entries(listed):
        git.check()
        if status[:1] not in b" ?":
            changes.is_index_ahead = True
        if status[1:] != b" ":
            _sort_out(changes, work_tree, path, limits, is_known=status != b"??")
    return changes


def _sort_out(changes: _Changes, work_tree: WorkTree, path: bytes, limits: CheckpointLimits, *, is_known: bool) -> None:
    reason = None
    if path.endswith(b"/"):
        reason = "it is a git repository of its own"
    elif not is_the_projects(path):
        reason = "it is not the project's"
    else:
        try:
            found = work_tree.find(path)
        except PermissionError:
            reason = "it cannot be read"
        if reason is not None or found is None or stat.S_ISLNK(found.st_mode):
            pass
        elif not stat.S_ISREG(found.st_mode):
            changes.drop += [path] if is_known else []
            return
        elif found.st_size > limits.file_bytes:
            reason = f"it is larger than {limits.file_bytes / _MB:.3g} MiB"
        elif not work_tree.is_readable(path):
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


def _add_ignored_but_committed(changes: _Changes, work_tree: WorkTree, git: StoreGit, limits: CheckpointLimits) -> None:
    """What the user's own git tracks although .gitignore names it, as `git add --force` does."""
    listed = git.ask_user("ls-files", "-z", "--cached", "--ignored", "--exclude-standard") or ""
    for path in map(os.fsencode, filter(None, listed.split("\0"))):
        if is_the_projects(path) and work_tree.find(path) is not None:
            _sort_out(changes, work_tree, path, limits, is_known=False)


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
