"""Inquiries: the questions of a running turn to its user. They are stored as documents, so that they survive restarts
and the user can answer them hours later from any client."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel
from gadget_api.permissions import Rule, Trust, Verdict

MAX_DETAIL_BYTES = 200_000
"""The largest `detail` in UTF-8. A call with a larger one is refused, because the user would see only a part of it."""
MAX_ANSWER_TEXT_BYTES = 32_000


class InquiryKind(StrEnum):
    APPROVAL = "approval"
    """May this tool call run?"""
    QUESTION = "question"
    """A question of the agent."""
    BUDGET = "budget"
    """The budget of the turn or the session is used up. May the turn continue?"""
    LOOP = "loop"
    """The agent repeats itself. May the turn continue?"""
    TRUST = "trust"
    """The repository contains rules or instructions that the user has not trusted. Do they apply?"""


class InquiryStatus(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"
    """The time for an answer is over: the default applies."""
    WITHDRAWN = "withdrawn"
    """An answer is no longer necessary: the turn has ended or has continued without it."""


class Choice(WireModel):
    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    label: Annotated[str, StringConstraints(min_length=1, max_length=500)]


ONCE, FOR_SESSION, FOR_PROJECT, DENY = "once", "session", "project", "deny"
"""The choices of an approval: allow this call; allow `rule` in the session; allow `rule` in the project; deny. A trust
inquiry has two of them: `project` trusts `trust`, `deny` does not for now."""
GO_ON, STOP = "goOn", "stop"
"""The choices of a budget or loop inquiry."""


class Answer(WireModel):
    """`choice`, `text`, or both. In an approval only `deny` may have a text: it tells the model what to do instead."""

    choice: str | None = None
    text: Annotated[str, StringConstraints(max_length=MAX_ANSWER_TEXT_BYTES)] | None = None


class Inquiry(WireModel):
    id: Id = Field(alias="_id")
    created_at: UtcTime
    user: Id
    session: Id
    turn: Id
    kind: InquiryKind
    call_id: str | None = None
    """The tool call that needs the answer."""
    title: str
    """One line."""
    detail: str = ""
    """The exact command or diff that the user approves."""
    is_diff: bool = False
    """Whether `detail` is a unified diff made by the tool. Clients must not guess this from the text: the model can
    write a command that looks like a diff."""
    choices: tuple[Choice, ...] = ()
    takes_text: bool = False
    """Whether the answer may be a text in the user's own words."""
    default: Answer
    """The answer that applies when the user does not answer before `expiresAt`."""
    verdicts: tuple[Verdict, ...] = ()
    """In an approval: the decisions that made it necessary."""
    rule: Rule | None = None
    """In an approval: the rule that the choices `session` and `project` add."""
    trust: Trust | None = None
    """In a trust inquiry: what the choice `project` trusts from now on."""
    expires_at: UtcTime
    status: InquiryStatus = InquiryStatus.PENDING
    answer: Answer | None = None
    answered_at: UtcTime | None = None

    def check(self, answer: Answer) -> str | None:
        """Returns why `answer` is invalid for this inquiry; None when it is valid."""
        if answer.choice is None and not (answer.text or "").strip():
            return "Give a choice or a text."
        if answer.choice is not None and answer.choice not in {choice.id for choice in self.choices}:
            return f"There is no choice {answer.choice!r:.60}; the choices are {', '.join(c.id for c in self.choices)}."
        if answer.choice is None and self.kind is InquiryKind.APPROVAL:
            return f"Choose one of {', '.join(c.id for c in self.choices)}; only {DENY} may have a text."
        if self.kind is InquiryKind.APPROVAL and answer.choice != DENY and (answer.text or "").strip():
            # A text could ask for something else, but the call would run unchanged.
            return f"Only {DENY} may have a text: the call does not run, and the agent reads the text."
        if (answer.text or "").strip() and not self.takes_text:
            return "This inquiry needs one of its choices; it accepts no text."
        return None


class InquiryAnswer(WireModel):
    """An answer as the service sends it to the drone."""

    inquiry_id: Id
    status: InquiryStatus
    answer: Answer
