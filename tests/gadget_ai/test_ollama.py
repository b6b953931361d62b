"""What is Ollama's own."""

import orjson
import pytest

from gadget_ai.client import ModelNotice
from gadget_ai.collect import collect
from gadget_ai.errors import LLMError
from gadget_ai.ollama import was_truncated
from gadget_ai.testing.script import Call, HttpError, RawBytes, Reply, Text
from gadget_ai.windows import DEFAULT_NUM_CTX
from gadget_api.errors import ErrorCode
from gadget_api.messages import ModelMessage, ToolCallRequest, ToolMessage, Usage, UserMessage
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import MakeStage, pick


@pytest.mark.parametrize(("context_window", "num_ctx"), [(None, DEFAULT_NUM_CTX), (32_768, 32_768)])
async def test_the_window_is_requested_and_truncation_is_forbidden(
    context_window: int | None, num_ctx: int, make_stage: MakeStage
) -> None:
    stage = await make_stage(ApiType.OLLAMA, Reply(Text("ok")), context_window=context_window)
    await stage.ask()
    body = orjson.loads(stage.server.requests[0].body)
    assert body["options"]["num_ctx"] == num_ctx
    assert (body["truncate"], body["shift"]) == (False, False)


async def test_a_truncated_conversation_gives_a_notice(make_stage: MakeStage) -> None:
    reply = Reply(Text("What did you say?"), Usage(input_tokens=2000, response_tokens=5))
    stage = await make_stage(ApiType.OLLAMA, reply, context_window=2048)
    notices = pick(await stage.ask("word " * 4000), ModelNotice)
    assert [notice.code for notice in notices] == ["contextTruncated"]
    assert "2048" in notices[0].message


@pytest.mark.parametrize(
    ("sent_bytes", "evaluated_tokens", "num_ctx", "expected"),
    [
        (20_000, 5_000, 8192, False),  # fits, and was read
        (20_000, 40, 8192, False),  # fits; a version that counts only what was not cached
        (20_000, 0, 8192, False),  # fits; a version that leaves the count out
        (28_000, 7_000, 8192, False),
        (40_000, 8_190, 8192, True),  # the window is full
        (40_000, 4_096, 8192, True),  # half was dropped
        (36_000, 7_500, 8192, False),  # dense, and it did fit
        (200_000, 0, 8192, True),  # cannot have fitted
        (200_000, 60_000, 131_072, False),
    ],
)
def test_a_cached_prompt_does_not_look_truncated(
    sent_bytes: int, evaluated_tokens: int, num_ctx: int, expected: bool
) -> None:
    assert was_truncated(sent_bytes, evaluated_tokens, num_ctx) is expected


async def test_calls_without_ids_get_unique_ones(make_stage: MakeStage) -> None:
    stage = await make_stage(
        ApiType.OLLAMA, Reply(Call("list", {"path": "a"}, call_id=""), Call("list", {"path": "b"}, call_id=""))
    )
    said = (await collect(stage.stream(), on_live=lambda live: None)).message
    first, second = said.tool_calls
    assert first.call_id
    assert second.call_id
    assert first.call_id != second.call_id


async def test_results_name_their_tool_and_their_call(make_stage: MakeStage) -> None:
    stage = await make_stage(ApiType.OLLAMA, Reply(Text("ok")))
    call = ToolCallRequest(call_id="c1", name="list", params={"path": "."})
    messages = [
        UserMessage(content="x"),
        ModelMessage(content="", tool_calls=(call,)),
        ToolMessage(call_id="c1", name="list", content="a"),
    ]
    async for _ in stage.client.stream([stage.client.encode(message) for message in messages], []):
        pass
    _, asked, result = stage.server.requests[0].messages
    assert asked["tool_calls"] == [{"id": "c1", "function": {"name": "list", "arguments": {"path": "."}}}]
    assert result == {"role": "tool", "tool_name": "list", "tool_call_id": "c1", "content": "a"}


@pytest.mark.parametrize(
    ("pieces", "code", "retryable"),
    [
        ((RawBytes(b'{"error": "unexpected EOF"}\n'),), ErrorCode.MODEL_OVERLOADED, True),
        ((Text("Half"), RawBytes(b"{broken\n")), ErrorCode.MODEL_BAD_RESPONSE, True),
        ((Text("Half"), RawBytes(b"[1]\n")), ErrorCode.MODEL_BAD_RESPONSE, True),
        ((Text("Half"), RawBytes(b'{"message": {"tool_calls": [{}]}}\n')), ErrorCode.MODEL_BAD_RESPONSE, True),
        ((HttpError(400, {"error": "scripted does not support tools"}),), ErrorCode.MODEL_REFUSED, False),
    ],
)
async def test_ollamas_errors_become_codes(
    pieces: tuple[Text | RawBytes | HttpError, ...], code: ErrorCode, retryable: bool, make_stage: MakeStage
) -> None:
    stage = await make_stage(ApiType.OLLAMA, Reply(*pieces, done=False))
    with pytest.raises(LLMError) as caught:
        await stage.ask()
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
