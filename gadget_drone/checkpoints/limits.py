"""What a checkpoint may cost, and where none are made."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gadget_api.errors import GadgetError

_MiB = 1024 * 1024

_SHARED = frozenset(
    map(Path, ("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/run", "/sbin"))
) | frozenset(map(Path, ("/srv", "/sys", "/tmp", "/Users", "/usr", "/usr/local", "/var", "/var/tmp")))
"""Directories that hold what many programs or people have."""


class CheckpointError(GadgetError):
    """No checkpoint, no restore or no diff; the files are as they were, and the turn goes on.

    `checkpointsOff`: none here, until something changes that the message names; `checkpointGone`: it is not, or not
    whole, in the store; `tooLarge`: a limit; `gitFailed`: git, the disk or the time; then trying again may help.
    """

    http_status: ClassVar[int] = 409
    title: ClassVar[str] = "No checkpoint"


@dataclass(frozen=True)
class CheckpointLimits:
    """Why: snapshots of other agents took 90 s a turn, filled disks with 98-533 GB, and took in whole homes."""

    take_s: float = 20.0
    first_take_s: float = 60.0
    """The first of a project reads every file: 50,000 take 9 s on two busy cores."""
    restore_s: float = 120.0
    diff_s: float = 30.0
    prune_s: float = 600.0
    file_bytes: int = 10 * _MiB
    """Larger files are left out."""
    new_bytes: int = 200 * _MiB
    """In changed files, in one snapshot; `first_bytes` in the first."""
    first_bytes: int = 1024 * _MiB
    files: int = 200_000
    store_bytes: int = 2048 * _MiB
    """`prune` brings the store below it; past one and a half of it nothing is taken until then."""
    age_s: float = 30 * 24 * 3600.0
    free_bytes: int = 64 * _MiB
    """Left on the disk for others."""


def refusal(store_dir: Path, project_dir: Path) -> str | None:
    """Why the files in `project_dir` get no checkpoints, as a sentence; None when they may have some."""
    project, home = project_dir.resolve(), Path.home().resolve()
    if project == Path(project.anchor):
        where = "the root directory"
    elif project == home:
        where = "your home directory"
    elif home.is_relative_to(project) or project in _SHARED:
        where = "a directory that others share"
    elif _is_around_the_workspace(store_dir, project):
        where = "a directory that the whole workspace is in"
    else:
        return None
    return f"There are no checkpoints of {where} ({project}): work in a directory of the project's own."


def _is_around_the_workspace(store_dir: Path, project: Path) -> bool:
    """The store is in the workspace's `.gadget/`, and a project is the workspace or in it."""
    store = store_dir.resolve()
    return store.is_relative_to(project) and store.relative_to(project).parts[:1] != (".gadget",)
