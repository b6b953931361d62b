"""What both clients do alike, over real HTTP."""

import asyncio
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import orjson
import pytest

from gadget_ai.client import Finished, TextDelta, ThinkingDelta, Timeouts, ToolCallDelta, UsageChunk
from gadget_ai.collect import LiveChunk, ask_model
from gadget_ai.errors import LLMError
from gadget_ai.factory import create_client
from gadget_ai.testing.script import Call, Cut, HttpError, Pause, RawBytes, Reply, Reset, Text, Think
from gadget_api.errors import ErrorCode
from gadget_api.messages import (
    FinishReason,
    ModelMessage,
    SystemMessage,
    ToolCallRequest,
    ToolMessage,
    Usage,
    UserMessage,
)
from gadget_api.providers import ApiType, ListedModel, ModelParams
from tests.gadget_ai.conftest import KEY, LIST_TOOL, MakeStage, pick, provider, text, thinking
from tests.harness import until

both = pytest.mark.parametrize("api", list(ApiType))


async def refused(stage: Any) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await stage.ask()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(stage.client)
    assert KEY not in shown
    assert isinstance(caught.value, LLMError)
    return caught.value


@both
async def test_text_and_thinking_stream_in_order_and_end_with_usage_and_a_reason(
    api: ApiType, make_stage: MakeStage
) -> None:
    usage = Usage(input_tokens=120, cached_input_tokens=100, response_tokens=30)
    stage = await make_stage(api, Reply(Think("Hm, let me see.", deltas=4), Text("Here we go, é 🎉.", deltas=5), usage))
    chunks = await stage.ask()
    assert thinking(chunks) == "Hm, let me see."
    assert text(chunks) == "Here we go, é 🎉."
    assert len(pick(chunks, TextDelta)) == 5
    assert len(pick(chunks, ThinkingDelta)) == 4
    assert pick(chunks, UsageChunk) == [UsageChunk(usage)]
    assert pick(chunks, Finished) == [Finished(FinishReason.STOP)]


@both
async def test_tool_calls_come_with_their_arguments_and_ids(api: ApiType, make_stage: MakeStage) -> None:
    calls = [
        Call("list", {"path": "."}, call_id="a", deltas=4),
        Call("list", {"path": "src", "how": {"n": 2}}, call_id="b", deltas=3),
    ]
    stage = await make_stage(api, Reply(Text("I look."), *calls))
    said = await ask_model(stage.client, [stage.client.encode(UserMessage(content="x"))], [LIST_TOOL], on_live=ignore)
    assert said.message.content == "I look."
    assert said.message.tool_calls == (
        ToolCallRequest(call_id="a", name="list", params={"path": "."}),
        ToolCallRequest(call_id="b", name="list", params={"path": "src", "how": {"n": 2}}),
    )
    assert said.finish_reason is FinishReason.TOOL_CALLS


def ignore(live: LiveChunk) -> None:
    return


