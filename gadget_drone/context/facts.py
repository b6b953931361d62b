"""What a summary keeps for sure: read from the messages by code, written in a form that can be read back.

Every line of it that came from outside starts with `> ` or `- `, so that no prompt and no file name makes a heading.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gadget_api.messages import (
    INTERRUPTED_RESULT,
    TRIMMED_RESULT,
    Message,
    ModelMessage,
    ToolCallRequest,
    ToolMessage,
    UserMessage,
)
from gadget_drone.clip import clip, head
from gadget_drone.context.plain import one_line

HEADER = (
    "[The conversation was made shorter to fit the model. What follows stands for its beginning; the files are as they "
    "were left.]"
)
NOTES = "## What the model noted"
_FIRST = "## What the user said first"
_BETWEEN = "## What the user said in between"
_LAST = "## What the user said last, before what follows"
_FILES = "## Files written or edited, the latest last"
_COMMANDS = "## Commands run, the latest last"
_TODO = "## Todo list"
_ANSWERS = "## Questions to the user, and the answers"
_SECTIONS = (_FIRST, _BETWEEN, _LAST, _FILES, _COMMANDS, _TODO, _ANSWERS)

_FIRST_BYTES, _LAST_BYTES, _BETWEEN_CHARS = 4_000, 8_000, 300
_WORTH_BYTES, _CLIP_BYTES = 20, 200
"""Less than the first is not worth quoting. From the second on a quotation is worth an end besides its beginning."""
_MAX_BETWEEN, _MAX_FILES, _MAX_COMMANDS, _MAX_TODO, _MAX_ANSWERS = 20, 100, 30, 50, 20

_WRITING = frozenset({"write", "edit", "apply_patch"})
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)(?!/dev/null)(.+)$", re.M
)
_STATUS = re.compile(r"\[(exit status -?\d+|killed[^;\]\n]*?)(?: after [\d.]+ s)?[;\]]")
_STATUS_CHARS = 500
_DONE = frozenset({"done", "completed", "complete"})
_DOING = frozenset({"in_progress", "inProgress", "doing", "active"})


@dataclass(frozen=True)
class Facts:
    """Of a part of a conversation, and of the summaries that were in it."""

    first: str = ""
    """The first thing the user said, word for word up to a cap."""
    between: tuple[str, ...] = ()
    """A line each."""
    last: str = ""
    """Word for word up to a cap; empty when it is also the first."""
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Each with how it ended."""
    todo: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    notes: str = ""
    """What the model said in the summary before."""

    def text(self, max_bytes: int) -> str:
        """In at most `max_bytes`, without the notes. Where not all of it fits, each section gets half of what the more
        important ones left, or more where the less important ones need less. So a short first prompt stays whole in
        the smallest summary."""
        sections = self._sections()
        room = max_bytes - len(HEADER)
        later = sum(section.size_bytes for section in sections)
        for section in sections:
            later -= section.size_bytes
            section.shorten(max(room // 2, room - later))
            room -= section.size_bytes
        sections.sort(key=lambda section: _SECTIONS.index(section.name))
        return "\n".join([HEADER, *("\n".join(["", one.name, *one.lines]) for one in sections if one.lines)])

    def _sections(self) -> list["_Section"]:
        """The most important one first."""

        def items(lines: tuple[str, ...], most: int) -> list[str]:
            return [f"- {line}" for line in lines[-most:]]

        return [
            _Section(_FIRST, _quoted(clip(self.first, _FIRST_BYTES)), text=self.first),
            _Section(_LAST, _quoted(clip(self.last, _LAST_BYTES)), text=self.last),
            _Section(_TODO, items(self.todo, _MAX_TODO), is_newest_last=False),
            _Section(_FILES, items(self.files, _MAX_FILES)),
            _Section(_COMMANDS, items(self.commands, _MAX_COMMANDS)),
            _Section(_ANSWERS, items(self.answers, _MAX_ANSWERS)),
            _Section(_BETWEEN, items(self.between, _MAX_BETWEEN)),
        ]


@dataclass
class _Section:
    name: str
    lines: list[str]
    text: str | None = None
    """What the user said, where the section quotes it."""
    is_newest_last: bool = True

    @property
    def size_bytes(self) -> int:
        return _size_bytes(self.lines) + len(self.name) + 2 if self.lines else 0

    def shorten(self, max_bytes: int) -> None:
        """A quotation loses its middle, a list its oldest lines, the todo list its last ones."""
        if self.size_bytes <= max_bytes:
            return
        room = max_bytes - len(self.name) - 2
        if self.text is not None:
            self.lines = _quoted_in(self.text, room)
            return
        while self.lines and _size_bytes(self.lines) > room:
            self.lines.pop(0 if self.is_newest_last else -1)


def facts_of(messages: Sequence[Message], outcomes: Mapping[str, str] | None = None) -> Facts:
    """The facts in `messages`, and those of the summary that they begin with. `outcomes`: how the commands ended whose
    results were removed, by call id."""
    first, *rest = messages or (UserMessage(content=""),)
    if isinstance(first, UserMessage) and is_summary(first.content):
        known = read_facts(first.content)
    else:
        known, rest = Facts(), list(messages)
    results = {message.call_id: message for message in rest if isinstance(message, ToolMessage)}
    found = _Found(known)
    for message in rest:
        if isinstance(message, UserMessage):
            found.heard(_said(message))
        elif isinstance(message, ModelMessage):
            for call in message.tool_calls:
                if call.error is None:
                    found.called(call, results.get(call.call_id), outcomes or {})
    return found.facts


def outcome_of(result: ToolMessage | None) -> str:
    """How a command ended, in a few words, by what the shell tool says at the end of its result."""
    if result is None or result.content == INTERRUPTED_RESULT:
        return "interrupted, outcome unknown"
    if result.content == TRIMMED_RESULT:
        return "ended"
    statuses: list[str] = _STATUS.findall(result.content[-_STATUS_CHARS:])
    return statuses[-1] if statuses else "did not run to an end"


def is_summary(content: str) -> bool:
    return content.startswith(HEADER)


def read_facts(summary: str) -> Facts:
    """The facts that `summary` was made of, as far as they were written down."""
    written, _, notes = summary.partition(f"\n{NOTES}\n")
    lines: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    section: list[str] = []
    for line in written.split("\n"):
        if line in lines:
            section = lines[line]
        elif line.startswith(("> ", "- ")):
            section.append(line[2:])
    return Facts(
        first="\n".join(lines[_FIRST]),
        between=tuple(lines[_BETWEEN]),
        last="\n".join(lines[_LAST]),
        files=tuple(lines[_FILES]),
        commands=tuple(lines[_COMMANDS]),
        todo=tuple(lines[_TODO]),
        answers=tuple(lines[_ANSWERS]),
        notes=notes.strip(),
    )


@dataclass
class _Found:
    facts: Facts
    files: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = dict.fromkeys(self.facts.files)

    def heard(self, said: str) -> None:
        facts = self.facts
        if not facts.first:
            self.facts = replace(facts, first=said)
            return
        before = (one_line(facts.last, _BETWEEN_CHARS),) if facts.last else ()
        self.facts = replace(facts, between=(*facts.between, *before)[-_MAX_BETWEEN:], last=said)

    def called(self, call: ToolCallRequest, result: ToolMessage | None, outcomes: Mapping[str, str]) -> None:
        facts = self.facts
        if call.name in _WRITING:
            for path in _paths(call.params):
                self.files.pop(path, None)  # what was touched again moves to the end
                self.files[path] = None
            self.facts = replace(facts, files=tuple(self.files)[-_MAX_FILES:])
        elif call.name == "shell" and isinstance(command := call.params.get("command"), str):
            line = f"`{one_line(command)}`: {outcomes.get(call.call_id) or outcome_of(result)}"
            self.facts = replace(facts, commands=(*facts.commands, line)[-_MAX_COMMANDS:])
        elif call.name == "todo" and (todo := _todo(call.params)) is not None:
            self.facts = replace(facts, todo=todo)
        elif call.name == "ask_user" and isinstance(question := call.params.get("question"), str):
            answer = one_line(result.content) if result is not None else "(no answer yet)"
            line = f"{one_line(question)} -> {answer}"
            self.facts = replace(facts, answers=(*facts.answers, line)[-_MAX_ANSWERS:])


def _said(message: UserMessage) -> str:
    images = f"\n[with {len(message.images)} images]" if message.images else ""
    return f"{clip(message.content, _LAST_BYTES)}{images}"


def _quoted(text: str) -> list[str]:
    return [f"> {line}" for line in text.split("\n")] if text else []


def _quoted_in(text: str, max_bytes: int) -> list[str]:
    """As much of `text` as fits with its quotation marks; nothing where that is a few characters."""
    size = max_bytes
    while size >= _WORTH_BYTES:
        lines = _quoted(clip(text, size) if size >= _CLIP_BYTES else f"{head(text, size - len('…'.encode()))}…")
        if (over := _size_bytes(lines) - max_bytes) <= 0:
            return lines
        size -= over
    return []


def _size_bytes(lines: list[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _paths(params: dict[str, Any]) -> Iterator[str]:
    """The files that a call names: as `path`, in a list of edits, or else in the text of a patch."""
    items = [params, *(item for value in params.values() if isinstance(value, list) for item in value)]
    named = [item["path"] for item in items if isinstance(item, dict) and isinstance(item.get("path"), str)]
    texts = () if named else [value for value in params.values() if isinstance(value, str)]
    yield from map(one_line, [*named, *(path for text in texts for path in _PATCHED.findall(text))])


def _todo(params: dict[str, Any]) -> tuple[str, ...] | None:
    """The list in a call of `todo`, a line an entry; None when there is none in it."""
    items = next((value for value in params.values() if isinstance(value, list)), None)
    if items is None:
        return None
    lines = []
    for item in items[:_MAX_TODO]:
        entry = item if isinstance(item, dict) else {"text": str(item)}
        status = entry.get("status")
        mark = "x" if status in _DONE or entry.get("done") is True else "~" if status in _DOING else " "
        texts = [value for key, value in entry.items() if isinstance(value, str) and key not in ("status", "id")]
        lines.append(f"[{mark}] {one_line(' '.join(texts))}")
    return tuple(lines)
