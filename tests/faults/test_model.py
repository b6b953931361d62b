"""What a model's server can do wrong: asked again where that helps, ended with a code where it does not."""

from collections.abc import Callable
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Cut, HttpError, Pause, RawBytes, Reply, Reset, Text
from gadget_api.ids import new_id
from gadget_api.messages import FinishReason
from tests.faults.oracles import check_all
from tests.faults.proxy import BLACK_HOLE
from tests.faults.selection import full
from tests.faults.stage import Stage
from tests.faults.story import Faulty, Step, always, logged_call

_ATTEMPTS = 4
"""One call, and three retries."""
_HALF_A_CALL = '{"command": "echo half >> calls.lo'
_ERROR_EVENT = b'data: {"error": {"message": "The engine fell over.", "type": "server_error", "code": 500}}\n\n'

# What it does, and the code of the turn when it goes on doing it (one of them).
PASSING: dict[str, tuple[Callable[[], Reply], str]] = {
    "429": (
        lambda: Faulty(HttpError(429, {"error": {"message": "slow down"}}, {"retry-after": "1"})),
        "modelRateLimited",
    ),
    "500": (lambda: Faulty(HttpError(500, {"error": {"message": "oops"}})), "modelOverloaded"),
    "503": (lambda: Faulty(HttpError(503, b"<html>busy</html>", {"content-type": "text/html"})), "modelOverloaded"),
    # Whether the headers come before the reset, the kernel decides.
    "cut before a word": (lambda: Faulty(Cut()), "modelUnreachable modelCutOff"),
    "cut in text": (lambda: Faulty(Text("I was about to ", 3), Cut()), "modelCutOff"),
    "reset in text": (lambda: Faulty(Text("I was about to ", 3), Reset()), "modelCutOff"),
    "cut in tool JSON": (lambda: Faulty(Text("So: "), Call("shell", arguments=_HALF_A_CALL), Cut()), "modelCutOff"),
    "ended in tool JSON": (
        lambda: Faulty(Call("shell", arguments=_HALF_A_CALL), finish=FinishReason.UNKNOWN, done=False),
        "modelCutOff",
    ),
    "error after 200": (lambda: Faulty(Text("Well, "), RawBytes(_ERROR_EVENT)), "modelOverloaded"),
    "malformed": (lambda: Faulty(Text("Well, "), RawBytes(b'data: {"choices": [{"delta"\n\n')), "modelBadResponse"),
}


def _steps(fault: Callable[[int], Reply | None], at: int) -> tuple[str, list[Step]]:
    """A tool call and an answer, with `fault` at step `at`; the id of the call."""
    call = new_id()

    def step(number: int, good: Callable[[], Reply]) -> Step:
        return lambda attempt: (fault(attempt) if number == at else None) or good()

    return call, [step(0, lambda: Reply(Text("I try. "), logged_call(call))), step(1, lambda: Reply(Text("Done.")))]


def _codes(stored: list[dict[str, Any]]) -> list[str]:
    return [event["code"] for event in stored if event["type"] == "notice"]


@pytest.mark.parametrize("at", [pytest.param(0, marks=full), 1], ids=["first step", "after a tool"])
@pytest.mark.parametrize("fault", PASSING)
async def test_what_passes_is_asked_again_and_said(stage: Stage, fault: str, at: int) -> None:
    make = PASSING[fault][0]
    call, steps = _steps(lambda attempt: make() if attempt == 1 else None, at)
    turn = await stage.prompt(f"Go. {call}", steps)
    document = await stage.until_over(turn)
    assert (document["status"], document["response"]) == ("finished", "Done."), document
    stored = await stage.user.events(turn)
    assert _codes(stored).count("retrying") == 1
    assert stage.calls == [call]
    assert len(stage.book.asked) == 3
    await check_all(stage)


@pytest.mark.parametrize(
    "fault", [f if f in ("cut in tool JSON", "503") else pytest.param(f, marks=full) for f in PASSING]
)
async def test_what_does_not_pass_ends_the_turn_with_its_code(stage: Stage, fault: str) -> None:
    make, code = PASSING[fault]
    call, steps = _steps(lambda _: make(), at=1)
    turn = await stage.prompt(f"Go. {call}", steps)
    document = await stage.until_over(turn)
    assert document["status"] == "error", document
    assert document["error"]["code"] in code.split(), document
    assert document["error"]["message"].endswith("."), document
    assert len(stage.book.asked) == 1 + _ATTEMPTS
    assert stage.calls == [call]
    await check_all(stage)


@pytest.mark.parametrize(
    ("fault", "code", "attempts"),
    [
        (lambda: Reply(HttpError(401, {"error": {"message": "bad key"}})), "modelAuth", 1),
        (lambda: Reply(HttpError(404, {"error": {"message": "no such model"}})), "modelNotFound", 1),
        (lambda: Faulty(), "modelEmpty", 2),
        (lambda: Reply(Text("On and on. " * 1000, 5), *[Text("And on. " * 2000)] * 100), "modelBadResponse", 1),
        (lambda: Reply(Call("write", arguments='{"path": "' + "x" * 10_000_000)), "modelBadResponse", 1),
    ],
    ids=["401", "404", "empty", "endless text", "10 MB of arguments"],
)
@pytest.mark.parametrize("at", [pytest.param(0, marks=full), 1], ids=["first step", "after a tool"])
async def test_what_no_retry_helps_ends_the_turn_at_once(
    stage: Stage, fault: Callable[[], Reply], code: str, attempts: int, at: int
) -> None:
    call, steps = _steps(lambda _: fault(), at)
    turn = await stage.prompt(f"Go. {call}", steps)
    document = await stage.until_over(turn)
    assert (document["status"], document["error"]["code"]) == ("error", code), document
    assert len(stage.book.asked) == at + attempts
    await check_all(stage)


