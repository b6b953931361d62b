"""What the table of benches says of its samples."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.aims import AIMS, TABLE
from benchmarks.benches.all import BENCHES
from benchmarks.figures import Row, as_json, percentile, table
from benchmarks.load.report import Report, latencies

FINITE = st.floats(min_value=0, max_value=1e9)


def test_every_row_of_the_aims_is_measured_by_one_bench() -> None:
    measured = [name for bench in BENCHES for name in bench.measures]
    assert sorted(measured) == sorted(aim.name for aim in AIMS)
    assert {aim.row for aim in AIMS} == set(range(len(TABLE)))


def test_benches_have_names_of_their_own() -> None:
    names = [bench.name for bench in BENCHES]
    assert len(set(names)) == len(names)
    assert "load" not in names, "that is the load generator"


@given(st.lists(FINITE, min_size=1), st.floats(min_value=0, max_value=100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= math.floor(len(values) * percent / 100)
    assert sum(value < found for value in values) <= len(values) * percent / 100


def test_percentiles_of_a_hundred_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 95), percentile(values, 99)) == (50, 95, 99)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_ratio_is_judged_where_the_aim_is_one() -> None:
    row = Row.of("step", "ms", [5.0, 6.0, 7.0, 30.0, 6.0], [2.0, 2.0, 9.0])
    assert (row.ours, row.floor, row.ratio, row.p95, row.n) == (6, 2, 3, 30, 5)
    assert row.is_met
    assert Row.of("step", "ms", [6.1], [2.0]).is_met is False
    assert Row.of("step", "ms", [6.1]).is_met is None, "without a floor nothing is said"


def test_an_absolute_aim_does_not_look_at_the_floor() -> None:
    assert Row("prompt -> model request", "ms", 15.0, 0.001).is_met
    assert Row("prompt -> model request", "ms", 15.1, 100.0).is_met is False


def test_an_absolute_aim_moves_with_the_machine_that_it_is_looked_at_on() -> None:
    slower = Row("prompt -> model request", "ms", 29.0, 1.6)
    assert (slower.is_met, slower.is_met_here) == (False, True), "the floor is twice what it was, and so is the aim"
    assert slower.aim_here is not None
    assert slower.aim_here.limit == pytest.approx(30)
    assert Row("prompt -> model request", "ms", 31.0, 1.6).is_met_here is False
    assert Row("prompt -> model request", "ms", 14.0, 0.4).is_met_here is False, "on a faster one it is harder"
    assert Row("8 drones: steps", "/s", 126.0, 411.5).is_met_here
    assert Row("8 drones: steps", "/s", 124.0, 411.5).is_met_here is False
    for row in (
        Row("prompt -> model request", "ms", 15.0),
        Row("step", "ms", 6.0, 2.0),
        Row("tool read", "ms", 1.0, 1.0),
    ):
        assert (row.aim_here, row.is_met_here) == (None, None)


def test_some_aims_are_to_be_exceeded() -> None:
    assert Row("streaming turns", "turns", 500).is_met
    assert Row("streaming turns", "turns", 499).is_met is False
    assert Row("burst: half of the floor", "/s", 50.0, 100.0).is_met
    assert Row("burst: half of the floor", "/s", 49.0, 100.0).is_met is False


def test_what_nobody_aims_for_is_shown_without_a_verdict() -> None:
    row = Row("tool read", "ms", 1.0, 0.5)
    assert (row.aim, row.is_met, row.ratio) == (None, None, 2)
    assert "met" not in table([row]).splitlines()[1]


def test_the_table_and_the_json_say_the_same() -> None:
    rows = [Row.of("step", "ms", [9.0], [2.0], "a note"), Row("streaming turns", "turns", 1000)]
    lines = table(rows).splitlines()
    assert "NOT MET" in lines[1]
    assert "4.50" in lines[1]
    assert "1,000 turns" in lines[2]
    document = json.loads(as_json(rows, quick=True))
    assert document["quick"] is True
    assert [(row["name"], row["met"]) for row in document["rows"]] == [("step", False), ("streaming turns", True)]
    assert document["rows"][0]["aim"] == "<= 3 x floor"


def a_report(**fields: float) -> Report:
    given = {
        "turns": 10, "watchers": 20, "rate": 20.0, "seconds": 10.0, "sent": 2000, "seen": 4000, "expected": 4000,
        "median_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "first_half_ms": 1.0, "second_half_ms": 1.0, "late_s": 0.0,
        "unacked": 0, "failures": 0, "web_cpu_s": 1.0, "database_cpu_s": 1.0, "generator_cpu": 0.5,
        "web_rss_mb": 100.0, "lag_ms": None,
    }  # fmt: skip
    return Report(**{**given, **fields})  # type: ignore[arg-type]


def test_a_service_that_keeps_up_is_said_to() -> None:
    report = a_report()
    assert not report.is_behind
    assert not report.is_saturated
    assert report.web_cpu_per_1000_s == 0.5
    assert "keeps up" in report.text()


@pytest.mark.parametrize(
    "fields",
    [
        {"seen": 3799},
        {"late_s": 0.6},
        {"failures": 1},
        {"first_half_ms": 100.0, "second_half_ms": 300.0},
    ],
    ids=["a backlog of half a second", "the sender was held up", "a turn was lost", "later and later"],
)
def test_falling_behind_is_seen(fields: dict[str, float]) -> None:
    report = a_report(**fields)
    assert report.is_behind
    assert "FALLS BEHIND" in report.text()


def test_a_few_late_events_are_not_falling_behind() -> None:
    assert not a_report(seen=3801, first_half_ms=10.0, second_half_ms=100.0, late_s=0.4).is_behind


def test_latencies_are_split_by_when_they_came() -> None:
    seen = [(at * 1000, 1000 if at < 500 else 9000) for at in range(1000)]
    found = latencies(seen, 1.0)
    assert (found["first_half_ms"], found["second_half_ms"], found["p99_ms"]) == (1, 9, 9)
