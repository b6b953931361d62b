"""When an agent pauses because its budget is used up.

An agent that uses far more than the turns before it goes on; its user is shown a notice, again each time it has used
twice as much.
"""

import time
from typing import Protocol

from gadget_api.budgets import BudgetUsage
from gadget_api.events import TURN_UNUSUAL, Notice
from gadget_api.inquiries import InquiryKind
from gadget_api.turns import TurnStats
from gadget_api.work_order import WorkOrder
from gadget_drone.agent.emitter import Emitter
from gadget_drone.agent.inquiries import Inquiries


class Budget(Protocol):
    async def before_step(self) -> None:
        """Waits for the user where the budget is used up. Raises StoppedByUser."""


class NoBudget:
    async def before_step(self) -> None:
        pass


class OrderBudget:
    """The budgets that a work order brings, of the turn and of its session."""

    def __init__(self, order: WorkOrder, emit: Emitter, inquiries: Inquiries) -> None:
        self._order = order
        self._emit = emit
        self._inquiries = inquiries
        self._begun = time.monotonic()
        self._grants = order.resume.grants if order.resume is not None else 0
        self._unusual_from = 1
        """Times `order.unusual`: where the next notice is due. What was used before a crash gives no second notice."""
        self._newly_unusual(self._spent(emit.stats))

    async def before_step(self) -> None:
        spent = self._spent(self._emit.stats)
        if (what := self._newly_unusual(spent)) is not None:
            message = (
                f"This turn has used {what}, far more than turns before it. It goes on. Look whether it gets anywhere; "
                "a budget makes turns pause and ask."
            )
            self._emit(Notice, level="warning", code=TURN_UNUSUAL, message=message)
        while (title := self._used_up(spent)) is not None:
            await self._inquiries.may_go_on(InquiryKind.BUDGET, f"budget {self._grants}", title)
            self._grants += 1

    def _used_up(self, spent: BudgetUsage) -> str | None:
        order = self._order
        if (what := order.turn_budget.used_up(spent, self._grants)) is not None:
            return f"This turn has used up its budget: {what}."
        if (what := order.session_budget.used_up(order.session_spent.plus(spent), self._grants)) is not None:
            return f"The session has used up its budget: {what}."
        return None

    def _newly_unusual(self, spent: BudgetUsage) -> str | None:
        """What is unusual and was not noticed before, in words."""
        unusual = None
        while (what := self._order.unusual.exceeded(spent, self._unusual_from)) is not None:
            unusual = what
            self._unusual_from *= 2
        return unusual

    def _spent(self, stats: TurnStats) -> BudgetUsage:
        before_s = self._order.resume.worked_ms / 1000 if self._order.resume is not None else 0.0
        worked_s = before_s + time.monotonic() - self._begun - self._inquiries.waited_s
        return BudgetUsage(
            steps=stats.step_count,
            tokens=stats.input_tokens + stats.response_tokens,
            usd=stats.cost or 0.0,
            minutes=worked_s / 60,
        )
