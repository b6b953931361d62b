"""Work orders: everything that a drone needs for a turn, collected when the turn is offered."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gadget_api.budgets import Budget, BudgetUsage
from gadget_api.errors import NotFound
from gadget_api.inquiries import InquiryStatus
from gadget_api.providers import ModelParams
from gadget_api.sessions import ChatSession, Effort, mode_of
from gadget_api.turns import ChatTurn
from gadget_api.work_order import (
    OrderProject,
    OrderProvider,
    OrderSession,
    OrderTurn,
    OrderUser,
    ResumePoint,
    WorkOrder,
)
from gadget_code.permissions.policies import policy_by
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore

_FAR = 5
"""Times the largest of the turns before."""


@dataclass(frozen=True)
class WorkOrders:
    store: MongoStore
    settings: Settings

    async def build(self, turn: ChatTurn, session: ChatSession) -> WorkOrder:
        """Builds the order of a turn of `session`. Raises NotFound when its project or provider does not exist any
        more."""
        project, user, install, chosen, (before, traceparent), usual = await asyncio.gather(
            self.store.projects.owned(turn.user, turn.project),
            self.store.users.get(turn.user),
            self.store.install.rules(),
            self._provider(turn.user, turn.provider, turn.llm, turn.effort),
            self.store.turns.previous_and_trace(turn),
            self.store.turns.usual_usage(turn),
        )
        session_budget = session.budget.with_defaults(user.session_budget).with_defaults(self.settings.session_budget)
        return WorkOrder(
            # One turn is one order, however often it is offered.
            work_order_id=turn.id,
            epoch=turn.epoch,
            project=OrderProject(id=project.id, name=project.name, slug=project.slug, git_url=project.git_url),
            session=OrderSession(
                id=session.id,
                name=session.name,
                # From the level, which applies at once: the mode that the model reads has to match its rights.
                mode=mode_of(session.level),
                history_version=session.history_version,
                wants_title=session.wants_title,
            ),
            provider=chosen,
            turn=OrderTurn(
                id=turn.id,
                created_at=turn.created_at,
                user=OrderUser(id=user.id, email=user.email, display_name=user.display_name),
            ),
            prompt=turn.prompts.user,
            images=turn.prompts.images,
            workspace_id=turn.workspace_id,
            after_turn=before,
            resume=await self._resume_point(turn) if turn.last_seq else None,
            policy=policy_by(session, project, user, install),
            fallbacks=await self._fallbacks(session, turn.effort),
            turn_budget=session.turn_budget.with_defaults(user.turn_budget).with_defaults(self.settings.turn_budget),
            session_budget=session_budget,
            session_spent=BudgetUsage() if session_budget.is_unlimited else await self.store.turns.spent_before(turn),
            unusual=_unusual(self.settings.unusual_turn, usual),
            answer_within_s=int(self.settings.answer_hours * 3600),
            steers=turn.steers,
            traceparent=traceparent,
        )

    async def _provider(self, user: str, provider_id: str, model_id: str, effort: Effort | None) -> OrderProvider:
        """Raises NotFound."""
        provider, key = await self.store.providers.with_key(user, provider_id)
        order = OrderProvider(
            id=provider.id,
            name=provider.name,
            sdk=provider.api_type,
            base_url=provider.base_url,
            api_key=key,
            model_id=model_id,
        )
        model = next((model for model in provider.models if model.id == model_id), None)
        params = ModelParams() if model is None else model.params
        if effort is not None:
            params = params.replace(effort=effort)
        if model is None:
            return order.replace(params=params)
        return order.replace(
            context_window=model.context_window, params=params, price=model.price, sees_images=model.sees_images
        )

    async def _fallbacks(self, session: ChatSession, effort: Effort | None) -> tuple[OrderProvider, ...]:
        """Returns the fallbacks whose provider still exists."""
        orders = []
        for choice in session.fallbacks:
            try:
                orders.append(await self._provider(session.user, choice.provider, choice.model, effort))
            except NotFound:
                continue
        return tuple(orders)

    async def _resume_point(self, turn: ChatTurn) -> ResumePoint:
        known = await self.store.inquiries.newest(turn)
        return ResumePoint(
            acked_seq=turn.last_seq,
            stats=turn.stats,
            worked_ms=await self._worked_ms(turn),
            grants=await self.store.inquiries.grants(turn),
            inquiries=tuple(inquiry for inquiry in known if inquiry.status is not InquiryStatus.WITHDRAWN),
            last_checkpoint=turn.last_checkpoint,
        )

    async def _worked_ms(self, turn: ChatTurn) -> int:
        span = await self.store.events.span(turn.id, up_to=turn.last_seq)
        return 0 if span is None else worked_ms(*span, await self.store.inquiries.waits(turn))


def worked_ms(first: datetime, last: datetime, waits: Iterable[tuple[datetime, datetime | None]]) -> int:
    """Returns the time from `first` to `last` outside of `waits` (an end of None is open). Overlapping waits count
    once, and only between `first` and `last`. Never negative, although clocks differ."""
    worked = (last - first).total_seconds()
    counted = first
    for begin, end in sorted(waits, key=lambda wait: wait[0]):
        begin, end = max(begin, counted), min(end or last, last)
        if end > begin:
            worked -= (end - begin).total_seconds()
            counted = end
    return max(0, int(worked * 1000))


def _unusual(least: Budget, usual: BudgetUsage) -> Budget:
    """Returns the usage from which a turn is unusual: at least `least`, and far above `usual`."""
    return Budget(
        steps=max(least.steps, _FAR * usual.steps) if least.steps is not None else None,
        tokens=max(least.tokens, _FAR * usual.tokens) if least.tokens is not None else None,
        usd=max(least.usd, _FAR * usual.usd) if least.usd is not None else None,
        minutes=max(least.minutes, _FAR * usual.minutes) if least.minutes is not None else None,
    )