@both
async def test_a_tools_schema_reaches_the_provider_whole(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")))
    await stage.ask(tools=[LIST_TOOL])
    assert stage.server.requests[0].tools[0]["function"]["parameters"] == LIST_TOOL.parameters


@both
async def test_sampling_is_sent_only_when_it_is_set(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")), params=ModelParams(temperature=0.5, top_k=7))
    await stage.ask()
    body = orjson.loads(stage.server.requests[0].body)
    sampling = body["options"] if api is ApiType.OLLAMA else body
    assert sampling["temperature"] == 0.5
    assert sampling["top_k"] == 7
    assert "top_p" not in sampling


@both
async def test_a_request_repeats_the_one_before_it_as_an_exact_prefix(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, answer=lambda request: Reply(Text("ok")))
    client = stage.client
    sent = [client.encode(SystemMessage(content="Be good.")), client.encode(UserMessage(content="Hello"))]
    rounds = 4
    for n in range(rounds):
        async for _ in client.stream(sent, [LIST_TOOL]):
            pass
        call = ToolCallRequest(call_id=f"c{n}", name="list", params={"path": "."})
        sent.append(client.encode(ModelMessage(content="", tool_calls=(call,))))
        sent.append(client.encode(ToolMessage(call_id=f"c{n}", name="list", content="a\nb")))
    bodies = [request.body for request in stage.server.requests]
    assert len(bodies) == rounds
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}")
        assert after.startswith(before[:-2] + b",")


@both
async def test_the_connection_is_reused(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, answer=lambda request: Reply(Text("ok")))
    for _ in range(3):
        await stage.ask()
    assert stage.server.connections == 1


@both
async def test_the_key_is_only_in_the_authorization_header(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")))
    await stage.ask()
    request = stage.server.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in request.body


@both
async def test_without_a_key_no_key_of_the_environment_is_sent(
    api: ApiType, make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "somebody-elses")
    stage = await make_stage(api, Reply(Text("ok")), api_key=None)
    await stage.ask()
    assert not [value for value in stage.server.requests[0].headers.values() if "somebody-elses" in value]
    assert await stage.client.list_models() == [ListedModel(id="scripted")]


@both
async def test_the_models_of_the_provider_are_listed(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api)
    assert await stage.client.list_models() == [ListedModel(id="scripted")]


@both
@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (401, "Incorrect API key provided", ErrorCode.MODEL_AUTH, False),
        (403, "no", ErrorCode.MODEL_AUTH, False),
        (404, "model not found", ErrorCode.MODEL_NOT_FOUND, False),
        (429, "slow down", ErrorCode.MODEL_RATE_LIMITED, True),
        (400, "tools are not supported", ErrorCode.MODEL_REFUSED, False),
        (400, "the input length exceeds the context length", ErrorCode.CONTEXT_TOO_LONG, False),
        (413, "too large", ErrorCode.CONTEXT_TOO_LONG, False),
        (500, "oops", ErrorCode.MODEL_OVERLOADED, True),
        (503, "loading", ErrorCode.MODEL_OVERLOADED, True),
        (307, "elsewhere", ErrorCode.MODEL_BAD_RESPONSE, False),
    ],
)
async def test_an_http_error_becomes_a_code(
    api: ApiType, status: int, error: str, code: ErrorCode, retryable: bool, make_stage: MakeStage
) -> None:
    said = f"{error}\x1b[31m {KEY} " + "x" * 1000
    headers = {"location": "http://127.0.0.1:9/"} if status == 307 else {}
    stage = await make_stage(api, Reply(HttpError(status, {"error": {"message": said}}, headers)))
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (code, retryable)
    assert "\x1b" not in caught.message
    assert len(caught.message) < 500


@both
@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-3"}, 0.0),
        ({}, None),
    ],
)
async def test_retry_after_is_read(
    api: ApiType, headers: dict[str, str], expected_s: float | None, make_stage: MakeStage
) -> None:
    stage = await make_stage(api, Reply(HttpError(429, {}, headers)))
    assert (await refused(stage)).retry_after_s == expected_s


@both
async def test_retry_after_may_be_a_date(api: ApiType, make_stage: MakeStage) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    stage = await make_stage(api, Reply(HttpError(503, {}, {"Retry-After": when})))
    retry_after_s = (await refused(stage)).retry_after_s
    assert retry_after_s is not None
    assert 50 < retry_after_s <= 60


@both
async def test_the_error_names_a_missing_model(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(HttpError(404, {"error": "no"})))
    assert "'scripted'" in (await refused(stage)).message


@both
async def test_a_closed_port_is_unreachable(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, base_url="http://127.0.0.1:9/v1")
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_UNREACHABLE, True)
    with pytest.raises(LLMError) as listing:
        await stage.client.list_models()
    assert listing.value.code is ErrorCode.MODEL_UNREACHABLE


@both
async def test_a_name_without_an_address_is_unreachable(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, base_url="http://nowhere.invalid/v1")
    assert (await refused(stage)).code is ErrorCode.MODEL_UNREACHABLE


@both
@pytest.mark.parametrize("end", [Cut(), Reset()])
async def test_a_connection_lost_during_the_text_is_cut_off(
    api: ApiType, end: Cut | Reset, make_stage: MakeStage
) -> None:
    stage = await make_stage(api, Reply(Text("Half of"), Pause(0.05), end))
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_CUT_OFF, True)