async def test_a_call_that_the_output_limit_cut_does_not_run(stage: Stage) -> None:
    steps = [
        always(lambda: Reply(Text("So: "), Call("shell", arguments=_HALF_A_CALL), finish=FinishReason.LENGTH)),
        always(lambda: Reply(Text("Shorter, then."))),
    ]
    turn = await stage.prompt("Go.", steps)
    assert (await stage.until_over(turn))["status"] == "finished"
    results = [event for event in await stage.user.events(turn) if event["type"] == "toolCall"]
    assert [result["isError"] for result in results] == [True]
    assert stage.calls == []
    await check_all(stage)


async def test_call_ids_that_repeat_are_told_apart(stage: Stage) -> None:
    def twice(first: str, second: str) -> Step:
        calls = [Call("shell", {"command": f"echo {mark} >> calls.log"}, call_id="same") for mark in (first, second)]
        return always(lambda: Reply(*calls))

    turn = await stage.prompt("Go.", [twice("a", "b"), twice("c", "d"), always(lambda: Reply(Text("Done.")))])
    assert (await stage.until_over(turn))["status"] == "finished"
    assert stage.calls == ["a", "b", "c", "d"]
    await check_all(stage)


async def test_unknown_tools_and_broken_arguments_are_results(stage: Stage) -> None:
    calls = [Call("teleport", {"to": "mars"}), Call("shell", arguments="{]"), Call("shell", arguments="[1]")]
    turn = await stage.prompt("Go.", [always(lambda: Reply(*calls)), always(lambda: Reply(Text("Done.")))])
    assert (await stage.until_over(turn))["status"] == "finished"
    results = [event for event in await stage.user.events(turn) if event["type"] == "toolCall"]
    assert [result["isError"] for result in results] == [True] * 3
    await check_all(stage)


async def test_a_model_that_refuses_connections_for_a_moment_is_asked_again(stage: Stage) -> None:
    call, steps = _steps(lambda _: None, at=0)
    await stage.model_link.cut()
    turn = await stage.prompt(f"Go. {call}", steps)
    await stage.watcher.until(lambda: "retrying" in _codes(stage.watcher.view(turn)))
    await stage.heal()
    assert (await stage.until_over(turn))["status"] == "finished"
    await check_all(stage)


@full
async def test_a_model_that_is_not_there_ends_the_turn(stage: Stage) -> None:
    call, steps = _steps(lambda _: None, at=0)
    await stage.model_link.cut()
    turn = await stage.prompt(f"Go. {call}", steps)
    assert (await stage.until_over(turn))["error"]["code"] == "modelUnreachable"
    await stage.heal()
    await check_all(stage)


@full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("silence", [(Pause(100),), (Text("I was ab"), Pause(100))], ids=["from the first", "in text"])
async def test_a_model_that_falls_silent_is_given_up_and_asked_again(stage: Stage, silence: tuple[Any, ...]) -> None:
    call, steps = _steps(lambda attempt: Faulty(*silence) if attempt == 1 else None, at=1)
    turn = await stage.prompt(f"Go. {call}", steps)
    assert (await stage.until_over(turn, 120))["status"] == "finished"
    assert "retrying" in _codes(await stage.user.events(turn))
    assert stage.calls == [call]
    await check_all(stage)


@full
@pytest.mark.timeout(240)
async def test_a_model_behind_a_black_hole_is_given_up_and_asked_again(stage: Stage) -> None:
    call, steps = _steps(lambda attempt: Faulty(Text("Hm"), Pause(100)) if attempt == 1 else None, at=1)
    turn = await stage.prompt(f"Go. {call}", steps)
    await stage.watcher.until(lambda: any(e.get("content") == "Hm" for e in stage.watcher.view(turn)))
    stage.model_link.weather = BLACK_HOLE
    await stage.watcher.until(lambda: "retrying" in _codes(stage.watcher.view(turn)), 90)
    await stage.heal()
    assert (await stage.until_over(turn, 90))["status"] == "finished"
    await check_all(stage)


async def test_a_fault_of_the_model_in_recovery_is_one_more_attempt(stage: Stage) -> None:
    call = new_id()

    def answer(attempt: int) -> Reply:
        return (Faulty(Text("I w"), Pause(60)), Faulty(Text("I was ab"), Cut()), Reply(Text("Done.")))[attempt - 1]

    turn = await stage.prompt(f"Go. {call}", [always(lambda: Reply(logged_call(call))), answer])
    await stage.watcher.until_event(turn, "response")
    await stage.kill_drone()
    await stage.heal()
    assert (await stage.until_over(turn))["response"] == "Done."
    assert stage.calls == [call]
    await check_all(stage)
