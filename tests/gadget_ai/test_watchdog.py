"""How long a model may be silent, without a network."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gadget_ai.client import Chunk, Finished, TextDelta, Timeouts, UsageChunk
from gadget_ai.errors import LLMError
from gadget_ai.watchdog import with_timeouts
from gadget_api.errors import ErrorCode
from gadget_api.messages import FinishReason, Usage

SHORT = Timeouts(first_chunk_s=0.05, between_chunks_s=0.05)
FINISHED = Finished(FinishReason.STOP)


class Source:
    """Gives chunks, and after them what `last` says: silence, an error or the end."""

    def __init__(self, *chunks: Chunk, last: LLMError | None = None, silent: bool = False) -> None:
        self._chunks, self._last, self._silent = chunks, last, silent
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[Chunk, None]:
        try:
            for chunk in self._chunks:
                yield chunk
            if self._silent:
                await asyncio.Event().wait()
            if self._last:
                raise self._last
        finally:
            self.is_closed = True


async def chunks_of(source: Source, timeouts: Timeouts = SHORT) -> list[Chunk]:
    async with asyncio.timeout(5):
        return [chunk async for chunk in with_timeouts(source.stream(), timeouts)]


@pytest.mark.parametrize("before", [(), (TextDelta("a"), TextDelta("b"))])
async def test_silence_is_a_timeout_and_closes_the_source(before: tuple[Chunk, ...]) -> None:
    source = Source(*before, silent=True)
    with pytest.raises(LLMError) as caught:
        await chunks_of(source)
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.MODEL_TIMEOUT, True)
    assert source.is_closed
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_first_chunk_may_take_longer_than_the_others() -> None:
    timeouts = Timeouts(first_chunk_s=1000, between_chunks_s=0.05)
    with pytest.raises(LLMError) as caught:
        await chunks_of(Source(TextDelta("a"), silent=True), timeouts)
    assert "0.05 seconds" in caught.value.message


async def test_silence_or_an_error_after_the_finish_is_ignored() -> None:
    usage = UsageChunk(Usage(input_tokens=1))
    error = LLMError(ErrorCode.MODEL_CUT_OFF, "", retryable=True)
    assert await chunks_of(Source(TextDelta("a"), FINISHED, usage, silent=True)) == [TextDelta("a"), FINISHED, usage]
    assert await chunks_of(Source(FINISHED, last=error)) == [FINISHED]


async def test_an_end_without_a_finish_is_cut_off() -> None:
    with pytest.raises(LLMError) as caught:
        await chunks_of(Source(TextDelta("a")))
    assert caught.value.code is ErrorCode.MODEL_CUT_OFF


async def test_the_readers_own_time_does_not_count() -> None:
    read: list[Chunk] = []
    async for chunk in with_timeouts(Source(TextDelta("a"), TextDelta("b"), FINISHED).stream(), SHORT):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * SHORT.between_chunks_s):
                await asyncio.Event().wait()
        read.append(chunk)
    assert len(read) == 3


async def test_a_cancellation_of_the_reader_is_kept() -> None:
    source = Source(TextDelta("a"), silent=True)
    task = asyncio.create_task(chunks_of(source, Timeouts()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.is_closed
