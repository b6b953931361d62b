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
    """Counts failures per account and per address over 15 minutes, in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def check(self, account: str, address: str) -> None:
        """Raises TooMany when either has failed too often."""
        for key, limit in ((("account", account), _PER_ACCOUNT), (("address", address), _PER_ADDRESS)):
            recent = self._recent(key)
            if len(recent) >= limit:
                wait_s = int(_WINDOW_S - (self._clock() - recent[0])) + 1
                raise TooMany(
                    f"There were too many failed sign-ins; try again in {wait_s // 60 + 1} minutes.",
                    retry_after_s=wait_s,
                )

    def failed(self, account: str, address: str) -> None:
        for key in (("account", account), ("address", address)):
            self._failures[key] = [*self._recent(key), self._clock()][-_PER_ADDRESS:]
            self._failures.move_to_end(key)
        while len(self._failures) > _MAX_KEYS:
            self._failures.popitem(last=False)

    def succeeded(self, account: str) -> None:
        self._failures.pop(("account", account), None)

    def _recent(self, key: tuple[str, str]) -> list[float]:
        start = self._clock() - _WINDOW_S
        return [moment for moment in self._failures.get(key, ()) if moment > start]
