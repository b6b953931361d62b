"""Keeping the store small: the oldest checkpoints go, by age and by size. All block."""

import time

from gadget_drone.checkpoints.limits import CheckpointLimits
from gadget_drone.checkpoints.store import REFS, Store
from gadget_drone.checkpoints.store_git import GitFailed, StoreGit


def prune(store: Store, git: StoreGit, limits: CheckpointLimits, *, now: float | None = None) -> int:
    """How many checkpoints went; the newest stays. `now`: seconds since the epoch. Raises GitFailed and Stopped."""
    now = time.time() if now is None else now
    kept = _checkpoints(git)
    aged = [ref for ref, at in kept[:-1] if at < now - limits.age_s]
    store.remove_refs(git, aged)
    removed = len(aged)
    kept = kept[len(aged) :]
    _pack(store, git)
    while store.size_bytes(git) > limits.store_bytes and len(kept) > 1:
        # Half of them at a time: packing is what takes long.
        half = [ref for ref, _ in kept[: len(kept) // 2]]
        store.remove_refs(git, half)
        removed += len(half)
        kept = kept[len(half) :]
        _pack(store, git)
    return removed


def _checkpoints(git: StoreGit) -> list[tuple[str, float]]:
    """Name and time of each, the oldest first."""
    refs = git.run("for-each-ref", "--format=%(refname)", REFS).decode().splitlines()
    return [(ref, int(ref.rpartition("/")[2].partition("-")[0]) / 1e9) for ref in refs]


def _pack(store: Store, git: StoreGit) -> None:
    """One pack of what checkpoints and the index hold; everything else goes."""
    try:
        _repack(git)
    except GitFailed:
        broken = [ref for ref, _ in _checkpoints(git) if not _is_whole(git, ref)]
        store.remove_refs(git, broken)
        if broken:
            store.notices.append(f"{len(broken)} checkpoints were damaged, and are gone.")
        store.forget_index()
        _repack(git)


def _repack(git: StoreGit) -> None:
    git.run("pack-refs", "--all", "--prune")
    # Old packs go only when the new one is on the disk.
    git.run("repack", "-a", "-d", "-q", "--window=10", "--threads=1")
    git.run("prune", "--expire=now")


def _is_whole(git: StoreGit, ref: str) -> bool:
    try:
        git.run("rev-list", "--objects", "--quiet", "--no-walk", ref)
    except GitFailed:
        return False
    return True
