"""Starting a model call again."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from gadget_ai.client import Chunk, Finished, Restarted, TextDelta, ToolCallDelta
from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode
from gadget_api.messages import FinishReason


@dataclass(frozen=True)
class RetryPolicy:
    """How often and when. Times in seconds."""

    retries: int = 3
    first_delay_s: float = 1.0
    """Doubled for each further retry; half of a delay is random, so that many drones do not come back at once."""
    max_retry_after_s: float = 120.0
    """A provider that asks for a longer wait is asked again after this one."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def delay_s(self, attempt: int, error: LLMError) -> float:
        """Before the call that follows the failed `attempt` (1 is the first)."""
        if error.retry_after_s is not None:
            return min(error.retry_after_s, self.max_retry_after_s)
        return float(self.first_delay_s * 2 ** (attempt - 1) * (0.5 + self.random() / 2))


async def retrying(
    start: Callable[[], AsyncGenerator[Chunk, None]], policy: RetryPolicy
) -> AsyncGenerator[Chunk, None]:
    """The chunks of `start()`; after a retryable error `Restarted`, a wait, and the chunks of another `start()`.

    An answer that says nothing and calls nothing is the error MODEL_EMPTY, retried once.
    Raises the last `LLMError`.
    """
    attempt = 0
    emptied = False
    while True:
        attempt += 1
        try:
            async with aclosing(start()) as chunks:
                said = False
                reason = FinishReason.UNKNOWN
                async for chunk in chunks:
                    match chunk:
                        case TextDelta(content):
                            said = said or not content.isspace()
                        case ToolCallDelta():
                            said = True
                        case Finished(reason):
                            pass
                    yield chunk
            if said:
                return
            raise _empty(reason)
        except LLMError as error:
            if not error.retryable or attempt > policy.retries or (emptied and error.code is ErrorCode.MODEL_EMPTY):
                raise
            emptied = emptied or error.code is ErrorCode.MODEL_EMPTY
            failure = error
        delay_s = policy.delay_s(attempt, failure)
        yield Restarted(failure, attempt + 1, delay_s)
        await policy.sleep(delay_s)


def _empty(reason: FinishReason) -> LLMError:
    if reason is FinishReason.CONTENT_FILTER:
        return LLMError(ErrorCode.MODEL_REFUSED, "The provider's content filter held the answer back; rephrase it.")
    why = " before it reached its output limit" if reason is FinishReason.LENGTH else ""
    return LLMError(
        ErrorCode.MODEL_EMPTY, f"The model said nothing{why}; try again or choose another model.", retryable=True
    )
