"""Reasoning effort: asked for by level, left out where nobody chose one, and given up where the model takes none."""

from typing import Any

import orjson
import pytest

from gadget_ai.client import ModelNotice
from gadget_ai.errors import LLMError
from gadget_ai.testing.script import HttpError, Reply, RequestView, Text
from gadget_api.providers import ApiType, ModelParams
from gadget_api.sessions import Effort
from tests.gadget_ai.conftest import MakeStage, pick, text

NAMES = {ApiType.OPENAI: "reasoning_effort", ApiType.OLLAMA: "think"}
REFUSALS: dict[ApiType, Any] = {
    ApiType.OPENAI: {
        "error": {
            "message": "Unrecognized request argument supplied: reasoning_effort",
            "type": "invalid_request_error",
            "param": "reasoning_effort",
        }
    },
    ApiType.OLLAMA: {"error": '"scripted" does not support thinking'},
}
both = pytest.mark.parametrize("api", list(NAMES))


def asked(request: RequestView) -> Any:
    return orjson.loads(request.body).get(NAMES[ApiType(request.api)], "left out")


@both
@pytest.mark.parametrize("effort", [*Effort, None])
async def test_a_set_effort_is_sent_and_a_missing_one_is_not(
    api: ApiType, effort: Effort | None, make_stage: MakeStage
) -> None:
    stage = await make_stage(api, Reply(Text("ok")), params=ModelParams(effort=effort))
    assert text(await stage.ask()) == "ok"
    assert [asked(request) for request in stage.server.requests] == ["left out" if effort is None else effort]


@both
async def test_a_rejected_effort_is_left_out_of_all_later_requests(api: ApiType, make_stage: MakeStage) -> None:
    refusal = Reply(HttpError(400, REFUSALS[api]))
    stage = await make_stage(
        api, refusal, Reply(Text("one")), Reply(Text("two")), params=ModelParams(effort=Effort.HIGH)
    )
    first, second = await stage.ask(), await stage.ask()
    assert (text(first), text(second)) == ("one", "two")
    assert [notice.code for notice in pick(first, ModelNotice)] == ["effortRefused"]
    assert pick(second, ModelNotice) == []
    assert [asked(request) for request in stage.server.requests] == ["high", "left out", "left out"]


@both
async def test_another_error_is_not_retried_without_the_effort(api: ApiType, make_stage: MakeStage) -> None:
    refusal = Reply(HttpError(400, {"error": {"message": "The prompt is not allowed."}}))
    stage = await make_stage(api, refusal, params=ModelParams(effort=Effort.LOW))
    with pytest.raises(LLMError, match="not allowed"):
        await stage.ask()
    assert len(stage.server.requests) == 1


@both
async def test_a_second_rejection_is_an_error(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(
        api, answer=lambda _: Reply(HttpError(400, REFUSALS[api])), params=ModelParams(effort=Effort.LOW)
    )
    with pytest.raises(LLMError):
        await stage.ask()
    assert len(stage.server.requests) == 2
