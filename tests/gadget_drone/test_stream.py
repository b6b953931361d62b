"""The event stream at its source: merging, numbering, sending, sending again."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gadget_api.clock import SteadyClock
from gadget_api.events import Notice, Step, ToolCall
from gadget_api.messages import AssistantMessage, FinishReason, Usage
from gadget_api.providers import ModelPrice
from gadget_api.turns import TurnStats
from gadget_drone.journal import Journal
from gadget_drone.stream import MAX_UNACKED_BYTES, EventStream


class Wire:
    """The other end: what was sent, and a gate that an event waits at."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_up = True
        self.arrived = asyncio.Event()

    async def send(self, _type: str, payload: bytes) -> None:
        await self.gate.wait()
        if not self.is_up:
            raise ConnectionError("down")
        self.sent.append(orjson.loads(payload))
        self.arrived.set()

    async def until(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(10):
            while len(self.sent) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.sent


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.create(tmp_path / "turn.ndjson", base_seq=0)
    yield journal
    journal.close()


def stream_to(
    wire: Wire,
    journal: Journal,
    max_unacked_bytes: int = MAX_UNACKED_BYTES,
    overdue_s: float = 60.0,
    clock: SteadyClock | None = None,
) -> EventStream:
    return EventStream(
        turn_id="t1",
        chat_session_id="s1",
        epoch=1,
        journal=journal,
        send=wire.send,
        stats=TurnStats(),
        max_unacked_bytes=max_unacked_bytes,
        overdue_s=overdue_s,
        clock=clock,
    )


async def test_the_first_delta_goes_out_at_once_and_later_ones_merge_while_it_is_on_its_way(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        wire.gate.clear()
        stream.delta("response", "a")
        await asyncio.sleep(0)  # the pump takes the first
        await asyncio.sleep(0)
        for letter in "bcdef":
            stream.delta("response", letter)
        wire.gate.set()
        sent = await wire.until(2)
        pump.cancel()
    assert [(event["seq"], event["content"]) for event in sent] == [(1, "a"), (2, "bcdef")]


async def test_deltas_merge_by_agent_type_and_call_and_an_event_flushes_its_own_agents(journal: Journal) -> None:
    stream = stream_to(Wire(), journal)
    for number in "12":
        stream.delta("thinking", number)
        stream.delta("response", number)
        stream.delta("toolOutput", number, callId="a")
        stream.delta("toolOutput", number, callId="b")
        stream.delta("toolOutput", number, callId="a", agent_id="child")
    stream.delta("response", "")
    stream.emit(Notice, level="info", code="x", message="y")
    stream.emit(Notice, level="info", code="x", message="y", agent_id="child")
    events = [(e.get("agentId"), e["type"], e.get("callId"), e.get("content")) for e in journal.unacked()]
    assert events == [
        (None, "thinking", None, "12"),
        (None, "response", None, "12"),
        (None, "toolOutput", "a", "12"),
        (None, "toolOutput", "b", "12"),
        (None, "notice", None, None),
        ("child", "toolOutput", "a", "12"),
        ("child", "notice", None, None),
    ]


async def test_a_delta_never_grows_over_what_a_frame_takes(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    stream.delta("response", "\x00é" * 200_000)
    stream.emit(Notice, level="info", code="x", message="y")
    events = list(journal.unacked())
    assert "".join(event.get("content", "") for event in events) == "\x00é" * 200_000
    assert journal.unacked_bytes / len(events) < 400_000


async def test_half_a_surrogate_pair_becomes_text(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    stream.delta("response", "a\ud800b")
    stream.emit(ToolCall, call_id="c", name="n", params={"k": ["\ud800"]}, response="x", is_error=False, duration_ms=1)
    events = list(journal.unacked())
    assert events[0]["content"] == "a?b"
    assert events[1]["params"] == {"k": ["?"]}


async def test_what_is_not_acknowledged_is_sent_again_after_a_break(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        for number in range(3):
            stream.emit(Notice, level="info", code="n", message=str(number))
        await wire.until(3)
        stream.ack(1)
        wire.is_up = False
        stream.emit(Notice, level="info", code="n", message="3")
        await asyncio.sleep(0)
        wire.is_up = True
        stream.resend()
        sent = await wire.until(6)
        pump.cancel()
    assert [event["seq"] for event in sent] == [1, 2, 3, 2, 3, 4]
    assert not stream.is_acknowledged
    stream.ack(4)
    await asyncio.wait_for(stream.acknowledged(), 1)


async def test_what_a_crash_left_is_sent_without_being_asked_for(journal: Journal) -> None:
    stream_to(Wire(), journal).emit(Notice, level="info", code="n", message="left")
    wire = Wire()
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream_to(wire, Journal.load(journal.path)).pump())
        assert (await wire.until(1))[0]["message"] == "left"
        pump.cancel()


async def test_a_resend_from_a_gap_starts_there(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        for number in range(5):
            stream.emit(Notice, level="info", code="n", message=str(number))
        await wire.until(5)
        stream.resend(after_seq=3)
        sent = await wire.until(7)
        pump.cancel()
    assert [event["seq"] for event in sent] == [1, 2, 3, 4, 5, 4, 5]


async def test_what_stays_unacknowledged_is_sent_again_by_itself(journal: Journal) -> None:
    """The server may have lost what it took, and nothing that follows shows it."""
    wire = Wire()
    stream = stream_to(wire, journal, overdue_s=0.2)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        stream.emit(Notice, level="info", code="a", message="a")
        stream.emit(Notice, level="info", code="b", message="b")
        await wire.until(4)
        assert [event["seq"] for event in wire.sent[:4]] == [1, 2, 1, 2]
        stream.ack(2)
        count = len(wire.sent)
        await asyncio.sleep(0.5)
        assert len(wire.sent) == count
        pump.cancel()


async def test_a_resend_is_not_undone_by_what_is_on_its_way(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        for code in "ab":
            stream.emit(Notice, level="info", code=code, message=code)
        await wire.until(2)
        wire.gate.clear()
        stream.emit(Notice, level="info", code="c", message="c")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stream.resend(0)
        wire.gate.set()
        await wire.until(6)
        assert [event["seq"] for event in wire.sent] == [1, 2, 3, 1, 2, 3]
        pump.cancel()


async def test_a_slow_store_stops_the_sending_at_the_window(journal: Journal) -> None:
    wire = Wire()
    stream = stream_to(wire, journal)
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(stream.pump())
        for _ in range(200):
            stream.emit(Notice, level="info", code="n", message="x" * 30_000)
        await wire.until(60)
        before = len(wire.sent)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(wire.sent) <= before + 15
        assert sum(len(event["message"]) for event in wire.sent) < 3_000_000
        stream.ack(len(wire.sent))
        await wire.until(before + 20)
        pump.cancel()


async def test_past_the_bound_deltas_are_dropped_and_the_next_step_waits_for_the_server(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stream_to(Wire(), journal, max_unacked_bytes=50_000)
    for _ in range(100):
        stream.delta("response", "x" * 10_000)
        stream.delta("thinking", "y" * 10_000)
    kept = journal.unacked_bytes
    assert 50_000 < kept < 70_000
    stream.emit(Notice, level="info", code="n", message="whole")  # what is no delta is kept
    assert list(journal.unacked())[-1]["message"] == "whole"
    waiting = asyncio.ensure_future(stream.room())
    await asyncio.sleep(0)
    assert stream.is_waiting
    stream.ack(1)  # not enough of it
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.ack(journal.last_seq)
    await asyncio.wait_for(waiting, 1)
    assert not stream.is_waiting
    stream.delta("response", "again")
    stream.emit(Notice, level="info", code="n", message="y")
    assert next(journal.unacked())["content"] == "again"
    said = [record.message for record in caplog.records]
    assert [sum(word in line for line in said) for word in ("takes nothing", "waits", "goes on")] == [1, 1, 1]


async def test_the_figures_of_the_turn_add_up(journal: Journal) -> None:
    stream = stream_to(Wire(), journal)
    price = ModelPrice(input=2.0, cached_input=1.0, output=8.0)
    usage = Usage(input_tokens=1000, cached_input_tokens=400, response_tokens=100, thinking_token_count=7)
    for index in (1, 2):
        stream.emit(
            Step,
            index=index,
            message=AssistantMessage(content="x"),
            usage=usage,
            finish_reason=FinishReason.STOP,
            model="m",
            price=price,
        )
    stream.emit(ToolCall, call_id="c", name="n", params={}, response="x", is_error=False, duration_ms=1)
    stats = stream.stats
    assert (stats.input_tokens, stats.cached_input_tokens, stats.response_tokens) == (2000, 800, 200)
    assert (stats.tool_call_count, stats.thinking_token_count) == (1, 14)
    assert stats.cost == pytest.approx(2 * (600 * 2 + 400 * 1 + 100 * 8) / 1e6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["thinking", "response"]), st.text(max_size=30)),
            st.just(("notice", "")),
            st.tuples(st.just("ack"), st.integers(1, 40)),
            st.just(("break", "")),
            st.just(("turn the loop", "")),
        ),
        max_size=40,
    )
)
def test_whatever_happens_on_the_wire_the_receiver_gets_all_of_it_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    async def play() -> None:
        journal = Journal.create(tmp_path_factory.mktemp("stream") / "turn.ndjson", base_seq=0)
        wire = Wire()
        stream = stream_to(wire, journal)
        said: dict[str, str] = {"thinking": "", "response": ""}
        pump = asyncio.create_task(stream.pump())
        try:
            for what, value in steps:
                match what:
                    case "ack":
                        stream.ack(min(value, max((event["seq"] for event in wire.sent), default=0)))
                    case "break":
                        wire.is_up = not wire.is_up
                        if wire.is_up:
                            stream.resend()
                    case "notice":
                        stream.emit(Notice, level="info", code="n", message="m")
                    case "turn the loop":
                        await asyncio.sleep(0)
                    case _:
                        stream.delta(what, value)
                        said[what] += value
            wire.is_up = True
            stream.emit(Notice, level="info", code="end", message="m")
            stream.resend()
            async with asyncio.timeout(10):
                while not any(event.get("code") == "end" for event in wire.sent):
                    wire.arrived.clear()
                    await wire.arrived.wait()
        finally:
            pump.cancel()
            journal.close()
        received = {event["seq"]: event for event in wire.sent}
        assert sorted(received) == list(range(1, len(received) + 1))
        in_order = [received[seq] for seq in sorted(received)]
        for kind, text in said.items():
            assert (
                "".join(event["content"] for event in in_order if event["type"] == kind)
                == text.encode(errors="replace").decode()
            )

    asyncio.run(play())


async def test_a_clock_that_is_set_back_in_a_turn_moves_no_event_of_it(journal: Journal) -> None:
    wall, elapsed_s = [datetime(2026, 11, 22, 12, tzinfo=UTC)], [0.0]
    stream = stream_to(Wire(), journal, clock=SteadyClock(lambda: wall[0], lambda: elapsed_s[0]))
    begun = stream.emit(Notice, level="info", code="cloning", message="First").at
    wall[0] -= timedelta(hours=1)
    elapsed_s[0] += 3
    assert stream.emit(Notice, level="info", code="cloning", message="Then").at - begun == timedelta(seconds=3)
