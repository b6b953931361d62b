"""Compaction as a turn makes it: with a model over HTTP, with one that fails, and with a breaker."""

import pytest

from gadget_ai.collect import ask_model
from gadget_ai.errors import LLMError
from gadget_ai.factory import create_client
from gadget_ai.testing.script import HttpError, Reply, RequestView, Script, Text, message_text
from gadget_ai.testing.server import ScriptedServer
from gadget_ai.windows import LIKELY_WINDOW, UNKNOWN_WINDOW
from gadget_api.errors import ErrorCode
from gadget_api.history import messages_for_model
from gadget_api.messages import Message, UserMessage
from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider
from gadget_drone.context.compaction import ContextTooLong
from gadget_drone.context.compactor import MAX_IN_A_ROW, Compacting, Compactor, Say
from gadget_drone.context.limits import WindowLimits
from gadget_drone.context.tokens import Calibration, TokenEstimate
from tests.gadget_drone.context.conversations import fault, prompt, step, text

LIMITS = WindowLimits(16_000)


class Bench:
    """A conversation, its compactor, and a model that makes notes."""

    def __init__(
        self, messages: list[Message], limits: WindowLimits = LIMITS, calibration: Calibration | None = None
    ) -> None:
        self.messages = messages
        self.estimate = TokenEstimate("m", Calibration(), fixed_tokens=500)
        for message in messages:
            self.estimate.add(message)
        self.compactor = Compactor(limits, self.estimate)
        self.asked: list[list[Message]] = []

    def add(self, *messages: Message) -> None:
        for message in messages:
            self.messages.append(message)
            self.estimate.add(message)

    async def compact(
        self, *, force: bool = False, focus: str | None = None, say: Say | None = None
    ) -> Compacting | None:
        say = say or self.say
        return self._took(await self.compactor.compact(self.messages, say, prompt_index=None, force=force, focus=focus))

    async def overflow(self) -> Compacting | None:
        return self._took(await self.compactor.after_overflow(self.messages, self.say, prompt_index=None))

    def _took(self, made: Compacting | None) -> Compacting | None:
        if made is not None:
            assert made.messages == messages_for_model([*self.messages, made.compaction])
            self.messages = made.messages
        return made

    async def say(self, request: list[Message]) -> str:
        self.asked.append(request)
        return "Use tabs."


