"""Inquiries: what a running turn asks its user. Documents, so that they survive reloads and restarts and can be
answered from any client of that user, hours later."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.permissions import Rule, Trust, Verdict

MAX_DETAIL_BYTES = 200_000
"""Of what is shown to be approved, in UTF-8; a call with more is refused instead of shown in part."""
MAX_ANSWER_BYTES = 32_000


class InquiryKind(StrEnum):
    APPROVAL = "approval"
    """May this tool call run?"""
    QUESTION = "question"
    """The agent asks."""
    BUDGET = "budget"
    """The turn or its session has used up what it may; shall it go on?"""
    LOOP = "loop"
    """The agent repeats itself; shall it go on?"""
    TRUST = "trust"
    """The repository brings rules or instructions that its user has not trusted; shall they count?"""


class InquiryStatus(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"
    """Nobody answered in time: the default counts."""
    WITHDRAWN = "withdrawn"
    """It need not be answered any more: the turn ended, or went on without."""


class Choice(WireModel):
    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    label: Annotated[str, StringConstraints(min_length=1, max_length=500)]


ONCE, FOR_SESSION, FOR_PROJECT, DENY = "once", "session", "project", "deny"
"""The choices of an approval: this call; `rule` for the session; `rule` for the project; not this call. Of a trust:
`trust` for the project; not now."""
GO_ON, STOP = "goOn", "stop"
"""The choices of a budget or a loop."""


class Answer(WireModel):
    """`choice`, `text`, or both. With `deny`, the text tells the model what to do instead; no other choice of an
    approval takes a text."""

    choice: str | None = None
    text: Annotated[str, StringConstraints(max_length=MAX_ANSWER_BYTES)] | None = None


class Inquiry(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    session: Id
    turn: Id
    kind: InquiryKind
    call_id: str | None = None
    """The tool call it is about."""
    title: str
    """One line."""
    detail: str = ""
    """What would run or change, byte for byte: a command, a diff."""
    is_diff: bool = False
    """Whether `detail` is a unified diff that the tool made. No client guesses this from the text: the model writes
    commands, and can write one that looks like a diff."""
    choices: tuple[Choice, ...] = ()
    takes_text: bool = False
    """Whether an answer in the user's own words is taken."""
    default: Answer
    """What counts when nobody answers until `expiresAt`."""
    verdicts: tuple[Verdict, ...] = ()
    """Of an approval: why it asks."""
    rule: Rule | None = None
    """Of an approval: what `session` and `project` would allow from now on."""
    trust: Trust | None = None
    """Of a trust: what `project` would trust from now on."""
    expires_at: UtcTime
    status: InquiryStatus = InquiryStatus.PENDING
    answer: Answer | None = None
    answered_at: UtcTime | None = None

    def check(self, answer: Answer) -> str | None:
        """Why this does not take `answer`; None when it does."""
        if answer.choice is None and not (answer.text or "").strip():
            return "Say which choice, or answer in words."
        if answer.choice is not None and answer.choice not in {choice.id for choice in self.choices}:
            return f"There is no choice {answer.choice!r:.60}; there are: {', '.join(c.id for c in self.choices)}."
        if answer.choice is None and self.kind is InquiryKind.APPROVAL:
            return f"Choose one of {', '.join(c.id for c in self.choices)}; words may go with {DENY} alone."
        if self.kind is InquiryKind.APPROVAL and answer.choice != DENY and (answer.text or "").strip():
            # Words that ask for something else would change nothing: what was asked about would run as it is.
            return f"Words go with {DENY} alone: it is not run, and the agent reads what to do instead."
        if (answer.text or "").strip() and not self.takes_text:
            return "This takes one of its choices, and no words."
        return None


class InquiryAnswer(WireModel):
    """An answer on its way to the drone."""

    inquiry_id: Id
    status: InquiryStatus
    answer: Answer
