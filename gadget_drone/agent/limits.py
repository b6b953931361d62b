"""When a turn pauses and asks whether it shall go on: a budget is used up, or the agent repeats itself. At the level
`full` nobody is asked about a loop: the model is told, once, and its user is shown a notice.

A turn that uses far more than others goes on; its user is shown a notice, again each time when it has used twice as
much.
"""

import time
from collections import deque

import orjson

from gadget_api.budgets import BudgetUsage
from gadget_api.events import TURN_UNUSUAL, Notice
from gadget_api.ids import new_id
from gadget_api.inquiries import InquiryKind
from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import PermissionLevel
from gadget_api.turns import Steer, SteerOrigin, TurnStats
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.control import Control
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.stream import EventStream

_SAME = 3
"""So many equal calls in a row, with equal results, are a loop (opencode's `doom_loop` asks at three, too)."""


_TOLD = (
    "[From Gadget Code, not from the user: you have made the same call three times, with the same result. Try another "
    "way, or say what stands in yours.]"
)


class Limits:
    def __init__(self, order: WorkOrder, events: EventStream, control: Control, inquiries: Inquiries) -> None:
        self._order = order
        self._control = control
        self._told: set[bytes] = set()
        """Calls about which the model was told that it repeats itself."""
        self._events = events
        self._inquiries = inquiries
        self._begun = time.monotonic()
        self._grants = order.resume.grants if order.resume is not None else 0
        self._last: deque[tuple[bytes, str]] = deque(maxlen=_SAME - 1)
        """Calls and their results, the newest."""
        self._unusual_from = 1
        """Times `order.unusual`: where the next notice is due. What it used before it came here is not told again."""
        self._passed(self._spent(events.stats))

    async def before_step(self) -> None:
        """Raises StoppedByUser."""
        spent = self._spent(self._events.stats)
        if (what := self._passed(spent)) is not None:
            message = (
                f"This turn has used {what}, far more than turns before it. It goes on. Look whether it gets anywhere; "
                "a budget makes turns pause and ask."
            )
            self._events.emit(Notice, level="warning", code=TURN_UNUSUAL, message=message)
        while True:
            if (what := self._order.turn_budget.used_up(spent, self._grants)) is not None:
                title = f"This turn has used up its budget: {what}."
            elif (
                what := self._order.session_budget.used_up(self._order.session_spent.plus(spent), self._grants)
            ) is not None:
                title = f"The session has used up its budget: {what}."
            else:
                return
            await self._inquiries.may_go_on(InquiryKind.BUDGET, f"budget {self._grants}", title)
            self._grants += 1

    async def before_call(self, call: ToolCallRequest) -> None:
        """Raises StoppedByUser."""
        key, question = _key(call), f"loop {call.call_id}"
        is_loop = len(self._last) == _SAME - 1 and len(set(self._last)) == 1 and self._last[0][0] == key
        if not is_loop and not self._inquiries.was_asked(question):
            return
        title = f"The agent makes the same call of {call.name} for the third time, with the same result so far."
        if self._control.policy.level is not PermissionLevel.FULL:
            await self._inquiries.may_go_on(InquiryKind.LOOP, question, title)
            self._last.clear()
        elif key not in self._told:
            self._told.add(key)
            self._events.emit(Notice, level="warning", code="loop", message=title)
            self._control.steer(Steer(steer_id=new_id(), content=_TOLD, origin=SteerOrigin.SERVICE))

    def after_call(self, call: ToolCallRequest, response: str) -> None:
        self._last.append((_key(call), response))

    def _passed(self, spent: BudgetUsage) -> str | None:
        """What is unusual, in words; None when nothing is, or that was said already."""
        passed = None
        while (what := self._order.unusual.exceeded(spent, self._unusual_from)) is not None:
            passed = what
            self._unusual_from *= 2
        return passed

    def _spent(self, stats: TurnStats) -> BudgetUsage:
        before_s = self._order.resume.worked_ms / 1000 if self._order.resume is not None else 0.0
        worked_s = before_s + time.monotonic() - self._begun - self._inquiries.waited_s
        return BudgetUsage(
            steps=stats.step_count,
            tokens=stats.input_tokens + stats.response_tokens,
            usd=stats.cost or 0.0,
            minutes=worked_s / 60,
        )


def _key(call: ToolCallRequest) -> bytes:
    return orjson.dumps([call.name, call.params], option=orjson.OPT_SORT_KEYS)
