"""The loop, with a scripted model, real tools, a journal and no socket."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.errors import LLMError
from gadget_ai.testing.script import Call, Cut, HttpError, Pause, Reply, RequestView, Script, Text, Think
from gadget_api.errors import ErrorCode
from gadget_api.messages import INTERRUPTED_RESULT, ModelMessage, ToolCallRequest
from gadget_api.turns import MAX_STEERS, Steer, SteerOrigin
from gadget_drone.agent.inbox import Inbox, Stopping
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool
from gadget_drone.turn.journal import Journal
from tests.gadget_drone.agent.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Any]:
    made: list[Bench] = []

    def make(*replies: Reply) -> Bench:
        made.append(Bench(tmp_path, Script(list(replies))))
        return made[0]

    yield make
    for one in made:
        one.journal.close()


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_an_answer_without_tool_calls_ends_the_turn(bench: Any) -> None:
    events = await bench(Reply(Think("Hm."), Text("Hello."))).run()
    assert types(events) == ["thinking", "response", "step"]
    assert events[-1]["message"] == {"thinking": "Hm.", "content": "Hello.", "toolCalls": []}


async def test_tools_run_in_order_and_each_result_is_recorded_before_the_next_call(bench: Any) -> None:
    stage = bench(
        Reply(Call("write", {"path": "a.txt", "content": "one"}), Call("read", {"path": "a.txt"})),
        Reply(Text("Done.")),
    )
    events = await stage.run()
    assert types(events) == ["step", "toolStarted", "toolCall", "toolStarted", "toolCall", "response", "step"]
    assert "one" in events[4]["response"]
    assert [event["index"] for event in events if event["type"] == "step"] == [1, 2]
    second = stage.client.requests[1]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool", "tool"]


async def test_calls_that_only_read_run_side_by_side_and_others_wait_for_them(bench: Any) -> None:
    both_run = asyncio.Barrier(2)

    @tool(effect=SideEffect.READ_ONLY, access=lambda **_: [])
    async def meet(context: ToolContext) -> ToolResult:
        """Wait for the other."""
        async with asyncio.timeout(20):
            await both_run.wait()
        return ToolResult("met")

    stage = bench(Reply(Call("meet"), Call("meet"), Call("write", {"path": "a", "content": "x"})), Reply(Text("Done.")))
    stage.third_party = (meet,)
    events = await stage.run()
    ran = [(event["type"], event["name"]) for event in events if event["type"] in ("toolStarted", "toolCall")]
    assert ran[:2] == [("toolStarted", "meet")] * 2
    assert ran[2:4] == [("toolCall", "meet")] * 2
    assert ran[4:] == [("toolStarted", "write"), ("toolCall", "write")]


async def test_there_is_no_limit_on_rounds(tmp_path: Path) -> None:
    def answer(request: RequestView) -> Reply:
        rounds = sum(message["role"] == "tool" for message in request.messages)
        return Reply(Text("Enough.")) if rounds == 300 else Reply(Call("search", {"pattern": f"{rounds}"}))

    stage = Bench(tmp_path, Script(answer))
    events = await stage.run()
    assert sum(event["type"] == "toolCall" for event in events) == 300
    stage.journal.close()


async def test_a_call_that_had_started_before_a_crash_is_never_run_again_unless_it_only_reads(bench: Any) -> None:
    stage = bench(Reply(Text("I see.")))
    (stage.place / "a.txt").write_text("text")
    stage.conversation.add(
        ModelMessage(
            content="",
            tool_calls=(
                ToolCallRequest(call_id="w", name="shell", params={"command": "echo again >> ran"}),
                ToolCallRequest(call_id="r", name="read", params={"path": "a.txt"}),
                ToolCallRequest(call_id="n", name="shell", params={"command": "echo first >> new"}),
            ),
        )
    )
    stage.own.started_before = frozenset({"w", "r"})
    events = await stage.run()
    results = {event["callId"]: event for event in events if event["type"] == "toolCall"}
    assert results["w"]["response"] == INTERRUPTED_RESULT
    assert results["w"]["isError"] is True
    assert not (stage.place / "ran").exists()
    assert "text" in results["r"]["response"]
    assert (stage.place / "new").read_text() == "first\n"
    assert [event["callId"] for event in events if event["type"] == "toolStarted"] == ["r", "n"]


async def test_a_turn_whose_answer_is_recorded_already_asks_the_model_nothing(bench: Any) -> None:
    stage = bench()
    stage.conversation.add(ModelMessage(content="It was said before."))
    assert await stage.run() == []
    assert stage.client.requests == []


async def test_steering_comes_after_the_results_and_before_the_next_model_call(bench: Any) -> None:
    stage = bench(Reply(Call("list", {"path": "."})), Reply(Text("As you wish.")))
    stage.inbox.put(Steer(steer_id="1", content="Do it in French."))
    stage.inbox.put(Steer(steer_id="1", content="Do it in French."))
    events = await stage.run()
    assert types(events).count("steered") == 1
    assert [m["content"] for m in stage.client.requests[0].messages if m["role"] == "user"] == [
        "Go.",
        "Do it in French.",
    ]


async def test_steering_that_came_during_the_last_answer_is_answered_too(tmp_path: Path) -> None:
    def answer(request: RequestView) -> Reply:
        if len(request.messages) == 2:
            stage.inbox.put(Steer(steer_id="1", content="And the tests?"))
            return Reply(Text("Done."))
        return Reply(Text("They pass."))

    stage = Bench(tmp_path, Script(answer))
    events = await stage.run()
    assert types(events) == ["response", "step", "steered", "response", "step"]
    stage.journal.close()


async def test_messages_of_the_order_are_before_the_model_at_the_first_step(bench: Any) -> None:
    stage = bench(Reply(Text("Understood.")))
    french = Steer(steer_id="1", content="In French.")
    told = Steer(steer_id="2", content="The drone has changed.", origin=SteerOrigin.SERVICE)
    stage.inbox = Inbox((french, french, told))
    events = await stage.run()
    steered = [event for event in events if event["type"] == "steered"]
    assert [(event["steerId"], event["origin"]) for event in steered] == [("1", "user"), ("2", "service")]
    users = [m["content"] for m in stage.client.requests[0].messages if m["role"] == "user"]
    assert users == ["Go.", "In French.", "The drone has changed."]


async def test_a_message_that_the_journal_has_is_not_put_before_the_model_again(bench: Any) -> None:
    stage = bench(Reply(Text("Understood.")), Reply(Text("Again.")))
    french = Steer(steer_id="1", content="In French.")
    stage.inbox = Inbox((french,))
    await stage.run()
    left = Journal.load(stage.journal.path)
    left.ack(left.last_seq)  # stored meanwhile, though the order lists it still
    stage.inbox = Inbox((french, Steer(steer_id="2", content="Or not.")), steered=left.steered)
    left.close()
    assert stage.inbox.put(french)
    assert [steer.steer_id for steer in stage.inbox.take()] == ["2"]


def test_no_more_messages_wait_than_the_service_keeps() -> None:
    waiting = [Steer(steer_id=str(n), content="x") for n in range(MAX_STEERS)]
    inbox = Inbox(waiting)
    assert not inbox.put(Steer(steer_id="more", content="x"))
    assert inbox.put(waiting[0])
    inbox.take()
    assert inbox.put(Steer(steer_id="more", content="x"))


async def test_a_stop_leaves_the_turn_between_two_steps(bench: Any) -> None:
    stage = bench(Reply(Call("list", {"path": "."})), Reply(Text("Never.")))
    stage.inbox.is_stopping = True
    with pytest.raises(Stopping):
        await stage.run()
    assert stage.events == []


async def test_a_refusal_of_the_model_is_raised_as_it_is(bench: Any) -> None:
    stage = bench(Reply(HttpError(401, {"error": {"message": "no"}})))
    with pytest.raises(LLMError) as caught:
        await stage.run()
    assert caught.value.code is ErrorCode.MODEL_AUTH


async def test_what_was_said_before_a_failure_is_kept_as_an_interrupted_step(bench: Any) -> None:
    stage = bench(Reply(Think("Hm."), Text("It is like "), HttpError(401, {"error": {"message": "no"}})))
    with pytest.raises(LLMError):
        await stage.run()
    step = stage.events[-1]
    assert step["message"] == {"thinking": "Hm.", "content": "It is like ", "toolCalls": []}
    assert (step["type"], step["index"], step["finishReason"]) == ("step", 1, "interrupted")
    assert set(step["usage"].values()) == {0}


async def test_what_a_retry_has_voided_is_not_kept(bench: Any) -> None:
    stage = bench(Reply(Text("Void."), Cut()), Reply(HttpError(401, {"error": {"message": "no"}})))
    with pytest.raises(LLMError):
        await stage.run()
    assert "step" not in types(stage.events)


async def test_a_partial_answer_that_is_too_large_for_an_event_is_kept_at_both_ends(bench: Any) -> None:
    said = "begin" + "\x00" * 300_000 + "end"
    stage = bench(Reply(Text(said), HttpError(401, {"error": {"message": "no"}})))
    with pytest.raises(LLMError):
        await stage.run()
    kept = stage.events[-1]["message"]["content"]
    assert (kept[:5], kept[-3:]) == ("begin", "end")
    assert "bytes left out" in kept


SAID = "I think " * 5000
"""More than one delta: the first is in the journal at once."""


@pytest.mark.parametrize(("is_cancelled", "kept"), [(True, [SAID]), (False, [])])
async def test_the_users_cancel_keeps_what_was_said_and_a_stop_of_the_drone_does_not(
    is_cancelled: bool, kept: list[str], bench: Any
) -> None:
    stage = bench(Reply(Text(SAID), Pause(600)))
    task = asyncio.create_task(stage.run())
    async with asyncio.timeout(20):
        while not stage.events:  # noqa: ASYNC110  (the loop makes them)
            await asyncio.sleep(0.01)
    stage.inbox.is_cancelled = is_cancelled
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event["message"]["content"] for event in stage.events if event["type"] == "step"] == kept


async def test_a_large_output_is_cut_in_the_event_and_kept_whole(bench: Any) -> None:
    stage = bench(Reply(Call("shell", {"command": "seq 100000"})), Reply(Text("Many.")))
    events = await stage.run()
    result = next(event for event in events if event["type"] == "toolCall")
    assert len(result["response"].encode()) <= 64_000
    assert result["blob"] == {"blobId": "b", "sizeBytes": len("".join(f"{n}\n" for n in range(1, 100001)))}
    assert stage.kept[0].read_text().endswith("100000\n")
    live = "".join(event["content"] for event in events if event["type"] == "toolOutput")
    assert live.startswith("1\n2\n3\n")


async def test_a_large_output_for_which_there_is_no_room_is_told_by_its_ends(bench: Any) -> None:
    stage = bench(Reply(Call("shell", {"command": "seq 100000"})), Reply(Text("Many.")))
    stage.has_room = False
    events = await stage.run()
    result = next(event for event in events if event["type"] == "toolCall")
    assert result["blob"] is None
    assert "bytes in all" in result["response"]
    assert "kept" not in result["response"]


async def test_cancelling_the_loop_ends_the_tool(bench: Any) -> None:
    stage = bench(Reply(Call("shell", {"command": "echo started > mark; sleep 600"})))
    task = asyncio.create_task(stage.run())
    async with asyncio.timeout(20):
        while not (stage.place / "mark").exists():  # noqa: ASYNC110  (the tool makes it)
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert types(stage.events)[-1] == "toolStarted"


async def test_neither_a_tool_nor_a_model_call_begins_while_the_server_has_too_much_to_take(bench: Any) -> None:
    stage = bench(Reply(Text("x" * 2000), Call("write", {"path": "a", "content": "x"})))
    task = asyncio.create_task(stage.run(max_unacked_bytes=1000))
    async with asyncio.timeout(20):
        while "step" not in types(stage.events):  # noqa: ASYNC110  (the loop makes it)
            await asyncio.sleep(0.01)
    done, _ = await asyncio.wait({task}, timeout=0.1)
    assert not done
    assert types(stage.events)[-1] == "step"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (stage.place / "a").exists()
