"""What differs between two trees of the store: as lists of files, and as diffs. All block."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from gadget_api.checkpoints import MAX_LISTED_FILES, Diff, FileChange, FileDiff
from gadget_drone.checkpoints.store_git import StoreGit

MAX_FILE_DIFF_BYTES = 100_000
MAX_DIFF_BYTES = 600_000
MAX_DIFF_FILES = 2000
_STATUS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "typeChanged"}
_GITLINK = "160000"
_COMPARE = (
    *("diff-tree", "-r", "--full-index", "--no-abbrev", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
)


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    tree: str
    skipped: frozenset[str] = frozenset()
    """What was there without being in the tree; see `store.Commit`."""
    alternates: str | None = None
    """An object directory that `tree` is read from, besides the store."""

    def left_out(self, path: str) -> bool:
        parts = path.split("/")
        return path in self.skipped or any("/".join(parts[:end]) + "/" in self.skipped for end in range(1, len(parts)))


@dataclass(frozen=True)
class Change:
    """A file that differs; paths as their bytes on the disk."""

    kind: str
    """A letter of `_STATUS`."""
    mode: str
    """The new one, octal: 100644, 100755 or 120000 (a symlink); 000000 when it is deleted."""
    object_id: str
    """The new content."""
    path: bytes
    old_path: bytes | None = None


def differences(git: StoreGit, old: Side, new: Side) -> list[Change]:
    """Without renames. Raises GitFailed when one of the trees is not whole."""
    if old.tree == new.tree:
        return []
    changes, _ = _parsed(git.run(*_COMPARE, "-z", "--raw", "--no-renames", old.tree, new.tree))
    return [change for change in changes if change.mode != _GITLINK]


def changed_files(git: StoreGit, old: Side, new: Side) -> list[FileChange]:
    """With renames and counts of lines, by path. Raises GitFailed when one of the trees is not whole."""
    return [file for file in _files(git, old, new) if not _is_unknown(file, old, new)]


def listed(files: list[FileChange]) -> tuple[list[FileChange], int]:
    """The first of them, as an event carries them, and how many there are."""
    return files[:MAX_LISTED_FILES], len(files)


def diff(git: StoreGit, old: Side, new: Side) -> Diff:
    """As `changed_files`, with each file's diff, which is whole or left out."""
    files = _files(git, old, new)
    answer: list[FileDiff] = []
    count = 0
    left = MAX_DIFF_BYTES
    if not files:
        return Diff(files=(), file_count=0)
    arguments = (*_COMPARE, "-p", "-M", "--src-prefix=a/", "--dst-prefix=b/", old.tree, new.tree)
    with git.stream(*arguments, alternates=old.alternates) as output:
        sections = _sections(output, git)
        for file in files:
            # A change of type is a deletion and an addition.
            texts = [next(sections, None) for _ in range(2 if file.status == "typeChanged" else 1)] if left else [None]
            if _is_unknown(file, old, new):
                continue
            count += 1
            if len(answer) == MAX_DIFF_FILES:
                left = 0
                continue
            if file.added is None:
                answer.append(FileDiff(**dict(file)))
                continue
            text = b"".join(part or b"" for part in texts)
            if None in texts or len(text) > MAX_FILE_DIFF_BYTES:
                answer.append(FileDiff(**dict(file), truncated=True))
            elif len(text) > left:
                left = 0
                answer.append(FileDiff(**dict(file), truncated=True))
            else:
                left -= len(text)
                answer.append(FileDiff(**dict(file), diff=text.decode("utf-8", "replace")))
    truncated = count > len(answer) or any(file.truncated for file in answer)
    return Diff(files=tuple(answer), file_count=count, truncated=truncated)


def _files(git: StoreGit, old: Side, new: Side) -> list[FileChange]:
    if old.tree == new.tree:
        return []
    arguments = (*_COMPARE, "-z", "--raw", "--numstat", "-M", old.tree, new.tree)
    changes, counts = _parsed(git.run(*arguments, alternates=old.alternates))
    return [
        FileChange(
            path=shown(change.path),
            old_path=shown(change.old_path) if change.old_path is not None else None,
            status=_STATUS[change.kind],
            added=counts.get(change.path, (None, None))[0],
            removed=counts.get(change.path, (None, None))[1],
        )
        for change in changes
    ]


def _is_unknown(file: FileChange, old: Side, new: Side) -> bool:
    """Whether it only seems to have come or gone, for one side has not looked at it."""
    return (file.status == "deleted" and new.left_out(file.path)) or (
        file.status == "added" and old.left_out(file.path)
    )


def shown(path: bytes) -> str:
    """For a person: what is no UTF-8 is replaced."""
    return path.decode("utf-8", "replace")


def _sections(output: IO[bytes], git: StoreGit) -> Iterator[bytes | None]:
    """The diff of each file, in order; None for one that is too large."""
    section: list[bytes] = []
    size = 0
    for line in output:
        # A line of content begins with a space, a sign or a backslash.
        if line.startswith(b"diff --git "):
            git.check()
            if size:
                yield b"".join(section) if size <= MAX_FILE_DIFF_BYTES else None
            section, size = [], 0
        size += len(line)
        if size <= MAX_FILE_DIFF_BYTES:
            section.append(line)
    if size:
        yield b"".join(section) if size <= MAX_FILE_DIFF_BYTES else None


def _parsed(listing: bytes) -> tuple[list[Change], dict[bytes, tuple[int | None, int | None]]]:
    """What `--raw`, and `--numstat` after it, print with `-z`; the counts of a binary file are None."""
    changes: list[Change] = []
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    fields = iter(listing.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            _, mode, _, object_id, status = os.fsdecode(field).split(" ")
            path, old_path = next(fields), None
            if status[0] == "R":
                old_path, path = path, next(fields)
            changes.append(Change(status[0], mode, object_id, path, old_path))
        else:
            added, removed, path = field.split(b"\t", 2)
            if not path:  # renamed
                _, path = next(fields), next(fields)
            counts[path] = (None, None) if added == b"-" else (int(added), int(removed))
    return changes, counts