def long_talk(tokens: int) -> list[Message]:
    """Without results that could give way."""
    return [prompt("The goal."), *[prompt(text(500)) for _ in range(tokens // 500)], *step("a"), *step("b")]


async def test_nothing_happens_while_it_fits() -> None:
    bench = Bench([prompt(), *step("a", text(5000))])
    assert not bench.compactor.is_due
    assert await bench.compact() is None


async def test_results_give_way_without_asking_the_model() -> None:
    bench = Bench([prompt(), *step("a", text(9000)), *step("b", text(3000)), *step("c", text(3000))])
    made = await bench.compact()
    assert made is not None
    assert made.compaction.trimmed == ("a",)
    assert made.tokens_before > LIMITS.input_tokens > made.tokens_after
    assert not bench.asked


async def test_a_summary_has_the_models_notes_and_the_facts_and_says_what_was_asked_for() -> None:
    bench = Bench([*long_talk(8_000), *step("w", name="write", path="x.py"), *step("z"), *step("y")])
    made = await bench.compact(force=True, focus="the tabs")
    assert made is not None
    summary = made.messages[0].content
    assert "The goal." in summary
    assert "- x.py" in summary
    assert summary.endswith("Use tabs.")
    assert "the tabs" in bench.asked[0][0].content
    assert fault(made.messages) is None


async def test_a_model_that_fails_leaves_the_facts() -> None:
    async def fails(request: list[Message]) -> str:
        raise LLMError(ErrorCode.MODEL_OVERLOADED, "The provider failed.")

    bench = Bench(long_talk(20_000))
    made = await bench.compact(say=fails)
    assert made is not None
    assert made.failure is not None
    assert made.failure.code is ErrorCode.MODEL_OVERLOADED
    assert "The goal." in made.messages[0].content
    assert not bench.compactor.is_due


async def test_how_a_command_ended_outlives_its_output() -> None:
    done = "lots of it " * 4000 + "\n[exit status 3 after 1.0 s]"
    ran = step("s", done, name="shell", command="make")
    bench = Bench([prompt(), *ran, *step("b", text(2500)), *step("c", text(2500))])
    first = await bench.compact()
    assert first is not None
    assert first.compaction.trimmed == ("s",)
    bench.compactor.answered(0)
    bench.compactor.answered(0)
    bench.add(*[prompt(text(900)) for _ in range(16)])
    assert await bench.compact() is not None
    assert "- `make`: exit status 3" in bench.messages[0].content


async def test_what_the_provider_counts_makes_it_due() -> None:
    bench = Bench([prompt(), *step("a", text(7000)), *step("b"), *step("c")])
    assert not bench.compactor.is_due
    bench.compactor.answered(2 * bench.estimate.raw_tokens)
    assert bench.compactor.is_due
    made = await bench.compact()
    assert made is not None
    assert made.tokens_after < LIMITS.input_tokens


async def test_compactions_that_follow_each_other_too_closely_end() -> None:
    bench = Bench(long_talk(20_000))
    for _ in range(MAX_IN_A_ROW):
        assert await bench.compact() is not None
        bench.compactor.answered(0)
        bench.add(prompt(text(14_000 - bench.estimate.tokens)), *step("x", "ok"), *step("y", "ok"))
    with pytest.raises(ContextTooLong, match="/clear"):
        await bench.compact()
    assert await bench.compact(force=True) is not None  # the user may try


async def test_compactions_with_work_between_them_go_on_for_ever() -> None:
    bench = Bench(long_talk(20_000))
    for n in range(20):
        assert await bench.compact() is not None
        for m in range(12):
            bench.compactor.answered(0)
            bench.add(*step(f"{n}-{m}", text(1200)))
    assert "The goal." in bench.messages[0].content


async def test_a_compaction_that_freed_next_to_nothing_is_the_last() -> None:
    tight = WindowLimits(8192)
    # All but a little is in the prompt, which stays: after this there is nothing to be had.
    bench = Bench([prompt("x"), *step("a", text(600)), prompt(text(5200))], tight)
    made = await bench.compact()
    assert made is not None
    assert made.tokens_before - made.tokens_after < 0.1 * made.tokens_before
    bench.compactor.answered(0)
    bench.compactor.answered(0)
    bench.add(*step("b", text(900)))
    with pytest.raises(ContextTooLong):
        await bench.compact()


async def test_a_refusal_by_the_provider_lowers_the_limit_and_is_answered_once() -> None:
    bench = Bench([prompt(), *step("a", text(8000)), *step("b", text(500)), *step("c")])
    assert not bench.compactor.is_due
    before = bench.estimate.tokens
    made = await bench.overflow()
    assert made is not None
    assert bench.compactor.limit_tokens < before
    with pytest.raises(ContextTooLong, match="real context window"):
        await bench.overflow()
    bench.compactor.answered(made.tokens_after)
    bench.add(*step("d", text(5000)), *step("e"), *step("f"))
    assert await bench.overflow() is not None


async def test_a_model_of_unknown_window_is_sent_everything_until_it_says_no() -> None:
    bench = Bench(
        [prompt(), *step("a", text(400_000)), *step("b", text(500)), *step("c")], WindowLimits(UNKNOWN_WINDOW)
    )
    assert not bench.compactor.is_due
    assert await bench.overflow() is not None
    assert bench.compactor.limit_tokens < LIKELY_WINDOW


@pytest.mark.parametrize(("window", "answer"), [(256, 64), (8192, 2048), (128_000, 16_000), (1_000_000, 20_000)])
def test_room_is_left_for_the_answer(window: int, answer: int) -> None:
    assert WindowLimits(window).answer_tokens == answer
    assert WindowLimits(window).input_tokens == window - answer
    assert WindowLimits(window).result_bytes <= 64_000


@pytest.mark.parametrize(
    ("api", "context_window", "expected"),
    [(ApiType.OPENAI, None, UNKNOWN_WINDOW), (ApiType.OLLAMA, None, 16_384), (ApiType.OLLAMA, 32_768, 32_768)],
)
def test_a_window_that_nobody_named_is_what_the_model_is_told(
    api: ApiType, context_window: int | None, expected: int
) -> None:
    assert WindowLimits.of(provider(api, "http://x", context_window)).window_tokens == expected


def provider(api: ApiType, url: str, context_window: int | None = None) -> OrderProvider:
    return OrderProvider(
        id="1", name="Scripted", sdk=api, base_url=url, model_id="scripted", context_window=context_window
    )


@pytest.mark.parametrize("api", list(ApiType))
async def test_a_real_request_for_notes_is_one_a_provider_takes(api: ApiType) -> None:
    def reply(request: RequestView) -> Reply:
        if "The record" not in message_text(request.messages[-1]):
            return Reply(HttpError(400, {"error": {"message": "maximum context length exceeded"}}))
        return Reply(Text(f"Noted of {len(message_text(request.messages[-1]))} characters."))

    async with ScriptedServer(Script(reply)) as server:
        url = server.openai_url if api is ApiType.OPENAI else server.root_url
        client = create_client(provider(api, url, 16_000))

        async def say(request: list[Message]) -> str:
            encoded = [client.encode(message) for message in request]
            return (await ask_model(client, encoded, [], on_live=lambda live: None)).message.content

        bench = Bench(long_talk(20_000))
        with pytest.raises(LLMError) as refused:
            await say([UserMessage(content="Go on.")])
        assert refused.value.code is ErrorCode.CONTEXT_TOO_LONG
        made = await bench.compact(say=say)
        await client.close()
    assert made is not None
    assert "Noted of " in made.messages[0].content
    assert not server.requests[-1].tools
    assert len(server.requests[-1].body) < LIMITS.input_tokens * 4
