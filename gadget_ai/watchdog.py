"""The bounds on a model call, in one place for every client: how long it may be silent, and how it must end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from gadget_ai.client import Chunk, Finished, Timeouts
from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode

AFTER_FINISH_S = 5.0
"""What may follow the finish reason is the usage; an answer that is whole is not given up for the lack of it."""


async def watched(chunks: AsyncGenerator[Chunk, None], timeouts: Timeouts) -> AsyncGenerator[Chunk, None]:
    """`chunks`, closed in any case.

    Raises `LLMError`: MODEL_TIMEOUT after too long a silence, MODEL_CUT_OFF for a stream that ends before it is
    `Finished`; both retryable. Nothing that happens after `Finished` is an error.
    """
    finished = False
    alarm = _Alarm(timeouts.first_chunk_s)
    async with aclosing(chunks):
        try:
            while True:
                try:
                    alarm.begin()
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                except asyncio.CancelledError:
                    if not alarm.was_the_cause():
                        raise
                    if finished:
                        return
                    raise LLMError(
                        ErrorCode.MODEL_TIMEOUT,
                        f"The provider sent nothing for {alarm.wait_s:g} seconds; try again or choose another model.",
                        retryable=True,
                    ) from None
                except LLMError:
                    if finished:
                        return
                    raise
                alarm.end()
                finished = finished or isinstance(chunk, Finished)
                alarm.wait_s = min(AFTER_FINISH_S, timeouts.between_chunks_s) if finished else timeouts.between_chunks_s
                yield chunk
        finally:
            alarm.stop()
    if not finished:
        raise cut_off()


def cut_off() -> LLMError:
    return LLMError(
        ErrorCode.MODEL_CUT_OFF,
        "The provider's answer was cut off before its end; try again.",
        retryable=True,
    )


class _Alarm:
    """`asyncio.timeout` for each of many waits, with one timer for all: 0.6 us a wait and not 3.4, of some 20 that a
    delta costs."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s = 0.0
        self._rang = False
        self._cancelling = 0

    def begin(self) -> None:
        """A wait begins in the current task."""
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._deadline_s = self._loop.time() + self.wait_s
        # A timer that is set for too early sets itself again; one for too late, after a longer wait, does not help.
        if self._timer is None or self._timer.when() > self._deadline_s:
            self._set()

    def end(self) -> None:
        """What was waited for has come."""
        if self._rang and self._task is not None:
            self._task.uncancel()
            self._rang = False
        self._task = None

    def was_the_cause(self) -> bool:
        """Of a CancelledError. False also when somebody else cancelled the task at the same time."""
        if not self._rang or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._cancelling

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        self.stop()
        self._timer = self._loop.call_at(self._deadline_s, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._deadline_s:
            self._set()
        else:
            self._rang = True
            self._task.cancel()
