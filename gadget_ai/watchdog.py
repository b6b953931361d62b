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
    wait_s = timeouts.first_chunk_s
    async with aclosing(chunks):
        while True:
            try:
                async with asyncio.timeout(min(AFTER_FINISH_S, wait_s) if finished else wait_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                break
            except TimeoutError:
                if finished:
                    return
                raise LLMError(
                    ErrorCode.MODEL_TIMEOUT,
                    f"The provider sent nothing for {wait_s:g} seconds; try again or choose another model.",
                    retryable=True,
                ) from None
            except LLMError:
                if finished:
                    return
                raise
            wait_s = timeouts.between_chunks_s
            finished = finished or isinstance(chunk, Finished)
            yield chunk
    if not finished:
        raise cut_off()


def cut_off() -> LLMError:
    return LLMError(
        ErrorCode.MODEL_CUT_OFF,
        "The provider's answer was cut off before its end; try again.",
        retryable=True,
    )
