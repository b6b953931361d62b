"""Figures for Prometheus."""

import re

from gadget_api.drones import LoopLag
from gadget_code.runtime.metrics import Metrics
from tests.gadget_code.peers import PlayedDrone, a_finished_turn, a_session
from tests.harness import User, until

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]+"\})? -?[0-9.e+-]+')


async def figures(admin: User) -> dict[str, float]:
    answer = await admin.http.get(f"{admin.url}/metrics")
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines), answer.text
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


async def test_turns_steps_tools_and_tokens_are_counted(admin: User, user: User, drone: PlayedDrone) -> None:
    before = await figures(admin)
    call = {"type": "toolCall", "callId": "c", "name": "shell", "params": {}, "response": "", "durationMs": 1}
    session = await a_session(user)
    more = ({**call, "isError": True}, {**call, "isError": True, "denied": True})
    await a_finished_turn(user, drone, session, "one", *more)
    after = await figures(admin)
    for name, grown in (
        ('gadget_turns_ended_total{status="finished"}', 1),
        ("gadget_steps_total", 1),
        ('gadget_tool_calls_total{outcome="error"}', 1),
        ('gadget_tool_calls_total{outcome="denied"}', 1),
        ('gadget_tokens_total{kind="input"}', 100),
        ('gadget_tokens_total{kind="response"}', 10),
        ("gadget_events_recorded_total", 4),
    ):
        # Others use the service, too.
        assert after[name] - before.get(name, 0) >= grown, name
    for name in ("gadget_queued_turns", "gadget_pending_inquiries", "gadget_sockets"):
        assert name in after

    async def lag_is_measured() -> bool | None:
        return (await figures(admin))["gadget_event_loop_lag_seconds_count"] > 0 or None

    await until(lag_is_measured)


def test_the_lag_of_the_loop_is_a_histogram() -> None:
    metrics = Metrics()
    for lag_s in (0.0, 0.02, 7.0):
        metrics.lag.record(lag_s)
    lines = dict(line.rsplit(" ", 1) for line in metrics.lines() if not line.startswith("#"))
    name = "gadget_event_loop_lag_seconds"
    assert lines[f'{name}_bucket{{le="0.001"}}'] == "1"
    assert lines[f'{name}_bucket{{le="0.025"}}'] == "2"
    assert lines[f'{name}_bucket{{le="5.0"}}'] == "2"
    assert lines[f'{name}_bucket{{le="+Inf"}}'] == lines[f"{name}_count"] == "3"
    assert lines[f"{name}_sum"] == "7.020000"
    assert lines["gadget_event_loop_lag_max_seconds"] == "7.000000"


def test_drones_are_counted_by_lag_without_names() -> None:
    metrics = Metrics()
    for number, most in enumerate((0, 50, 51, 9000, 1000)):
        metrics.drone_lags[f"drone{number}"] = LoopLag(max_ms=9999, blocked_ms=most, over_50_ms=0, over_250_ms=0)
    lines = dict(line.rsplit(" ", 1) for line in metrics.lines() if not line.startswith("#"))
    found = {name: int(value) for name, value in lines.items() if name.startswith("gadget_drones_by_loop_lag")}
    assert found == {f'gadget_drones_by_loop_lag{{most="{most}"}}': n for most, n in COUNTED.items()}


COUNTED = {"50": 2, "250": 1, "1000": 1, "more": 1}