@both
async def test_an_answer_without_its_end_mark_is_cut_off(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("Half of"), done=False))
    assert (await refused(stage)).code is ErrorCode.MODEL_CUT_OFF


@both
async def test_a_web_page_is_an_error(api: ApiType, make_stage: MakeStage) -> None:
    page = RawBytes(b"<!doctype html><title>Welcome</title>")
    stage = await make_stage(api, Reply(page, content_type="text/html; charset=utf-8", done=False))
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_BAD_RESPONSE, False)
    assert "URL" in caught.message


@both
async def test_a_line_without_end_is_an_error(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(*[RawBytes(b"data: " + b"x" * 1_000_000)] * 5, done=False))
    assert (await refused(stage)).code is ErrorCode.MODEL_BAD_RESPONSE


@both
@pytest.mark.parametrize("before", [(), (Text("Half of"),)])
async def test_silence_is_a_timeout(api: ApiType, before: tuple[Text, ...], make_stage: MakeStage) -> None:
    timeouts = Timeouts(first_chunk_s=1, between_chunks_s=1)
    stage = await make_stage(api, Reply(*before, Pause(30), Text("late")), timeouts=timeouts)
    caught = await refused(stage)
    assert (caught.code, caught.retryable) == (ErrorCode.MODEL_TIMEOUT, True)
    await stage.server.wait_disconnected()


@both
async def test_closing_the_stream_closes_the_connection(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("One"), Pause(30), Text("two")))
    stream = stage.stream()
    assert await anext(stream) == TextDelta("One")
    await stream.aclose()
    await stage.server.wait_disconnected()
    assert stage.server.disconnected == 1


@both
async def test_cancelling_the_reader_closes_the_connection(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("One"), Pause(30), Text("two")))
    reading = asyncio.create_task(stage.ask())

    async def asked() -> bool | None:
        return True if stage.server.requests else None

    await until(asked)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await stage.server.wait_disconnected()


@both
async def test_the_output_limit_is_a_finish_reason(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("Half of"), finish=FinishReason.LENGTH))
    assert pick(await stage.ask(), Finished) == [Finished(FinishReason.LENGTH)]


@both
async def test_thinking_in_the_text_is_separated(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("<think>Hm.</think>\n\nThe tag is <think>.", deltas=9)))
    chunks = await stage.ask()
    assert thinking(chunks) == "Hm."
    assert text(chunks) == "The tag is <think>."


@both
async def test_an_invented_tool_name_is_valid_in_the_history(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")))
    call = ToolCallRequest(call_id="c", name="functions.list files", params={})
    messages = [
        UserMessage(content="x"),
        ModelMessage(content="", tool_calls=(call,)),
        ToolMessage(call_id="c", name=call.name, content="there is no such tool"),
    ]
    chunks = [chunk async for chunk in stage.client.stream([stage.client.encode(m) for m in messages], [])]
    assert text(chunks) == "ok"
    if api is ApiType.OPENAI:
        name = stage.server.requests[0].messages[1]["tool_calls"][0]["function"]["name"]
        assert name == "functions_list_files"


@both
async def test_call_fragments_carry_their_index(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Call("list", {"path": "a"}), Call("list", {"path": "b"})))
    assert {chunk.index for chunk in pick(await stage.ask(), ToolCallDelta)} == {0, 1}


@both
@pytest.mark.parametrize(
    "body",
    [
        b"<html>hi</html>",
        b'{"hello":1}',
        b"[1]",
        b"null",
        b"",
        b'{"data":null,"models":null}',
        b'{"data":[5],"models":[5]}',
    ],
)
async def test_a_response_that_is_not_a_list_of_models_is_an_error(api: ApiType, body: bytes) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        client = create_client(provider(api, base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        with pytest.raises(LLMError) as caught:
            await client.list_models()
        await client.close()
    assert caught.value.code is ErrorCode.MODEL_BAD_RESPONSE
