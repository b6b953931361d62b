"""A change that the model made to a file as it knows it, and the file as it is on disk now."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gadget_drone.clip import quoted
from gadget_drone.editing.diff import shown, unified_diff
from gadget_drone.editing.merging import merged
from gadget_drone.editing.replacing import Edited
from gadget_drone.editing.seen import Seen
from gadget_drone.editing.text import Text, decoded
from gadget_drone.errors import ToolError

Change = Callable[[Text, bool], Edited]
"""The change, made to a text. The flag: what it looks for must be there exactly."""


@dataclass(frozen=True)
class Reconciled:
    data: bytes
    """What the file is to be."""
    said: str


def reconciled(data: bytes, seen: Seen | None, change: Change, path: str, *, proves: bool) -> Reconciled:
    """`change` made to a file that is `data` and of which the model knows `seen`.

    Where the file changed since: both changes when they do not touch each other, or else a refusal that says what
    changed. `proves`: the change itself says what it replaces, so that it may be made to what the model has not read.
    Raises `ToolError`. Blocks.
    """
    text = decoded(data, path)
    if seen is None or seen.is_of(data):
        edited = change(text, False)
        return Reconciled(text.encoded(edited.content, path), edited.said)
    if seen.content is None:
        raise ToolError(
            f"{quoted(path)} changed on disk since you read it, and is too large to compare: read it again."
        )
    base = decoded(seen.content, path)
    told = _told(base, text, path)
    try:
        ours = change(base, False)
    except ToolError:
        if not proves:
            raise
        # What it looks for came with the change on disk: the model knows that from elsewhere, such as a command.
        edited = change(text, True)
        return Reconciled(text.encoded(edited.content, path), f"{edited.said} {told}")
    both = merged(ours.content, base.content, text.content) if _same_form(base, text) else None
    if both is None:
        raise ToolError(f"{quoted(path)} was not changed: {told}Your change touches that one: read the file again.")
    return Reconciled(text.encoded(both, path), f"{ours.said} {told}Both changes are in the file now.")


def _same_form(one: Text, other: Text) -> bool:
    return replace(one, content="") == replace(other, content="")


def _told(base: Text, text: Text, path: str) -> str:
    diff = shown(unified_diff(base.content, text.content, f"a/{path}", f"b/{path}"))
    if not diff:
        diff = f"(its encoding: {base.name} before, {text.name} now)\n"
    return f"The user, or a command, changed the file since you read it:\n{diff}"
