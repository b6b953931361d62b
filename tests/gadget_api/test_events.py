import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gadget_api.events import (
    EVENT_TYPES,
    HISTORY_TYPES,
    SHOWN_TYPES,
    AnyTurnEvent,
    Step,
    Thinking,
    ToolCall,
    TurnEvent,
    WorkOrderComplete,
    turn_event,
)
from gadget_api.model import utc_now
from tests.gadget_api.strategies import any_event, events

HEAD = {"turnId": "t1", "chatSessionId": "s1", "epoch": 1, "seq": 1, "at": "2026-11-21T08:00:00.123Z"}


def test_the_table_of_types_has_every_event_under_its_own_name() -> None:
    union, _ = get_args(AnyTurnEvent)
    assert set(EVENT_TYPES.values()) == set(get_args(union))
    assert set(EVENT_TYPES.values()) == set(TurnEvent.__subclasses__())
    assert list(EVENT_TYPES) == [
        "thinking",
        "response",
        "toolStarted",
        "toolOutput",
        "toolCall",
        "step",
        "steered",
        "notice",
        "inquiryAsked",
        "inquiryAnswered",
        "compacted",
        "checkpoint",
        "titled",
        "workOrderComplete",
    ]
    assert HISTORY_TYPES <= SHOWN_TYPES
    assert not any(kind.is_shown or kind.is_forked for kind in EVENT_TYPES.values() if kind.is_delta)


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_event_is_the_same_after_the_wire(kind: type[TurnEvent], data: st.DataObject) -> None:
    event = data.draw(events(kind))
    on_the_wire = json.loads(json.dumps(event.to_wire()))
    back = turn_event.validate_python(on_the_wire)
    assert type(back) is kind
    assert back == event
    assert turn_event.validate_json(event.model_dump_json()) == event


@given(any_event)
def test_an_event_is_camel_case_and_has_the_common_fields(event: TurnEvent) -> None:
    wire = event.to_wire()
    assert HEAD.keys() | {"type"} <= wire.keys()
    assert not any("_" in name for name in wire)
    assert EVENT_TYPES[wire["type"]] is type(event)


def test_the_type_alone_selects_the_event_class() -> None:
    assert turn_event.validate_python({**HEAD, "type": "thinking", "content": "x"}) == Thinking.model_validate(
        {**HEAD, "content": "x"}
    )
    assert not isinstance(turn_event.validate_python({**HEAD, "type": "response", "content": "x"}), Thinking)


@pytest.mark.parametrize(
    "event",
    [
        {**HEAD, "content": "x"},
        {**HEAD, "type": "thought", "content": "x"},
        {**HEAD, "type": "thinking"},
        {**HEAD, "type": "thinking", "content": "x", "extra": 1},
        {**HEAD, "type": "thinking", "content": "x", "seq": 0},
        {**HEAD, "type": "thinking", "content": "x", "epoch": 0},
        {**HEAD, "type": "thinking", "content": "x", "at": "2026-11-21T08:00:00"},
        {**HEAD, "type": "thinking", "content": "x", "turnId": ""},
        {**HEAD, "type": "toolStarted", "callId": "c", "name": "read", "params": "{}"},
        {**HEAD, "type": "notice", "level": "loud", "code": "x", "message": "x"},
    ],
)
def test_an_invalid_event_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        turn_event.validate_python(event)


def test_only_an_agent_inside_the_turn_is_named_on_the_wire() -> None:
    assert "agentId" not in Thinking.model_validate({**HEAD, "content": "x"}).to_wire()
    assert Thinking.model_validate({**HEAD, "content": "x", "agentId": "a"}).to_wire()["agentId"] == "a"


def test_an_event_with_the_type_of_another_is_refused() -> None:
    with pytest.raises(ValidationError):
        Thinking.model_validate({**HEAD, "type": "response", "content": "x"})


def test_step_tool_call_and_end_have_the_fields_of_the_contract() -> None:
    of_every = {*HEAD, "agentId"}
    own = {kind.__name__: {f.alias for f in kind.model_fields.values()} - of_every for kind in EVENT_TYPES.values()}
    assert own["Step"] == {"type", "index", "message", "usage", "finishReason", "model"}
    assert own["ToolCall"] >= {"type", "callId", "name", "params", "response", "isError", "durationMs"}
    assert own["WorkOrderComplete"] >= {"type", "success", "message", "status", "stats"}
    assert own["Steered"] >= {"type", "steerId", "content"}
    assert (Step, ToolCall, WorkOrderComplete) == tuple(
        EVENT_TYPES[n] for n in ("step", "toolCall", "workOrderComplete")
    )


def test_a_tool_result_may_have_any_json() -> None:
    event = ToolCall(
        turn_id="t",
        chat_session_id="s",
        epoch=1,
        seq=1,
        at=utc_now(),
        call_id="c",
        name="read",
        params={"deep": [{"ü": None}], "big": 2**53},
        response="\x00\x1b[31m\u2028😀",
        is_error=False,
        duration_ms=0,
    )
    assert turn_event.validate_json(json.dumps(event.to_wire())) == event
