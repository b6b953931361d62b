"""Asking the user, durably: what is asked is an event and a document, so it waits through reloads, restarts and
crashes, and can be answered from any client, hours later."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from gadget_api.clock import SteadyClock
from gadget_api.events import InquiryAnswered, InquiryAsked
from gadget_api.inquiries import (
    GO_ON,
    STOP,
    Answer,
    Choice,
    Inquiry,
    InquiryAnswer,
    InquiryKind,
    InquiryStatus,
)
from gadget_api.permissions import Rule, Trust, Verdict
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.decisions import Decisions
from gadget_drone.agent.emitter import Emitter

_GRACE_S = 300.0
"""After its end the server says that an inquiry has expired; when it is away for so long, we say so."""


class StoppedByUser(Exception):
    """The user was asked whether the turn shall go on, and said no. `args[0]` is a sentence."""


class Inquiries:
    def __init__(self, order: WorkOrder, emit: Emitter, decisions: Decisions, clock: SteadyClock) -> None:
        self._order = order
        self._emit = emit
        self._decisions = decisions
        self._clock = clock
        self._heard: set[str] = set()
        """Inquiries whose answers were told of."""
        self.waited_s = 0.0
        """For how long the turn has waited for answers on this drone."""

    async def ask(
        self,
        kind: InquiryKind,
        key: str,
        title: str,
        *,
        choices: Sequence[Choice],
        default: Answer,
        detail: str = "",
        is_diff: bool = False,
        takes_text: bool = False,
        call_id: str | None = None,
        verdicts: Sequence[Verdict] = (),
        rule: Rule | None = None,
        trust: Trust | None = None,
        is_moot: Callable[[], bool] = lambda: False,
    ) -> InquiryAnswer:
        """The user's answer; the default with the status `expired` when nobody gives one in time, and with `withdrawn`
        when a change of the policy makes the question moot.

        `key` names the inquiry within its agent: asked again after a crash it is the same one, with the same answer.
        """
        inquiry_id = self._id(key)
        now = self._clock.now()
        inquiry = Inquiry(
            id=inquiry_id,
            created_at=now,
            user=self._order.turn.user.id,
            session=self._order.session.id,
            turn=self._order.turn.id,
            kind=kind,
            call_id=call_id,
            title=title,
            detail=detail,
            is_diff=is_diff,
            choices=tuple(choices),
            takes_text=takes_text,
            default=default,
            verdicts=tuple(verdicts),
            rule=rule,
            trust=trust,
            expires_at=now + timedelta(seconds=self._order.answer_within_s),
        )
        if inquiry_id not in self._decisions.asked:
            self._decisions.asked.add(inquiry_id)
            self._emit(InquiryAsked, inquiry=inquiry)
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._order.answer_within_s + _GRACE_S):
                answer = await self._decisions.answer_to(inquiry_id, is_moot)
            if answer is None:
                answer = InquiryAnswer(inquiry_id=inquiry_id, status=InquiryStatus.WITHDRAWN, answer=default)
        except TimeoutError:
            answer = InquiryAnswer(inquiry_id=inquiry_id, status=InquiryStatus.EXPIRED, answer=default)
        finally:
            self.waited_s += time.monotonic() - begun
        if inquiry_id not in self._heard:
            self._heard.add(inquiry_id)
            self._emit(InquiryAnswered, answer=answer)
        return answer

    def was_asked(self, key: str) -> bool:
        """Whether it was, before a crash perhaps."""
        return self._id(key) in self._decisions.asked

    def _id(self, key: str) -> str:
        agent = f" {self._emit.agent_id}" if self._emit.agent_id is not None else ""
        return hashlib.sha256(f"{self._order.turn.id}{agent} {key}".encode()).hexdigest()[:24]

    async def may_go_on(self, kind: InquiryKind, key: str, title: str) -> None:
        """Raises StoppedByUser when the user, or nobody within the time there is, lets the turn go on."""
        choices = (Choice(id=GO_ON, label="Go on"), Choice(id=STOP, label="Stop"))
        said = await self.ask(kind, key, title, choices=choices, default=Answer(choice=STOP))
        if said.answer.choice != GO_ON:
            by = "nobody said that it may go on" if said.status is InquiryStatus.EXPIRED else "stopped by the user"
            raise StoppedByUser(f"{title} The turn ended there: {by}.")
