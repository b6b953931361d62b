from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gadget_api.events import EVENT_TYPES, Compacted, Steered, Step, ToolCall, TurnEvent
from gadget_api.history import interrupted_results, work_messages
from gadget_api.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Compaction,
    FinishReason,
    Message,
    ModelMessage,
    SystemMessage,
    ToolCallRequest,
    ToolMessage,
    Usage,
    UserMessage,
    open_tool_calls,
)
from gadget_api.model import utc_now
from tests.gadget_api.strategies import events as events_of

WorkEvent = Step | ToolCall | Steered | Compacted

HEAD: dict[str, Any] = {"turn_id": "t", "chat_session_id": "s", "epoch": 1, "seq": 1, "at": utc_now()}


def step(*call_ids: str, content: str = "", thinking: str = "") -> Step:
    calls = tuple(ToolCallRequest(call_id=call_id, name=f"tool-{call_id}", params={}) for call_id in call_ids)
    return Step(
        **HEAD,
        index=1,
        message=AssistantMessage(thinking=thinking, content=content, tool_calls=calls),
        usage=Usage(),
        finish_reason=FinishReason.TOOL_CALLS if calls else FinishReason.STOP,
        model="m",
    )


def result(call_id: str, response: str = "done") -> ToolCall:
    return ToolCall(
        **HEAD,
        call_id=call_id,
        name=f"tool-{call_id}",
        params={},
        response=response,
        is_error=False,
        duration_ms=1,
    )


def steered(content: str) -> Steered:
    return Steered(**HEAD, steer_id="x", content=content)


def outline(messages: Sequence[Message | Compaction]) -> list[str]:
    """Who speaks, and of which calls."""
    lines = []
    for message in messages:
        match message:
            case ModelMessage():
                lines.append(" ".join(["assistant", *(call.call_id for call in message.tool_calls)]))
            case ToolMessage():
                lines.append(f"{'interrupted' if message.content == INTERRUPTED_RESULT else 'tool'} {message.call_id}")
            case Compaction():
                lines.append("compaction")
            case _:
                lines.append(f"{message.role} {message.content}")
    return lines


def test_a_turn_reads_in_the_order_it_was_worked() -> None:
    events: list[WorkEvent] = [
        step("a", "b"),
        result("a"),
        result("b"),
        steered("hurry"),
        step("c"),
        result("c"),
        step(content="bye"),
    ]
    assert outline(work_messages(events)) == [
        "assistant a b",
        "tool a",
        "tool b",
        "user hurry",
        "assistant c",
        "tool c",
        "assistant",
    ]


