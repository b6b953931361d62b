"""From chunks to an answer."""

from collections.abc import AsyncGenerator, Iterable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gadget_ai.client import (
    Chunk,
    Finished,
    ModelNotice,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageChunk,
)
from gadget_ai.collect import MAX_MODEL_ANSWER_BYTES, LiveChunk, ModelAnswer, collect
from gadget_ai.errors import LLMError
from gadget_api.errors import ErrorCode
from gadget_api.messages import FinishReason, Usage


async def stream(chunks: Iterable[Chunk]) -> AsyncGenerator[Chunk, None]:
    for chunk in chunks:
        yield chunk


async def collected(
    *chunks: Chunk, used: Iterable[str] = (), reason: FinishReason = FinishReason.TOOL_CALLS
) -> ModelAnswer:
    return await collect(stream([*chunks, Finished(reason)]), on_live=lambda live: None, used_call_ids=set(used))


async def test_deltas_and_notices_are_passed_on_in_order() -> None:
    restarted = Restarted(LLMError(ErrorCode.MODEL_CUT_OFF, ""), 2, 1.0)
    notice = ModelNotice("contextTruncated", "")
    chunks: list[Chunk] = [TextDelta("old"), restarted, ThinkingDelta("Hm"), TextDelta("a"), TextDelta("b"), notice]
    live: list[LiveChunk] = []
    usage = Usage(input_tokens=3)
    answer = await collect(stream([*chunks, UsageChunk(usage), Finished(FinishReason.STOP)]), on_live=live.append)
    assert live == chunks
    assert (answer.message.thinking, answer.message.content) == ("Hm", "ab")
    assert (answer.usage, answer.finish_reason) == (usage, FinishReason.STOP)


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_empty_arguments_are_empty_parameters(arguments: str) -> None:
    (call,) = (await collected(ToolCallDelta(0, "a", "list", arguments))).message.tool_calls
    assert (call.params, call.error) == ({}, None)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": ',
        '{"path": "."}}',
        '{"a": 1}{"b": 2}',
        "[1]",
        '"text"',
        "null",
        "{'path': '.'}",
        '{"n": NaN}',
        r'{"s": "\ud800"}',
        '{"a": ' + "[" * 300 + "]" * 300 + "}",
    ],
)
async def test_a_call_with_invalid_arguments_does_not_run(arguments: str) -> None:
    (call,) = (await collected(ToolCallDelta(0, "a", "list", arguments))).message.tool_calls
    assert call.params == {}
    assert call.error is not None
    assert "repeat it" in call.error


async def test_a_call_without_a_name_does_not_run() -> None:
    (call,) = (await collected(ToolCallDelta(0, "a", "", '{"path": "."}'))).message.tool_calls
    assert (call.name, call.params) == ("unknown", {})
    assert call.error is not None


@pytest.mark.parametrize("arguments", ["", '{"path": "a', '{"path":'])
async def test_a_call_cut_off_by_the_output_limit_does_not_run(arguments: str) -> None:
    answer = await collected(
        ToolCallDelta(0, "a", "list", '{"path": "."}'),
        ToolCallDelta(1, "b", "write", arguments),
        reason=FinishReason.LENGTH,
    )
    whole, cut = answer.message.tool_calls
    assert (whole.params, whole.error) == ({"path": "."}, None)
    assert cut.params == {}
    assert cut.error is not None
    assert "output limit" in cut.error


async def test_call_ids_differ_from_earlier_call_ids() -> None:
    answer = await collected(
        ToolCallDelta(0, "call_0", "list", "{}"),
        ToolCallDelta(1, "b", "list", "{}"),
        ToolCallDelta(2, "b", "list", "{}"),
        ToolCallDelta(3, "", "list", "{}"),
        used={"call_0"},
    )
    ids = [call.call_id for call in answer.message.tool_calls]
    assert ids[1] == "b"
    assert len({*ids, "call_0"}) == 5
    assert all(ids)


async def test_an_answer_without_an_end_is_cut_off() -> None:
    with pytest.raises(LLMError) as caught:
        await collect(stream([TextDelta("Half of")]), on_live=lambda live: None)
    assert caught.value.code is ErrorCode.MODEL_CUT_OFF


@pytest.mark.parametrize(
    "chunk",
    [
        TextDelta("x" * 10_000),
        TextDelta("é\n" * 10_000),
        ThinkingDelta("x" * 10_000),
        ToolCallDelta(0, "a", "write", "x" * 10_000),
    ],
)
async def test_an_answer_that_is_too_large_is_an_error(chunk: Chunk) -> None:
    closed = []

    async def endless() -> AsyncGenerator[Chunk, None]:
        try:
            for _ in range(100):
                yield chunk
            yield Finished(FinishReason.STOP)
        finally:
            closed.append(True)

    with pytest.raises(LLMError) as caught:
        await collect(endless(), on_live=lambda live: None)
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.MODEL_BAD_RESPONSE, False)
    assert str(MAX_MODEL_ANSWER_BYTES) in caught.value.message
    assert closed == [True]


async def test_a_flood_of_empty_calls_is_an_error() -> None:
    with pytest.raises(LLMError):
        await collect(stream(ToolCallDelta(n, "", "x") for n in range(20_000)), on_live=lambda live: None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    all_params=st.lists(
        st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), json_values, max_size=3),
        min_size=1,
        max_size=3,
    ),
    data=st.data(),
)
async def test_any_split_of_calls_into_fragments_makes_the_same_calls(
    all_params: list[dict[str, object]], data: st.DataObject
) -> None:
    queues: list[list[Chunk]] = []
    for index, params in enumerate(all_params):
        text = orjson.dumps(params).decode()
        edges = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
        parts = [text[start:end] for start, end in zip([0, *edges], [*edges, len(text)], strict=True)]
        queue: list[Chunk] = [ToolCallDelta(index, f"c{index}", "list", parts[0])]
        queues.append(queue + [ToolCallDelta(index, arguments=part) for part in parts[1:]])
    chunks: list[Chunk] = [queue.pop(0) for queue in queues]
    while left := [queue for queue in queues if queue]:
        chunks.append(data.draw(st.sampled_from(left)).pop(0))
    answer = await collected(*chunks)
    assert [call.params for call in answer.message.tool_calls] == all_params
    assert [call.error for call in answer.message.tool_calls] == [None] * len(all_params)
