"""Limits on sign-in attempts.

Nobody can lock another person out. Failures count against the client's address: ten per account, fifty in all. Attempts
from many addresses at one account are delayed, not refused. An address that signed in to the account before is not
delayed.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from gadget_api.addresses import network_of
from gadget_api.errors import TooMany

_WINDOW_S = 15 * 60
_PER_ACCOUNT_AND_ADDRESS = 10
_PER_ADDRESS = 50
_PER_ACCOUNT = 50
"""Above this, addresses that never signed in to the account are delayed, one after the other."""
_TURN_S = 2.0
_MAX_WAITING = 5
_MAX_KEYS = 10_000


class LoginLimits:
    """Counts failures of the last 15 minutes in this process. An attempt counts from its start, so that parallel
    attempts do not get around the limit; a success removes it again."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._failures: OrderedDict[Hashable, list[float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Accounts with the networks that they signed in from, the latest last."""
        self._next_turn: OrderedDict[str, float] = OrderedDict()
        """Account -> when its next delayed attempt may start."""

    async def attempt(self, account: str, address: str) -> None:
        """Counts an attempt, and waits when the account is attacked from many addresses. Raises TooMany when this
        address has failed too often, or too many attempts wait already."""
        network = network_of(address)
        is_known = (account, network) in self._known
        here, anywhere, by_anyone = keys = _keys(account, network)
        self._check(here, _PER_ACCOUNT_AND_ADDRESS)
        wait_s = 0.0
        if not is_known:
            self._check(anywhere, _PER_ADDRESS)
            if len(self._recent(by_anyone)) >= _PER_ACCOUNT:
                wait_s = self._turn(account)
        for key in keys:
            self._failures[key] = [*self._recent(key)[-_PER_ACCOUNT:], self._clock()]
            self._failures.move_to_end(key)
        _bound(self._failures)
        if wait_s:
            await self._sleep(wait_s)

    def succeeded(self, account: str, address: str) -> None:
        """Removes the attempt from the count."""
        here, *others = _keys(account, network_of(address))
        self._failures.pop(here, None)
        for key in others:
            if failures := self._failures.get(key):
                failures.pop()

    def signed_in(self, account: str, address: str) -> None:
        """Exempts the account's later attempts from this network from the delay."""
        network = network_of(address)
        self._known[account, network] = None
        self._known.move_to_end((account, network))
        _bound(self._known)

    def _check(self, key: Hashable, limit: int) -> None:
        recent = self._recent(key)
        if len(recent) >= limit:
            wait_s = int(_WINDOW_S - (self._clock() - recent[-limit])) + 1
            raise TooMany(
                f"There were too many failed sign-ins from here; try again in {wait_s // 60 + 1} minutes.",
                retry_after_s=wait_s,
            )

    def _turn(self, account: str) -> float:
        """Returns the seconds to wait before an attempt. Raises TooMany when too many wait."""
        now = self._clock()
        turn = max(now, self._next_turn.get(account, 0.0))
        if turn - now >= _MAX_WAITING * _TURN_S:
            raise TooMany("Many sign in to this account now; try again in a few seconds.", retry_after_s=int(_TURN_S))
        self._next_turn[account] = turn + _TURN_S
        self._next_turn.move_to_end(account)
        _bound(self._next_turn)
        return turn + _TURN_S - now

    def _recent(self, key: Hashable) -> list[float]:
        start = self._clock() - _WINDOW_S
        return [moment for moment in self._failures.get(key, ()) if moment > start]


def _keys(account: str, network: str) -> tuple[Hashable, Hashable, Hashable]:
    return ("both", account, network), ("address", network), ("account", account)


def _bound(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _MAX_KEYS:
        kept.popitem(last=False)
