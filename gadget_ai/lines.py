"""Splits a streamed body into lines, for both SSE and NDJSON."""

from collections.abc import AsyncGenerator, AsyncIterator

from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode

MAX_LINE_BYTES = 4_000_000
"""A line has one delta, or the whole answer of a server that does not stream: 600,000 bytes with each byte escaped."""


async def lines(blocks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Yields the lines that each block completes, without line ends; at the end of the body the last line.

    Raises `LLMError` (MODEL_BAD_RESPONSE, not retryable) for a line larger than `MAX_LINE_BYTES`.
    """
    parts: list[bytes] = []
    size_bytes = 0
    async for block in blocks:
        first, *more = block.split(b"\n")
        parts.append(first)
        size_bytes += len(first)
        if size_bytes > MAX_LINE_BYTES:
            raise LLMError(
                ErrorCode.MODEL_BAD_RESPONSE,
                f"The provider sent a line larger than {MAX_LINE_BYTES} bytes; check the provider's URL.",
            )
        if more:
            whole = [b"".join(parts), *more[:-1]]
            parts = [more[-1]]
            size_bytes = len(parts[0])
            yield [line.rstrip(b"\r") for line in whole]
    if size_bytes:
        yield [b"".join(parts).rstrip(b"\r")]
