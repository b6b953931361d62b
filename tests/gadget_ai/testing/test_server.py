"""The scripted server is strict, and keeps its word about bytes and connections."""

import asyncio
from typing import Any

import httpx
import pytest

from gadget_ai.client import ChatClient
from gadget_ai.collect import ask_model
from gadget_ai.errors import LLMError
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Call, Pause, Reply, Script, Text, history_fault
from gadget_ai.testing.server import ScriptedServer
from gadget_api.errors import ErrorCode
from gadget_api.messages import Message, ModelMessage, ToolCallRequest, ToolMessage, UserMessage
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import MakeStage

ASK = UserMessage(content="x")


def asks(*call_ids: str) -> ModelMessage:
    return ModelMessage(
        content="", tool_calls=tuple(ToolCallRequest(call_id=i, name="list", params={}) for i in call_ids)
    )


def result(call_id: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="list", content="")


BAD_HISTORIES: dict[str, list[Message]] = {
    "a call without a result": [ASK, asks("a")],
    "one of two without a result": [ASK, asks("a", "b"), result("b")],
    "a prompt before the result": [ASK, asks("a"), ASK, result("a")],
    "a result without a call": [ASK, result("a")],
    "a second result": [ASK, asks("a"), result("a"), result("a")],
    "an id twice in an answer": [ASK, asks("a", "a"), result("a"), result("a")],
    "an id again later": [ASK, asks("a"), result("a"), asks("a"), result("a")],
}


@pytest.mark.parametrize("name", list(BAD_HISTORIES))
@pytest.mark.parametrize("api", [*ApiType, None])
async def test_a_bad_history_is_refused(api: ApiType | None, name: str, make_stage: MakeStage) -> None:
    client: ChatClient = (
        ScriptedClient(Script([Reply(Text("ok"))]))
        if api is None
        else (await make_stage(api, Reply(Text("ok")))).client
    )
    with pytest.raises(LLMError) as caught:
        await ask_model(client, [client.encode(m) for m in BAD_HISTORIES[name]], [], on_live=lambda live: None)
    assert caught.value.code is ErrorCode.MODEL_REFUSED


def test_a_good_history_is_accepted() -> None:
    calls: list[dict[str, Any]] = [{"id": "a"}, {"id": "b"}]
    results: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": "b"}, {"role": "tool", "tool_call_id": "a"}]
    assert history_fault([{"role": "user"}, {"role": "assistant", "tool_calls": calls}, *results]) is None
    without_ids: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{}, {}]},
        {"role": "tool"},
        {"role": "tool"},
    ]
    assert history_fault(without_ids) is None


async def test_models_have_their_own_scripts_and_an_unknown_one_is_not_found(make_stage: MakeStage) -> None:
    scripts = {"a": Script([Reply(Text("I am a."))]), "b": Script([Reply(Text("I am b."))])}
    async with ScriptedServer(scripts) as server, httpx.AsyncClient(base_url=server.root_url) as http:
        for model, status, said in (("b", 200, "I am b."), ("a", 200, "I am a."), ("c", 404, "not found")):
            response = await http.post("/v1/chat/completions", json={"model": model, "messages": []})
            assert response.status_code == status
            assert said in response.text
        assert [model["id"] for model in (await http.get("/v1/models")).json()["data"]] == ["a", "b"]
        assert [model["name"] for model in (await http.get("/api/tags")).json()["models"]] == ["a", "b"]
        assert (await http.get("/api/version")).status_code == 200
        assert (await http.post("/api/show", json={"model": "a"})).status_code == 200
        assert (await http.get("/nothing")).status_code == 404
        assert server.connections == 1


async def test_a_script_without_replies_left_is_an_error(make_stage: MakeStage) -> None:
    stage = await make_stage(ApiType.OPENAI)
    with pytest.raises(LLMError, match="has no reply"):
        await stage.ask()


async def test_closing_the_server_ends_a_silent_answer() -> None:
    async with asyncio.timeout(5):
        async with ScriptedServer(Script([Reply(Text("soon"), Pause(60), Text("late"))])) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.root_url.rpartition(":")[2]))
            body = b'{"model":"scripted","messages":[]}'
            writer.write(b"POST /api/chat HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            await reader.readuntil(b"\r\n\r\n")
        assert b"late" not in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_the_same_script_gives_the_same_answer_in_process_and_over_http(make_stage: MakeStage) -> None:
    def reply() -> Reply:
        return Reply(Text("I look.", deltas=3), Call("list", {"path": "."}, call_id="a", deltas=3))

    clients: list[ChatClient] = [ScriptedClient(Script([reply()]))]
    clients += [(await make_stage(api, reply())).client for api in ApiType]
    said = [await ask_model(c, [c.encode(ASK)], [], on_live=lambda live: None) for c in clients]
    assert said[0].message == said[1].message == said[2].message
    assert said[0].finish_reason == said[1].finish_reason == said[2].finish_reason
