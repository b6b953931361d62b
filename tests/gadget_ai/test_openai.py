"""What the many servers that speak like OpenAI do differently."""

from typing import Any

import orjson
import pytest

from gadget_ai.client import Finished, TextDelta, ThinkingDelta, ToolCallDelta, UsageChunk
from gadget_ai.collect import collect
from gadget_ai.errors import LLMError
from gadget_ai.testing.script import Cut, HttpError, Pause, RawBytes, Reply, Text
from gadget_api.errors import ErrorCode
from gadget_api.messages import FinishReason, Usage
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import MakeStage, Stage, pick, text, thinking

DONE = RawBytes(b"data: [DONE]\n\n")


def event(document: Any) -> RawBytes:
    return RawBytes(b"data: " + orjson.dumps(document) + b"\n\n")


def delta(reason: str | None = None, **said: Any) -> RawBytes:
    return event({"choices": [{"index": 0, "delta": said, "finish_reason": reason}]})


async def stage_of(make_stage: MakeStage, *pieces: Any, **more: Any) -> Stage:
    stage: Stage = await make_stage(ApiType.OPENAI, Reply(*pieces, done=False, **more))
    return stage


async def error_of(stage: Stage) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await stage.ask()
    return caught.value


async def test_usage_is_requested_and_read(make_stage: MakeStage) -> None:
    usage = Usage(input_tokens=9, cached_input_tokens=8, thinking_token_count=5, response_tokens=7)
    stage = await make_stage(ApiType.OPENAI, Reply(Text("x"), usage))
    assert pick(await stage.ask(), UsageChunk) == [UsageChunk(usage)]
    assert orjson.loads(stage.server.requests[0].body)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_thinking_under_either_name(field: str, make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, delta(**{field: "Hm."}), delta("stop", content="Yes"), DONE)
    assert await stage.ask() == [ThinkingDelta("Hm."), TextDelta("Yes"), Finished(FinishReason.STOP)]


async def test_done_without_a_reason_ends_the_answer(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, delta(content="Yes"), DONE)
    assert await stage.ask() == [TextDelta("Yes"), Finished(FinishReason.UNKNOWN)]


async def test_a_reason_without_done_ends_the_answer(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, delta("stop", content="Yes"), Pause(0.05), Cut())
    assert await stage.ask() == [TextDelta("Yes"), Finished(FinishReason.STOP)]


async def test_held_back_text_comes_at_the_end(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, delta(content="<thi"), delta("stop", content=""), DONE)
    assert text(await stage.ask()) == "<thi"


async def test_done_alone_is_cut_off(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, DONE)
    assert (await error_of(stage)).code is ErrorCode.MODEL_CUT_OFF


async def test_an_empty_body_is_cut_off(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage)
    assert (await error_of(stage)).code is ErrorCode.MODEL_CUT_OFF


async def test_lines_may_be_split_anywhere_and_end_in_crlf(make_stage: MakeStage) -> None:
    whole = b": keep-alive\r\nevent: message\r\n" + delta("stop", content="Ja, é").data.replace(b"\n", b"\r\n")
    stage = await stage_of(make_stage, *[RawBytes(whole[n : n + 1]) for n in range(len(whole))], DONE)
    assert text(await stage.ask()) == "Ja, é"


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_an_answer_that_is_not_streamed_is_accepted(content_type: str, make_stage: MakeStage) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "list", "arguments": {"path": "."}}}
    message = {"role": "assistant", "content": "I look.", "reasoning": "Hm.", "tool_calls": [call]}
    document = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    body = event(document) if content_type == "text/event-stream" else RawBytes(orjson.dumps(document))
    stage = await stage_of(make_stage, body, content_type=content_type)
    chunks = await stage.ask()
    assert (thinking(chunks), text(chunks)) == ("Hm.", "I look.")
    assert pick(chunks, ToolCallDelta) == [ToolCallDelta(0, "c", "list", '{"path":"."}')]
    assert pick(chunks, Finished) == [Finished(FinishReason.TOOL_CALLS)]
    assert pick(chunks, UsageChunk) == [UsageChunk(Usage(input_tokens=3, response_tokens=2))]


