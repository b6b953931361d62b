"""The beat on which what streams is stored: what comes between two of them is one write, of a turn and of all turns."""

import asyncio


class Beat:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: list[asyncio.Future[None]] = []

    def next(self) -> asyncio.Future[None]:
        """Done at the next beat; who cannot wait so long sets it before."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_at((loop.time() // self._every_s + 1) * self._every_s, self._strike)
        come: asyncio.Future[None] = loop.create_future()
        self._waiting.append(come)
        return come

    def _strike(self) -> None:
        waiting, self._waiting = self._waiting, []
        for come in waiting:
            if not come.done():
                come.set_result(None)
