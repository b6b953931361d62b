"""A turn's inquiries: answered once, from any client; the answer is delivered until the drone has confirmed it."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from gadget_api.commands import DeliverAnswer, InquiryChanged
from gadget_api.errors import Conflict, ErrorCode, GadgetError, InvalidInput, NotFound
from gadget_api.inquiries import FOR_PROJECT, FOR_SESSION, Answer, Inquiry, InquiryKind, InquiryStatus
from gadget_api.permissions import MAX_RULES, Decision, Rule, Rules
from gadget_api.turns import ChatTurn
from gadget_code.permissions.policies import Policies
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_LOOKS = 20
_LOOK_AGAIN_S = 0.1
"""Two seconds in all: a client sees an event at once, and it is stored a few milliseconds later."""


@dataclass(frozen=True)
class InquiryAnswers:
    store: MongoStore
    rooms: Rooms
    policies: Policies
    background: BackgroundTasks

    async def answer(self, user: str, inquiry_id: str, answer: Answer) -> Inquiry:
        """Stores the user's answer; a majority has it when this returns. The first answer counts. The same answer again
        succeeds. Raises NotFound, InvalidInput, and Conflict when the inquiry was closed in another way."""
        inquiry = await self._stored(user, inquiry_id)
        if problem := inquiry.check(answer):
            raise InvalidInput(problem)
        if inquiry.status is InquiryStatus.PENDING:
            await self._check_rule_limit(inquiry, answer)
        answered = await self.store.inquiries.answer(inquiry, answer)
        if answered is None:
            inquiry = await self.store.inquiries.owned(user, inquiry_id)
            if inquiry.status is not InquiryStatus.ANSWERED or inquiry.answer != answer:
                raise Conflict(ErrorCode.INQUIRY_CLOSED, _closed(inquiry))
        else:
            inquiry = answered
            await self.emit_changed(inquiry)
        # Also for a repeated answer: the process that stored the first may have died before this.
        await self._save_rule(inquiry, answer)
        self.background.start(self.deliver(inquiry), f"answer to inquiry {inquiry.id}")
        return inquiry

    async def _stored(self, user: str, inquiry_id: str) -> Inquiry:
        """Returns the user's inquiry. Waits for one that a client was just shown and that is not stored yet. Raises
        NotFound."""
        for _ in range(_LOOKS):
            try:
                return await self.store.inquiries.owned(user, inquiry_id)
            except NotFound:
                await asyncio.sleep(_LOOK_AGAIN_S)
        return await self.store.inquiries.owned(user, inquiry_id)

    async def emit_changed(self, inquiry: Inquiry) -> None:
        """Emits the inquiry's state to the user's clients."""
        await self.rooms.emit_to_user(inquiry.user, "inquiryChanged", InquiryChanged(inquiry=inquiry))

    async def deliver(self, inquiry: Inquiry) -> None:
        """Sends the answer to the turn's drone. When that fails, the drone gets it with its next connection."""
        turn = await self.store.turns.find({"_id": inquiry.turn})
        if turn is None or turn.status.is_over or turn.drone is None or inquiry.answer is None:
            return
        message = DeliverAnswer(turn_id=turn.id, inquiry_id=inquiry.id, status=inquiry.status, answer=inquiry.answer)
        try:
            await self.rooms.call_drone(turn.drone, "answerInquiry", message)
        except GadgetError as exc:
            log.info("an answer to turn %s is delivered later: %s", turn.id, exc.message)

    async def redeliver(self, turn: ChatTurn) -> None:
        """Sends unconfirmed answers again to a drone that reconnected or has just taken the turn. The drone ignores
        duplicates."""
        for inquiry in await self.store.inquiries.undelivered_to(turn):
            await self.deliver(inquiry)

    async def check(self) -> None:
        """Expires overdue inquiries, delivers answers that have not arrived, withdraws inquiries of turns that are
        over, and resolves what a dead process left."""
        for inquiry in await self.store.inquiries.overdue():
            expired = await self.store.inquiries.expire(inquiry)
            if expired is not None:
                await self.emit_changed(expired)
        for inquiry in await self.store.inquiries.undelivered():
            self.background.start(self.deliver(inquiry), f"answer to inquiry {inquiry.id}")
        for turn_id in await self.store.inquiries.open_turns():
            turn = await self.store.turns.find({"_id": turn_id})
            if turn is not None and turn.status.is_over:
                await self.withdraw(turn)
        for inquiry, seq in await self.store.inquiries.unconfirmed():
            await self._resolve_unconfirmed(inquiry, seq)

    async def withdraw(self, turn: ChatTurn) -> None:
        """Withdraws the inquiries of a turn that is over."""
        for inquiry in await self.store.inquiries.withdraw(turn):
            await self.emit_changed(inquiry)

    async def _resolve_unconfirmed(self, inquiry: Inquiry, seq: int) -> None:
        turn = await self.store.turns.find({"_id": inquiry.turn})
        if turn is None or turn.last_seq < seq:
            return
        events = await self.store.events.after(turn.id, seq - 1, up_to=seq, limit=1)
        if any(event.type == "inquiryAsked" and inquiry.id in event.body for event in events):
            await self.store.inquiries.confirm([inquiry.id])
            await self.emit_changed(inquiry)
        elif (disowned := await self.store.inquiries.retract(inquiry)) is not None:
            await self.emit_changed(disowned)

    async def _check_rule_limit(self, inquiry: Inquiry, answer: Answer) -> None:
        """Raises InvalidInput when the answer adds a rule and the session or project has the maximum number already."""
        rule = _rule_of(inquiry, answer)
        if rule is None:
            return
        rules = await self._rules(inquiry, answer)
        if len(rules) >= MAX_RULES and rule not in rules:
            raise InvalidInput(f"This {answer.choice} has {MAX_RULES} rules already; remove some, or answer once.")

    async def _rules(self, inquiry: Inquiry, answer: Answer) -> Rules:
        session = await self.store.sessions.owned(inquiry.user, inquiry.session)
        if answer.choice == FOR_SESSION:
            return session.rules
        return (await self.store.projects.owned(inquiry.user, session.project)).rules

    async def _save_rule(self, inquiry: Inquiry, answer: Answer) -> None:
        """Saves the rule of an approval for longer than once, and what a project trusts."""
        if inquiry.kind is InquiryKind.TRUST and answer.choice == FOR_PROJECT and inquiry.trust is not None:
            with suppress(NotFound):
                session = await self.store.sessions.owned(inquiry.user, inquiry.session)
                await self.store.projects.trust(session.project, inquiry.trust)
                await self.policies.changed({"user": session.user, "project": session.project})
            return
        rule = _rule_of(inquiry, answer)
        if rule is None:
            return
        try:
            session = await self.store.sessions.owned(inquiry.user, inquiry.session)
        except NotFound:
            return
        if answer.choice == FOR_SESSION:
            changed = await self.store.sessions.add_rule(session.id, rule)
            if changed is not None:
                await self.rooms.emit_session(changed)
                await self.policies.changed({"user": session.user, "session": session.id})
        elif await self.store.projects.add_rule(session.project, rule) is not None:
            await self.policies.changed({"user": session.user, "project": session.project})


def _rule_of(inquiry: Inquiry, answer: Answer) -> Rule | None:
    """Returns the rule that the answer adds."""
    if inquiry.kind is not InquiryKind.APPROVAL or answer.choice not in (FOR_SESSION, FOR_PROJECT):
        return None
    # The rule comes from the drone. It may only allow what the user approves.
    return inquiry.rule if inquiry.rule is not None and inquiry.rule.decision is Decision.ALLOW else None


def _closed(inquiry: Inquiry) -> str:
    match inquiry.status:
        case InquiryStatus.EXPIRED:
            return "Nobody answered in time, and the default was used; tell the agent what you want instead."
        case InquiryStatus.WITHDRAWN:
            return "The turn of this inquiry is over, or has continued without an answer."
        case _:
            return "This was answered already with another answer."
