"""Changes of several files, all made or none. Functions block, and raise `ToolError`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gadget_drone.clip import quoted
from gadget_drone.disk.confined import (
    AS_IT_IS,
    Mode,
    file_mode,
    find_whole,
    remove_file,
    replace_file,
)
from gadget_drone.editing.diff import unified_diff
from gadget_drone.editing.seen import SeenFiles
from gadget_drone.editing.text import decoded
from gadget_drone.errors import ToolError


@dataclass(frozen=True)
class FileChange:
    path: str
    """As the model wrote it."""
    target: str
    """What it stands for."""
    before: bytes | None
    """What the file is; None: there is none."""
    after: bytes | None
    """What it is to be; None: it is removed."""
    mode: Mode = AS_IT_IS


def make(root: Path, changes: Sequence[FileChange], seen: SeenFiles) -> None:
    """Makes all changes, in order, or none: what fails puts back what was written before it.

    Checks first that every file still is what its change was made from. A drone that is killed midway leaves the files
    that it had written; each of them is whole.
    """
    changes = [change for change in changes if change.before != change.after or change.mode != AS_IT_IS]
    for change in changes:
        if find_whole(root, change.target) != change.before:
            raise ToolError(f"{quoted(change.path)} changed at this very moment: nothing was written; try again.")
    done: list[tuple[FileChange, Mode]] = []
    try:
        for change in changes:
            done.append((change, Mode(file_mode(root, change.target)) if change.before is not None else AS_IT_IS))
            _make(root, change.target, change.after, change.mode)
    except (ToolError, OSError) as error:
        said = error.message if isinstance(error, ToolError) else str(error)
        left = _put_back(root, done)
        raise ToolError(said + (f" Could not be put back: {', '.join(left)}." if left else "")) from error
    for change in changes:
        if change.after is None:
            seen.forget(change.target)
        else:
            seen.note(change.target, change.after)


def _make(root: Path, target: str, data: bytes | None, mode: Mode) -> None:
    if data is None:
        remove_file(root, target)
    else:
        replace_file(root, target, data, make_parents=True, mode=mode)


def _put_back(root: Path, done: Sequence[tuple[FileChange, Mode]]) -> list[str]:
    """The last first; what could not be put back."""
    left: list[str] = []
    for change, mode in reversed(done):
        try:
            is_there = find_whole(root, change.target) == change.before
            if not is_there or (mode.bits is not None and file_mode(root, change.target) != mode.bits):
                _make(root, change.target, change.before, mode)
        except (ToolError, OSError):
            left.append(quoted(change.path))
    return left


def diff_of(changes: Sequence[FileChange]) -> str:
    """The unified diff of all changes, as git writes it."""
    return "".join(map(_diff, changes))


def _diff(change: FileChange) -> str:
    head = f"diff --git a/{change.path} b/{change.path}\n"
    if change.before is None:
        head += f"new file mode {0o100000 | change.mode.of(0o644):o}\n"
    elif change.after is None:
        head += "deleted file\n"
    elif change.mode.executable is not None:
        head += f"new mode {0o100000 | change.mode.of(0o644):o}\n"
    elif change.before == change.after:
        return ""
    texts = []
    for data in (change.before, change.after):
        try:
            texts.append("" if data is None else _text(data, change.path))
        except ToolError:
            sizes = " and ".join(
                "nothing" if data is None else f"{len(data)} bytes" for data in (change.before, change.after)
            )
            return f"{head}Binary files differ: {sizes}\n"
    old, new = (
        "/dev/null" if data is None else f"{side}/{change.path}"
        for side, data in (("a", change.before), ("b", change.after))
    )
    return head + unified_diff(texts[0], texts[1], old, new)


def _text(data: bytes, path: str) -> str:
    text = decoded(data, path)
    return text.mark.decode("utf-8", "ignore") + text.content if text.encoding == "utf-8" else text.content
