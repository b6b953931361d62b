"""How often a password may be guessed, and by whom.

Nobody can lock another person out. Failures count against the address that they come from: ten for one account, fifty
in all. Guesses that are spread over many addresses are slowed down per account, not refused, and an address that has
signed in to the account before does not even wait.
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
"""Past that, addresses that never signed in to the account take turns."""
_TURN_S = 2.0
_MAX_WAITING = 5
_MAX_KEYS = 10_000


class LoginLimits:
    """Counts failures of the last 15 minutes, in this process. An attempt counts from its start, so that many at once
    are no way around; one that succeeds is taken back."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._failures: OrderedDict[Hashable, list[float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Accounts and the networks that they signed in from, the latest last."""
        self._next_turn: OrderedDict[str, float] = OrderedDict()
        """When the next attempt at an account may go on that waits for its turn."""

    async def attempt(self, account: str, address: str) -> None:
        """Counts an attempt, and waits where the account is being guessed from many addresses. Raises TooMany when
        this address has failed too often, and when too many wait already."""
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
        """Takes the attempt back."""
        here, *others = _keys(account, network_of(address))
        self._failures.pop(here, None)
        for key in others:
            if failures := self._failures.get(key):
                failures.pop()

    def signed_in(self, account: str, address: str) -> None:
        """From here on the account's attempts from there are not slowed down."""
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
        """Seconds until an attempt may go on. Raises TooMany when many wait."""
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
