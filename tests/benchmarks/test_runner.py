"""`scripts/bench` from its command line: cheap benches, small numbers, the real services. What they measure is nobody's
business here."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.aims import BY_NAME
from benchmarks.benches.all import BENCHES
from benchmarks.proc import tree
from tests.harness import STOP_S, clean_environment, wait_for_sync

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parent.parent.parent
_RUN_S = 280


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = process.communicate(timeout=_RUN_S)
    finally:
        if process.poll() is None:  # so that it stops what it has started
            process.terminate()
            process.communicate(timeout=STOP_S)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_cheap_benches_run_and_write_json(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    done = bench("help", "latency", "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["quick"] is True
    assert document["failed"] == []
    rows = {row["name"]: row for row in document["rows"]}
    expected = {name for bench in BENCHES if bench.name in ("help", "latency") for name in bench.measures}
    assert expected <= rows.keys()
    for name in expected:
        row = rows[name]
        assert row["ours"] > 0
        assert row["floor"] > 0
        assert row["met"] == BY_NAME[name].is_met(row["ratio"] if BY_NAME[name].judged == "ratio" else row["ours"])
        assert name in done.stdout


def test_load_reports_what_was_sent_and_seen(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    done = bench(
        *("load", "--drones", "2", "--watchers", "4", "--rate", "5", "--seconds", "2", "--json", str(file)),
    )
    assert done.returncode in (0, 1), done.stderr  # 1: this machine has other things to do
    report = json.loads(file.read_text())
    assert (report["turns"], report["watchers"], report["sent"], report["expected"]) == (2, 4, 20, 40)
    assert report["failures"] == 0
    assert report["p99_ms"] >= report["median_ms"] > 0
    assert report["web_rss_mb"] > 1
    assert "drone -> watcher" in done.stdout


def test_benches_are_listed() -> None:
    done = bench("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [bench.name for bench in BENCHES]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "there is no bench 'nothing'; `scripts/bench --list` names them."),
        (["load", "--drones", "0"], "from 1 to 5000"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(arguments: list[str], said: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A path short enough for a socket below it."""
    with tempfile.TemporaryDirectory(prefix="b") as directory:
        yield Path(directory)


def test_a_bench_that_is_ended_stops_what_it_started(short_path: Path) -> None:
    with (short_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", "growth"],
            cwd=ROOT,
            env=clean_environment(TMPDIR=str(short_path)),
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    started: list[int] = []

    def drone_is_there() -> bool | None:
        started[:] = tree(process.pid)[1:]
        return True if any(short_path.glob("gadget-bench-*/workspace0/.gadget/workspace.json")) else None

    wait_for_sync(drone_is_there, lambda: process.poll() is not None, short_path / "err")
    assert len(started) >= 4, "the model, the floor, the web service with its database, the drone"
    process.terminate()
    assert process.wait(2 * STOP_S) == 130

    def nothing_runs() -> bool | None:
        # What a drone starts ends by itself when the drone is gone: a moment later.
        return None if any(Path(f"/proc/{pid}").exists() for pid in started) else True

    wait_for_sync(nothing_runs, lambda: False, short_path / "err")
    assert list(short_path.glob("gadget-bench-*")) == []
