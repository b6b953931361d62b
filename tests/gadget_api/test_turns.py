import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gadget_api.events import DELTA_TYPES, EVENT_TYPES, Compacted, Step, Titled, ToolCall, TurnEvent
from gadget_api.messages import AssistantMessage, FinishReason, Usage
from gadget_api.model import utc_now
from gadget_api.providers import ModelPrice
from gadget_api.turns import MAX_PROMPT_BYTES, ChatTurn, ChatTurnStatus, TurnStats, duration_label
from tests.gadget_api.strategies import any_event, events, usages

HEAD: dict[str, Any] = {"turn_id": "t", "chat_session_id": "s", "epoch": 1, "seq": 1, "at": utc_now()}


def step(usage: Usage) -> Step:
    return Step(**HEAD, index=1, message=AssistantMessage(), usage=usage, finish_reason=FinishReason.STOP, model="m")


def tool_call() -> ToolCall:
    return ToolCall(**HEAD, call_id="c", name="read", params={}, response="", is_error=True, duration_ms=5)


USAGE = Usage(input_tokens=1000, cached_input_tokens=400, thinking_token_count=50, response_tokens=200)


def folded(turn_events: list[TurnEvent], price: ModelPrice | None = None) -> TurnStats:
    stats = TurnStats()
    for event in turn_events:
        stats = event.counted(stats, price)
    return stats


def test_a_new_turn_has_no_usage() -> None:
    assert TurnStats().to_wire() == {
        "stepCount": 0,
        "toolCallCount": 0,
        "inputTokens": 0,
        "cachedInputTokens": 0,
        "thinkingTokenCount": 0,
        "responseTokens": 0,
        "cost": None,
        "durationMs": 0,
        "durationLabel": "pending",
    }


def test_steps_and_tool_calls_are_counted() -> None:
    stats = folded([step(USAGE), tool_call(), tool_call(), step(USAGE)])
    assert stats == TurnStats(
        step_count=2,
        tool_call_count=2,
        input_tokens=2000,
        cached_input_tokens=800,
        thinking_token_count=100,
        response_tokens=400,
    )


@given(any_event)
def test_only_model_calls_and_tool_calls_count(event: TurnEvent) -> None:
    price = ModelPrice(input=1, output=1)
    is_counted = isinstance(event, Step | ToolCall | Compacted | Titled)
    if not is_counted:
        assert event.counted(TurnStats(), price) == TurnStats()
    assert is_counted == (event.type in {"step", "toolCall", "compacted", "titled"})


@pytest.mark.parametrize("name", sorted(DELTA_TYPES))
@given(data=st.data())
def test_deltas_do_not_change_the_stats(name: str, data: st.DataObject) -> None:
    assert data.draw(events(EVENT_TYPES[name])).counted(TurnStats(), None) == TurnStats()


def test_without_a_price_the_cost_is_null() -> None:
    assert folded([step(USAGE)]).cost is None


def test_the_cost_is_per_million_tokens() -> None:
    # 600 fresh at 3 $, 400 cached at 0.30 $, 200 answered at 15 $
    price = ModelPrice(input=3, cached_input=0.30, output=15)
    assert folded([step(USAGE)], price).cost == pytest.approx(0.0018 + 0.00012 + 0.003)
    assert folded([step(USAGE)] * 3, price).cost == pytest.approx(3 * 0.00492)


def test_cached_tokens_without_a_price_cost_the_input_price() -> None:
    assert folded([step(USAGE)], ModelPrice(input=3, output=15)).cost == pytest.approx(0.003 + 0.003)


def test_a_price_of_zero_gives_a_cost_of_zero() -> None:
    assert folded([step(USAGE)], ModelPrice(input=0, output=0)).cost == 0


def test_a_cached_price_of_zero_is_a_price() -> None:
    assert ModelPrice(input=3, cached_input=0, output=0).cost_usd(USAGE) == pytest.approx(0.0018)


@given(st.lists(usages, max_size=5), st.floats(0, 100), st.floats(0, 100))
def test_stats_do_not_depend_on_how_the_events_are_grouped(
    all_usages: list[Usage], input_usd: float, output_usd: float
) -> None:
    """A drone that goes on with a turn counts on from what the server has."""
    price = ModelPrice(input=input_usd, output=output_usd)
    whole = folded([step(usage) for usage in all_usages], price)
    assert whole.input_tokens == sum(usage.input_tokens for usage in all_usages)
    assert whole.response_tokens == sum(usage.response_tokens for usage in all_usages)
    stats = TurnStats()
    for usage in all_usages:
        stats = TurnStats.model_validate(stats.to_wire()).with_step(usage, price)
    assert stats == whole


@pytest.mark.parametrize(
    ("duration_ms", "label"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (850, "850 ms"),
        (999, "999 ms"),
        (1_000, "1.0s"),
        (12_345, "12.3s"),
        (59_900, "59.9s"),
        (59_999, "59.9s"),
        (60_000, "1m 00s"),
        (125_000, "2m 05s"),
        (125_999, "2m 05s"),
        (3_599_999, "59m 59s"),
        (3_600_000, "1h 00m"),
        (11_220_000, "3h 07m"),
        (100 * 3_600_000, "100h 00m"),
    ],
)
def test_durations_are_formatted(duration_ms: int, label: str) -> None:
    assert duration_label(duration_ms) == label


@given(st.integers(0, 10**10))
def test_a_duration_is_cut_to_its_last_unit_never_rounded_up(duration_ms: int) -> None:
    label = duration_label(duration_ms)
    unit_ms = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
    said_ms = sum(round(float(number) * unit_ms[unit]) for number, unit in re.findall(r"([\d.]+) ?([a-z]+)", label))
    assert 0 <= duration_ms - said_ms < {"ms": 1, "s": 1_000, "m": 60_000}[re.findall(r"[a-z]+", label)[-1]]
    assert "60" not in re.split(r"\D+", label.partition("h")[2] or label.partition("m")[2])


def test_the_end_sets_only_the_duration() -> None:
    stats = folded([step(USAGE), tool_call()]).ended(125_000)
    assert (stats.duration_ms, stats.duration_label) == (125_000, "2m 05s")
    assert (stats.tool_call_count, stats.input_tokens) == (1, 1000)


def test_a_turn_is_over_when_it_finished_failed_or_was_cancelled() -> None:
    assert [status.value for status in ChatTurnStatus if status.is_over] == ["finished", "error", "cancelled"]


def test_a_turn_has_the_fields_of_the_contract() -> None:
    fields = {field.alias for field in ChatTurn.model_fields.values()}
    assert fields >= {
        "_id",
        "createdAt",
        "user",
        "session",
        "project",
        "provider",
        "llm",
        "mode",
        "workspaceId",
        "drone",
        "status",
        "statusReason",
        "prompts",
        "thinking",
        "response",
        "error",
        "epoch",
        "lastSeq",
        "stats",
    }


def test_the_largest_prompt_is_that_of_the_contract() -> None:
    assert MAX_PROMPT_BYTES == 900_000
