"""When a call starts again, over real HTTP and in process."""

import pytest

from gadget_ai.client import Restarted, TextDelta
from gadget_ai.collect import LiveChunk, ModelAnswer, ask_model
from gadget_ai.errors import LLMError
from gadget_ai.retry import RetryPolicy
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import Call, Cut, HttpError, Pause, Reply, Script, Text, Think
from gadget_api.errors import ErrorCode
from gadget_api.messages import FinishReason, UserMessage
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import MakeStage

OVERLOADED = Reply(HttpError(503, {"error": {"message": "busy"}}))


class Clock:
    """Waits without waiting, and remembers how long."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(sleep=self.sleep, random=lambda: 1.0)


async def ask(client: ScriptedClient, clock: Clock, live: list[LiveChunk] | None = None) -> ModelAnswer:
    messages = [client.encode(UserMessage(content="Hello"))]
    seen = live if live is not None else []
    return await ask_model(client, messages, [], on_live=seen.append, retry=clock.policy)


async def test_a_retryable_error_is_retried_with_growing_delays() -> None:
    clock = Clock()
    client = ScriptedClient(Script([OVERLOADED, OVERLOADED, OVERLOADED, Reply(Text("Here."))]))
    assert (await ask(client, clock)).message.content == "Here."
    assert clock.waits_s == [1.0, 2.0, 4.0]


async def test_the_fourth_failure_is_the_last() -> None:
    clock = Clock()
    client = ScriptedClient(Script([OVERLOADED] * 9))
    with pytest.raises(LLMError) as caught:
        await ask(client, clock)
    assert caught.value.code is ErrorCode.MODEL_OVERLOADED
    assert len(client.requests) == 4


async def test_jitter_halves_a_delay_at_most() -> None:
    error = LLMError(ErrorCode.MODEL_OVERLOADED, "", retryable=True)
    assert RetryPolicy(random=lambda: 0.0).delay_s(3, error) == 2.0
    assert RetryPolicy(random=lambda: 1.0).delay_s(3, error) == 4.0


@pytest.mark.parametrize(("asked", "waited_s"), [("7", 7.0), ("100000", 120.0), ("0", 0.0)])
async def test_retry_after_is_obeyed_up_to_two_minutes(asked: str, waited_s: float, make_stage: MakeStage) -> None:
    clock = Clock()
    limited = Reply(HttpError(429, {"error": "slow"}, {"Retry-After": asked}))
    stage = await make_stage(ApiType.OPENAI, limited, Reply(Text("Here.")))
    assert (await ask(stage.client, clock)).message.content == "Here."
    assert clock.waits_s == [waited_s]


async def test_other_errors_are_not_retried() -> None:
    clock = Clock()
    client = ScriptedClient(Script([Reply(HttpError(401, {}))]))
    with pytest.raises(LLMError) as caught:
        await ask(client, clock)
    assert caught.value.code is ErrorCode.MODEL_AUTH
    assert len(client.requests) == 1


async def test_restarted_comes_before_the_delay_and_voids_the_partial_answer(make_stage: MakeStage) -> None:
    clock = Clock()
    live: list[LiveChunk] = []
    half = Reply(Think("Hm"), Text("Half of"), Call("list", arguments='{"pa'), Pause(0.05), Cut())
    stage = await make_stage(ApiType.OPENAI, half, Reply(Text("Whole.")))
    said = await ask(stage.client, clock, live)
    assert (said.message.thinking, said.message.content, said.message.tool_calls) == ("", "Whole.", ())
    restarted = next(chunk for chunk in live if isinstance(chunk, Restarted))
    assert (restarted.error.code, restarted.attempt, restarted.delay_s) == (ErrorCode.MODEL_CUT_OFF, 2, 1.0)
    assert live[-2:] == [restarted, TextDelta("Whole.")]


@pytest.mark.parametrize("empty", [Reply(), Reply(Text(" \n")), Reply(Think("Only thoughts."))])
async def test_an_empty_answer_is_retried_once(empty: Reply) -> None:
    client = ScriptedClient(Script([empty, Reply(Text("Here."))]))
    assert (await ask(client, Clock())).message.content == "Here."
    client = ScriptedClient(Script([empty] * 9))
    with pytest.raises(LLMError) as caught:
        await ask(client, Clock())
    assert caught.value.code is ErrorCode.MODEL_EMPTY
    assert len(client.requests) == 2


async def test_an_answer_blocked_by_the_content_filter_is_not_retried() -> None:
    client = ScriptedClient(Script([Reply(finish=FinishReason.CONTENT_FILTER)]))
    with pytest.raises(LLMError) as caught:
        await ask(client, Clock())
    assert caught.value.code is ErrorCode.MODEL_REFUSED