async def test_calls_with_the_same_index_are_separated_by_their_ids(make_stage: MakeStage) -> None:
    def call(call_id: str, path: str) -> RawBytes:
        function = {"name": "list", "arguments": f'{{"path": "{path}"}}'}
        return delta(tool_calls=[{"index": 0, "id": call_id, "function": function}])

    stage = await stage_of(make_stage, call("a", "x"), call("b", "y"), delta("tool_calls"), DONE)
    answer = await collect(stage.stream(), on_live=lambda live: None)
    assert [(c.call_id, c.params) for c in answer.message.tool_calls] == [("a", {"path": "x"}), ("b", {"path": "y"})]


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"message": "Provider returned error", "code": 502}, ErrorCode.MODEL_OVERLOADED, True),
        ({"message": "slow", "code": 429}, ErrorCode.MODEL_RATE_LIMITED, True),
        ({"message": "slow", "type": "rate_limit_exceeded"}, ErrorCode.MODEL_RATE_LIMITED, True),
        ({"message": "pay", "code": "insufficient_quota"}, ErrorCode.MODEL_RATE_LIMITED, False),
        ({"message": "long", "code": "context_length_exceeded"}, ErrorCode.CONTEXT_TOO_LONG, False),
        ({"message": "?", "type": "server_error"}, ErrorCode.MODEL_OVERLOADED, True),
        ("something broke", ErrorCode.MODEL_OVERLOADED, True),
    ],
)
async def test_an_error_inside_a_200_is_an_error(
    error: Any, code: ErrorCode, retryable: bool, make_stage: MakeStage
) -> None:
    stage = await stage_of(make_stage, delta(content="Half of"), event({"error": error}), DONE)
    caught = await error_of(stage)
    assert (caught.code, caught.retryable) == (code, retryable)


async def test_an_error_event_is_an_error(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, RawBytes(b"event: error\n"), event({"message": "overloaded"}))
    assert (await error_of(stage)).code is ErrorCode.MODEL_OVERLOADED


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (429, {"code": "insufficient_quota", "message": "pay"}, ErrorCode.MODEL_RATE_LIMITED, False),
        (402, {"message": "pay"}, ErrorCode.MODEL_RATE_LIMITED, False),
        (400, {"code": "context_length_exceeded", "message": "long"}, ErrorCode.CONTEXT_TOO_LONG, False),
        (400, {"type": "exceed_context_size_error", "message": "long"}, ErrorCode.CONTEXT_TOO_LONG, False),
        (422, {"message": "no"}, ErrorCode.MODEL_REFUSED, False),
        (408, {"message": "slow"}, ErrorCode.MODEL_OVERLOADED, True),
    ],
)
async def test_codes_of_the_provider_are_understood(
    status: int, error: Any, code: ErrorCode, retryable: bool, make_stage: MakeStage
) -> None:
    stage = await stage_of(make_stage, HttpError(status, {"error": error}))
    caught = await error_of(stage)
    assert (caught.code, caught.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "line", [b"data: {broken\n\n", b"data: 5\n\n", b'data: {"choices": [3]}\n\n', b'data: {"choices": 7}\n\n']
)
async def test_a_malformed_line_is_retryable(line: bytes, make_stage: MakeStage) -> None:
    caught = await error_of(await stage_of(make_stage, delta(content="Half of"), RawBytes(line)))
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_BAD_RESPONSE, True)


async def test_text_that_is_not_a_stream_is_an_error(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, RawBytes(b"It works!\n"), content_type="text/plain")
    caught = await error_of(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_BAD_RESPONSE, False)
    assert "It works!" in caught.message


async def test_json_without_choices_is_an_error(make_stage: MakeStage) -> None:
    stage = await stage_of(make_stage, RawBytes(b'{"hello": "world"}'), content_type="application/json")
    assert (await error_of(stage)).code is ErrorCode.MODEL_BAD_RESPONSE
