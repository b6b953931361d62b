"""How often a password may be guessed."""

import time
from collections import OrderedDict
from collections.abc import Callable

from gadget_api.errors import TooMany

_WINDOW_S = 15 * 60
_PER_ACCOUNT = 10
_PER_ADDRESS = 50
_MAX_KEYS = 10_000


class LoginLimits:
    """Counts attempts per account and per address over 15 minutes, in this process. An attempt counts from its start,
    so that many at once are no way around; one that succeeds is taken back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._attempts: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def attempt(self, account: str, address: str) -> None:
        """Counts an attempt. Raises TooMany when either has failed too often."""
        now = self._clock()
        keys = (("account", account, _PER_ACCOUNT), ("address", address, _PER_ADDRESS))
        for kind, name, limit in keys:
            recent = self._recent((kind, name))
            if len(recent) >= limit:
                wait_s = int(_WINDOW_S - (now - recent[0])) + 1
                raise TooMany(
                    f"There were too many failed sign-ins; try again in {wait_s // 60 + 1} minutes.",
                    retry_after_s=wait_s,
                )
        for kind, name, _ in keys:
            self._attempts[kind, name] = [*self._recent((kind, name)), now]
            self._attempts.move_to_end((kind, name))
        while len(self._attempts) > _MAX_KEYS:
            self._attempts.popitem(last=False)

    def succeeded(self, account: str, address: str) -> None:
        self._attempts.pop(("account", account), None)
        if attempts := self._attempts.get(("address", address)):
            attempts.pop()

    def _recent(self, key: tuple[str, str]) -> list[float]:
        start = self._clock() - _WINDOW_S
        return [moment for moment in self._attempts.get(key, ()) if moment > start]
