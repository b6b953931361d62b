"""What a summary keeps for sure: read from the messages by code, written in a form that can be read back.

Every line of it that came from outside starts with `> ` or `- `, so that no prompt and no file name makes a heading.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gadget_api.messages import INTERRUPTED, TRIMMED, Message, ModelMessage, ToolCallRequest, ToolMessage, UserMessage
from gadget_drone.context.plain import one_line
from gadget_drone.tools.clip import clip

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
_WORTH_BYTES = 110
"""Less is not worth cutting a text to."""
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
        """In at most `max_bytes`, of which the header alone needs 130, without the notes. Where it is too much there is
        less of each, the newest kept longest."""
        for share in (1.0, 0.5, 0.25, 0.1):
            text = self._text(share)
            if len(text.encode()) <= max_bytes:
                return text
        room = max_bytes - len(HEADER) - 1
        return f"{HEADER}\n{clip(text[len(HEADER) :], room)}" if room >= _WORTH_BYTES else HEADER

    def _text(self, share: float) -> str:
        def newest(lines: tuple[str, ...], most: int) -> list[str]:
            kept = max(1, int(most * share))
            return [f"- {line}" for line in lines[-kept:]]

        sections = {
            _FIRST: _quoted(clip(self.first, int(_FIRST_BYTES * share))),
            _BETWEEN: newest(self.between, _MAX_BETWEEN),
            _LAST: _quoted(clip(self.last, int(_LAST_BYTES * share))),
            _FILES: newest(self.files, _MAX_FILES),
            _COMMANDS: newest(self.commands, _MAX_COMMANDS),
            _TODO: [f"- {line}" for line in self.todo[: int(_MAX_TODO * share)]],
            _ANSWERS: newest(self.answers, _MAX_ANSWERS),
        }
        return "\n".join([HEADER, *("\n".join(["", name, *lines]) for name, lines in sections.items() if lines)])


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
    if result is None or result.content == INTERRUPTED:
        return "interrupted, outcome unknown"
    if result.content == TRIMMED:
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