def test_a_turn_without_work_has_no_messages() -> None:
    assert work_messages([]) == []


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_messages_are_made_of_history_events_alone(kind: type[TurnEvent], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    assert (work_messages([step("a"), event]) != work_messages([step("a")])) == kind.is_in_history


def test_a_call_that_was_cut_off_is_closed_before_anything_else_follows() -> None:
    events: list[WorkEvent] = [step("a", "b", "c"), result("b"), steered("what now?"), step(content="sorry")]
    assert outline(work_messages(events)) == [
        "assistant a b c",
        "tool b",
        "interrupted a",
        "interrupted c",
        "user what now?",
        "assistant",
    ]


def test_the_last_calls_may_have_no_result_yet() -> None:
    messages = work_messages([step("a", "b"), result("a")])
    assert outline(messages) == ["assistant a b", "tool a"]
    assert [call.call_id for call in open_tool_calls(messages)] == ["b"]
    assert outline(interrupted_results(messages)) == ["interrupted b"]


def test_a_closed_call_says_that_its_outcome_is_unknown_and_keeps_its_name() -> None:
    assert interrupted_results(work_messages([step("a")])) == [
        ToolMessage(call_id="a", name="tool-a", content=INTERRUPTED_RESULT)
    ]
    assert INTERRUPTED_RESULT.startswith("interrupted, outcome unknown")


def test_thinking_is_put_before_the_answer_in_its_tag() -> None:
    [message] = work_messages([step(content="The answer is 4.", thinking="2 + 2, so 4")])
    assert isinstance(message, ModelMessage)
    assert message.content == "<thinking>2 + 2, so 4</thinking>\nThe answer is 4."


def test_an_answer_without_thinking_is_unchanged() -> None:
    [message] = work_messages([step(content="The answer is 4.")])
    assert isinstance(message, ModelMessage)
    assert message.content == "The answer is 4."


def test_thinking_and_calls_without_a_word_are_kept() -> None:
    [message] = work_messages([step("a", thinking="I must look")])
    assert isinstance(message, ModelMessage)
    assert message.content == "<thinking>I must look</thinking>\n"
    assert [call.call_id for call in message.tool_calls] == ["a"]


def test_a_tool_message_has_the_result_of_the_call() -> None:
    messages = work_messages([step("a"), result("a", "three lines\nof\noutput")])
    assert isinstance(messages[1], ToolMessage)
    assert messages[1].content == "three lines\nof\noutput"


@st.composite
def worked(draw: st.DrawFn) -> list[WorkEvent]:
    """A turn that may have been cut off anywhere: some calls of a step have no result, results come in any order."""
    events: list[WorkEvent] = []
    for index in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            events.append(steered(draw(st.text(max_size=5))))
        call_ids = [f"{index}-{n}" for n in range(draw(st.integers(0, 4)))]
        events.append(step(*call_ids, content=draw(st.text(max_size=5)), thinking=draw(st.text(max_size=5))))
        ended = draw(st.permutations(call_ids))[: draw(st.integers(0, len(call_ids)))]
        events.extend(result(call_id) for call_id in ended)
    return events


@given(worked())
def test_every_call_has_exactly_one_result_and_it_follows_its_call(events: list[WorkEvent]) -> None:
    messages: list[Message | Compaction] = [UserMessage(content="go"), *work_messages(events)]
    messages.extend(interrupted_results(messages))

    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call_id in open_calls
            open_calls.remove(message.call_id)
        else:
            assert not open_calls, "something came between a call and its result"
            if isinstance(message, ModelMessage):
                open_calls = {call.call_id for call in message.tool_calls}
    assert not open_calls
    assert interrupted_results(messages) == []


@given(worked())
def test_no_content_is_lost(events: list[WorkEvent]) -> None:
    messages = work_messages(events)
    said = [message for message in messages if isinstance(message, ModelMessage)]
    assert said == [ModelMessage.of(event.message) for event in events if isinstance(event, Step)]
    told = [message.call_id for message in messages if isinstance(message, ToolMessage) and message.content == "done"]
    assert told == [event.call_id for event in events if isinstance(event, ToolCall)]
    steers = [message.content for message in messages if isinstance(message, UserMessage)]
    assert steers == [event.content for event in events if isinstance(event, Steered)]


@given(worked(), st.data())
def test_a_history_built_in_two_parts_differs_in_nothing_but_open_calls(
    events: list[WorkEvent], data: st.DataObject
) -> None:
    """A drone that goes on after a crash builds the first part, closes what is open, and adds the rest."""
    cut = data.draw(
        st.sampled_from([n for n in range(len(events) + 1) if n == len(events) or not _is_result(events[n])])
    )
    first = work_messages(events[:cut])
    closed = [*first, *interrupted_results(first)] if cut < len(events) else first
    assert [*closed, *work_messages(events[cut:])] == work_messages(events)


def _is_result(event: WorkEvent) -> bool:
    return isinstance(event, ToolCall)


@given(worked())
def test_messages_are_the_same_after_the_wire(events: list[WorkEvent]) -> None:
    adapter = TypeAdapter[Message](Message)
    for message in [SystemMessage(content="be brief"), *work_messages(events)]:
        assert adapter.validate_json(message.model_dump_json()) == message


def test_a_turn_of_many_steps_is_read_once() -> None:
    """20,000 steps: what looks back at all that went before, at each of them, does not end within the time-out."""
    events: list[WorkEvent] = []
    for index in range(20_000):
        events += (step(f"c{index}"), result(f"c{index}"))
    messages = work_messages(events)
    assert len(messages) == 40_000
    assert interrupted_results(messages) == []
