"""One case of the corpus: files, a call, and what must come of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    files: Mapping[str, bytes]
    tool: str
    params: Mapping[str, Any]
    after: Mapping[str, bytes | None] | None
    """The files that the call changes, with their new content; None instead of content: it is gone. None for all: the
    call must be refused, and no file may change."""
    says: str = ""
    """A part of the refusal."""


def edited(name: str, before: str | bytes, old: str, new: str, after: str | bytes | None, says: str = "") -> Case:
    return several(name, before, [{"old_text": old, "new_text": new}], after, says)


def several(
    name: str, before: str | bytes, edits: list[dict[str, Any]], after: str | bytes | None, says: str = ""
) -> Case:
    return Case(
        name,
        {"f": _bytes(before)},
        "edit",
        {"path": "f", "edits": edits},
        None if after is None else {"f": _bytes(after)},
        says,
    )


def patched(
    name: str,
    files: Mapping[str, str | bytes],
    patch: str,
    after: Mapping[str, str | bytes | None] | None,
    says: str = "",
) -> Case:
    changed = None if after is None else {path: None if text is None else _bytes(text) for path, text in after.items()}
    return Case(
        name, {path: _bytes(text) for path, text in files.items()}, "apply_patch", {"patch": patch}, changed, says
    )


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
