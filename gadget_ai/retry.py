"""Retries of a model call."""

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
    """How often and when a failed call is retried. Times are in seconds."""

    retries: int = 3
    first_delay_s: float = 1.0
    """Doubled with each retry. Half of each delay is random, so that many drones do not retry at the same time."""
    max_retry_after_s: float = 120.0
    """The longest wait that a provider can ask for."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def delay_s(self, attempt: int, error: LLMError) -> float:
        """Returns the delay after the failed `attempt` (1 is the first)."""
        if error.retry_after_s is not None:
            return min(error.retry_after_s, self.max_retry_after_s)
        return float(self.first_delay_s * 2 ** (attempt - 1) * (0.5 + self.random() / 2))


async def retrying(
    start: Callable[[], AsyncGenerator[Chunk, None]], policy: RetryPolicy
) -> AsyncGenerator[Chunk, None]:
    """Yields the chunks of `start()`. After a retryable error it yields `Restarted`, waits, and starts again.

    An answer without text and tool calls is the error MODEL_EMPTY, which is retried once. Raises the last `LLMError`.
    """
    attempt = 0
    was_empty = False
    while True:
        attempt += 1
        try:
            async with aclosing(start()) as chunks:
                has_content = False
                reason = FinishReason.UNKNOWN
                async for chunk in chunks:
                    match chunk:
                        case TextDelta(content):
                            has_content = has_content or not content.isspace()
                        case ToolCallDelta():
                            has_content = True
                        case Finished(reason):
                            pass
                    yield chunk
            if has_content:
                return
            raise _empty(reason)
        except LLMError as error:
            is_empty = error.code is ErrorCode.MODEL_EMPTY
            if not error.retryable or attempt > policy.retries or (was_empty and is_empty):
                raise
            was_empty = was_empty or is_empty
            failure = error
        delay_s = policy.delay_s(attempt, failure)
        yield Restarted(failure, attempt + 1, delay_s)
        await policy.sleep(delay_s)


def _empty(reason: FinishReason) -> LLMError:
    if reason is FinishReason.CONTENT_FILTER:
        return LLMError(ErrorCode.MODEL_REFUSED, "The provider's content filter blocked the answer; change the prompt.")
    why = " before its output limit" if reason is FinishReason.LENGTH else ""
    return LLMError(
        ErrorCode.MODEL_EMPTY, f"The model gave no answer{why}; try again or choose another model.", retryable=True
    )
