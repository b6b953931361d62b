"""What a running turn asks its user: answered once, from any client, and brought to the drone until it has taken it."""

import asyncio
import logging
from contextlib import suppress

from gadget_api.commands import InquiryChanged, PutAnswer, SessionUpdated
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
"""Two seconds in all: events are relayed at once, and stored a few milliseconds later."""


class InquiryAnswers:
    def __init__(self, store: MongoStore, rooms: Rooms, policies: Policies, background: BackgroundTasks) -> None:
        self._store = store
        self._rooms = rooms
        self._policies = policies
        self._background = background

    async def answer(self, user: str, inquiry_id: str, answer: Answer) -> Inquiry:
        """Takes the user's answer: when this returns, a majority has it. The first one counts, and the same again is no
        other. Raises NotFound, InvalidInput, and Conflict when it was closed otherwise."""
        inquiry = await self._stored(user, inquiry_id)
        if problem := inquiry.check(answer):
            raise InvalidInput(problem)
        if inquiry.status is InquiryStatus.PENDING:
            await self._check_rule_limit(inquiry, answer)
        answered = await self._store.inquiries.answer(inquiry, answer)
        if answered is None:
            inquiry = await self._store.inquiries.owned(user, inquiry_id)
            if inquiry.status is not InquiryStatus.ANSWERED or inquiry.answer != answer:
                raise Conflict(ErrorCode.INQUIRY_CLOSED, _closed(inquiry))
        else:
            inquiry = answered
            await self.emit_changed(inquiry)
        # Again, too: whoever took it the first time may have died before it had done this.
        await self._save_rule(inquiry, answer)
        self._background.start(self.deliver(inquiry), f"answer to inquiry {inquiry.id}")
        return inquiry

    async def _stored(self, user: str, inquiry_id: str) -> Inquiry:
        """The user's inquiry. One that a client was just shown may be on its way to the database still. Raises
        NotFound."""
        for _ in range(_LOOKS):
            try:
                return await self._store.inquiries.owned(user, inquiry_id)
            except NotFound:
                await asyncio.sleep(_LOOK_AGAIN_S)
        return await self._store.inquiries.owned(user, inquiry_id)

    async def emit_changed(self, inquiry: Inquiry) -> None:
        """Every client of the user learns where it stands."""
        await self._rooms.emit_to_user(inquiry.user, "inquiryChanged", InquiryChanged(inquiry=inquiry))

    async def deliver(self, inquiry: Inquiry) -> None:
        """Brings the answer to the turn's drone; where that fails, the drone gets it with its next connection."""
        turn = await self._store.turns.find({"_id": inquiry.turn})
        if turn is None or turn.status.is_over or turn.drone is None or inquiry.answer is None:
            return
        message = PutAnswer(turn_id=turn.id, inquiry_id=inquiry.id, status=inquiry.status, answer=inquiry.answer)
        try:
            await self._rooms.call_drone(turn.drone, "answerInquiry", message)
        except GadgetError as exc:
            log.info("an answer to turn %s waits: %s", turn.id, exc.message)

    async def redeliver(self, turn: ChatTurn) -> None:
        """For a drone that is back, or has just taken the turn; what it has is no news to it."""
        for inquiry in await self._store.inquiries.undelivered_to(turn):
            await self.deliver(inquiry)

    async def check(self) -> None:
        """Looks for what nobody answered in time, for answers that have not arrived, for what a turn that is over
        still asks, and for what a process that died left behind."""
        for inquiry in await self._store.inquiries.overdue():
            expired = await self._store.inquiries.expire(inquiry)
            if expired is not None:
                await self.emit_changed(expired)
        for inquiry in await self._store.inquiries.undelivered():
            self._background.start(self.deliver(inquiry), f"answer to inquiry {inquiry.id}")
        for turn_id in await self._store.inquiries.open_turns():
            turn = await self._store.turns.find({"_id": turn_id})
            if turn is not None and turn.status.is_over:
                await self.withdraw(turn)
        for inquiry, seq in await self._store.inquiries.unconfirmed():
            await self._resolve_unconfirmed(inquiry, seq)

    async def withdraw(self, turn: ChatTurn) -> None:
        """The turn is over: it waits for nothing."""
        for inquiry in await self._store.inquiries.withdraw(turn):
            await self.emit_changed(inquiry)

    async def _resolve_unconfirmed(self, inquiry: Inquiry, seq: int) -> None:
        turn = await self._store.turns.find({"_id": inquiry.turn})
        if turn is None or turn.last_seq < seq:
            return
        events = await self._store.events.after(turn.id, seq - 1, up_to=seq, limit=1)
        if any(event.type == "inquiryAsked" and inquiry.id in event.body for event in events):
            await self._store.inquiries.confirm([inquiry.id])
            await self.emit_changed(inquiry)
        elif (disowned := await self._store.inquiries.retract(inquiry)) is not None:
            await self.emit_changed(disowned)

    async def _check_rule_limit(self, inquiry: Inquiry, answer: Answer) -> None:
        """Raises InvalidInput when the rule that the answer brings has no room any more."""
        rule = _rule_of(inquiry, answer)
        if rule is None:
            return
        rules = await self._rules(inquiry, answer)
        if len(rules) >= MAX_RULES and rule not in rules:
            raise InvalidInput(f"There are {MAX_RULES} rules in this {answer.choice}; remove some, or answer once.")

    async def _rules(self, inquiry: Inquiry, answer: Answer) -> Rules:
        session = await self._store.sessions.owned(inquiry.user, inquiry.session)
        if answer.choice == FOR_SESSION:
            return session.rules
        return (await self._store.projects.owned(inquiry.user, session.project)).rules

    async def _save_rule(self, inquiry: Inquiry, answer: Answer) -> None:
        """An approval for longer than once becomes a rule, and what is trusted stays trusted."""
        if inquiry.kind is InquiryKind.TRUST and answer.choice == FOR_PROJECT and inquiry.trust is not None:
            with suppress(NotFound):
                session = await self._store.sessions.owned(inquiry.user, inquiry.session)
                await self._store.projects.trust(session.project, inquiry.trust)
                await self._policies.changed({"user": session.user, "project": session.project})
            return
        rule = _rule_of(inquiry, answer)
        if rule is None:
            return
        try:
            session = await self._store.sessions.owned(inquiry.user, inquiry.session)
        except NotFound:
            return
        if answer.choice == FOR_SESSION:
            changed = await self._store.sessions.add_rule(session.id, rule)
            if changed is not None:
                await self._rooms.emit_to_user(inquiry.user, "sessionUpdated", SessionUpdated(session=changed))
                await self._policies.changed({"user": session.user, "session": session.id})
        elif await self._store.projects.add_rule(session.project, rule) is not None:
            await self._policies.changed({"user": session.user, "project": session.project})


def _rule_of(inquiry: Inquiry, answer: Answer) -> Rule | None:
    """What the answer allows from now on."""
    if inquiry.kind is not InquiryKind.APPROVAL or answer.choice not in (FOR_SESSION, FOR_PROJECT):
        return None
    # The drone says it; nothing but an approval of what it asked for may come of an answer.
    return inquiry.rule if inquiry.rule is not None and inquiry.rule.decision is Decision.ALLOW else None


def _closed(inquiry: Inquiry) -> str:
    match inquiry.status:
        case InquiryStatus.EXPIRED:
            return "Nobody answered in time, and the default counted; tell the agent what you want instead."
        case InquiryStatus.WITHDRAWN:
            return "The turn that asked this is over, or went on without an answer."
        case _:
            return "This was answered already, in another way."
