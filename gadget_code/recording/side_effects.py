"""The side effects of a turn's stored events, beside the turn's own document: inquiries, session titles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gadget_api.events import InquiryAnswered, InquiryAsked, Titled, ToolCall, ToolStarted, TurnEvent
from gadget_api.turns import ChatTurn
from gadget_code.permissions.inquiries import InquiryAnswers
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore
from gadget_code.store.inquiries import waited_ms


@dataclass(frozen=True)
class SideEffects:
    store: MongoStore
    rooms: Rooms
    inquiries: InquiryAnswers
    background: BackgroundTasks

    async def apply(self, after: ChatTurn, events: Sequence[TurnEvent]) -> ChatTurn:
        """Applies the side effects and returns the turn, without an inquiry that its events show to be settled. Every
        step is idempotent; the sweep completes what a dead process leaves."""
        inquiry_ids = [event.inquiry.id for event in events if isinstance(event, InquiryAsked)]
        if inquiry_ids:
            await self.store.inquiries.confirm(inquiry_ids)
            for inquiry in await self.store.inquiries.all({"_id": {"$in": inquiry_ids}, "turn": after.id}):
                await self.inquiries.emit_changed(inquiry)
        for event in events:
            if isinstance(event, InquiryAnswered):
                await self._record_answer(after, event)
            elif isinstance(event, Titled):
                await self._set_title(after, event.title)
        if after.status.is_over:
            # In the background: watchers of the end do not wait for it.
            self.background.start(self.inquiries.withdraw(after), f"inquiries of turn {after.id}")
        elif after.inquiry is not None:
            works_on = {event.call_id: event.seq for event in events if isinstance(event, ToolStarted | ToolCall)}
            return await self._close_overtaken(after, works_on)
        return after

    async def _close_overtaken(self, turn: ChatTurn, calls: Mapping[str, int]) -> ChatTurn:
        """Closes inquiries that the turn has passed. A drone that was disconnected may have gone on without an
        answer."""
        for inquiry in await self.store.inquiries.close_overtaken(turn, calls):
            await self.store.turns.add_waited(turn, waited_ms(inquiry))
            await self.inquiries.emit_changed(inquiry)
            if inquiry.id == turn.inquiry:
                turn = turn.replace(inquiry=None)
                waiting = {"_id": turn.id, "inquiry": inquiry.id}
                await self.rooms.emit_turn(await self.store.turns.update(waiting, {"inquiry": None}))
        return turn

    async def _record_answer(self, turn: ChatTurn, event: InquiryAnswered) -> None:
        inquiry = await self.store.inquiries.record_answer(turn, event.answer)
        if inquiry is not None:
            await self.store.turns.add_waited(turn, waited_ms(inquiry))
            await self.inquiries.emit_changed(inquiry)

    async def _set_title(self, turn: ChatTurn, title: str) -> None:
        name = " ".join("".join(c if c.isprintable() else " " for c in title).split())
        if not name:
            return
        nameless = {"_id": turn.session, "user": turn.user, "wantsTitle": True}
        await self.rooms.emit_session(await self.store.sessions.update(nameless, {"name": name, "wantsTitle": False}))
