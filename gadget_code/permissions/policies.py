"""Policies: the session's permission level, with the rules of install, user, project and session. A change reaches the
drone of a running turn at once."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from gadget_api.commands import SetPolicy
from gadget_api.errors import GadgetError, NotFound
from gadget_api.permissions import InstallRules, Policy, Rules, RuleScope, ScopedRule
from gadget_api.projects import Project
from gadget_api.sessions import ChatSession
from gadget_api.turns import ChatTurn, ChatTurnStatus
from gadget_api.users import User
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.sockets.rooms import Rooms
from gadget_code.store.database import MongoStore

log = logging.getLogger(__name__)

_KNOWN_OFFERS = 1000
_AGAIN_S = (1.0, 2.0, 4.0, 8.0)
"""Waits before a connected drone that did not reply gets the policy again. A drone that reconnects gets it anyway."""


async def policy_of(store: MongoStore, session: ChatSession) -> Policy:
    """Raises NotFound when the session's project or user does not exist any more."""
    project, user, install = await asyncio.gather(
        store.projects.owned(session.user, session.project), store.users.get(session.user), store.install.rules()
    )
    return policy_by(session, project, user, install)


def policy_by(session: ChatSession, project: Project, user: User, install: InstallRules) -> Policy:
    scopes: tuple[tuple[RuleScope, Rules], ...] = (
        (RuleScope.INSTALL, install.rules),
        (RuleScope.USER, user.rules),
        (RuleScope.PROJECT, project.rules),
        (RuleScope.SESSION, session.rules),
    )
    return Policy(
        level=session.level,
        rules=tuple(ScopedRule(scope=scope, **dict(rule)) for scope, rules in scopes for rule in rules),
        trusts_repository=project.trusted,
        trust=project.trust,
    )


class Policies:
    def __init__(self, store: MongoStore, rooms: Rooms, background: BackgroundTasks) -> None:
        self._store = store
        self._rooms = rooms
        self._background = background
        self._pushing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Turn -> lock, so that a drone receives changes in their order."""
        self._offered: OrderedDict[tuple[str, int], Policy] = OrderedDict()
        """(turn, epoch) -> the policy in its work order, until the turn begins."""

    def remember_offer(self, turn: ChatTurn, policy: Policy) -> None:
        """Remembers that the drone gets this policy with its work order."""
        self._offered[turn.id, turn.epoch] = policy
        if len(self._offered) > _KNOWN_OFFERS:
            self._offered.popitem(last=False)

    async def changed(self, of: Mapping[str, Any]) -> None:
        """Sends the new policy to the drones of running turns that match `of`: a session, project or user that has
        changed."""
        for turn in await self._store.turns.unfinished({**of, "status": ChatTurnStatus.PROCESSING}):
            self._background.start(self._push(turn), f"policy of turn {turn.id}")

    async def send(self, turn: ChatTurn, *, begins: bool = False) -> None:
        """Sends the turn's current policy to its drone; when the turn `begins`, only a policy that differs from the one
        that this process sent with the work order. Raises GadgetError when the drone does not take it."""
        sent = self._offered.pop((turn.id, turn.epoch), None) if begins else None
        if turn.drone is None:
            return
        async with self._pushing.setdefault(turn.id, asyncio.Lock()):
            # Another process may change the policy while the drone receives this one.
            while (policy := await self._now(turn)) != sent:
                await self._rooms.call_drone(turn.drone, "setPolicy", SetPolicy(turn_id=turn.id, policy=policy))
                sent = policy

    async def _now(self, turn: ChatTurn) -> Policy:
        return await policy_of(self._store, await self._store.sessions.owned(turn.user, turn.session))

    async def _push(self, turn: ChatTurn) -> None:
        for wait_s in (*_AGAIN_S, None):
            try:
                return await self.send(turn)
            except NotFound:
                return
            except GadgetError as exc:
                log.info("the new policy of turn %s is sent later: %s", turn.id, exc.message)
            if wait_s is None:
                return
            await asyncio.sleep(wait_s)
            now = await self._store.turns.find({"_id": turn.id, "status": ChatTurnStatus.PROCESSING})
            if now is None:
                return
            turn = now
