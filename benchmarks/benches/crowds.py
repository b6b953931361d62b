"""Many at once through one web process: real drones that work, and simulated ones that stream."""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.bench import Bench, Line, Result, Scale
from benchmarks.figures import Row
from benchmarks.load.crowd import Crowd
from benchmarks.load.report import Report
from benchmarks.load.worker import WORDS
from benchmarks.proc import memory
from benchmarks.stage import Helper, Model, Stage, new_tag, plan, run_floor, watching, watching_floor
from benchmarks.wire import Wire

_DRONES = 8
_RATE = 20
_WARM = 5


async def run_drones(scale: Scale) -> Result:
    steps, drones = scale.of(10, 50), scale.of(3, _DRONES)
    ours: list[float] = []
    floor: list[float] = []
    async with Stage() as stage, AsyncExitStack() as stack:
        for _ in range(drones):
            await stage.start_drone()
        registered = [await drone.until_available() for drone in stage.drones]
        watchers = [
            await stack.enter_async_context(watching(stage.user, await stage.session(drone=drone["_id"])))
            for drone in registered
        ]
        await asyncio.gather(*(watcher.run(plan(new_tag(), steps=2)) for watcher in watchers))
        for _ in range(scale.of(1, 5)):
            floor.append(steps * drones / await _floor_took_s(stage.model, drones, steps))
            ours.append(steps * drones / await _took_s(w.run(plan(new_tag(), steps=steps)) for w in watchers))
    note = f"{drones} drones, {steps} steps each; floor: as many loops in one process"
    return Result([Row.of("8 drones: steps", "/s", ours, floor, note)])


async def _floor_took_s(model: Model, loops: int, steps: int) -> float:
    """As the model saw it: the process takes a while to start."""
    tags = [new_tag() for _ in range(loops)]
    await run_floor(model.url, *(plan(tag, steps=steps) for tag in tags))
    notes = [note for tag in tags for note in await model.notes(tag)]
    return (max(note["last"] for note in notes) - min(note["received"] for note in notes)) / 1e9


async def _took_s(runs: Iterable[Coroutine[Any, Any, object]]) -> float:
    begun = time.perf_counter()
    await asyncio.gather(*runs)
    return time.perf_counter() - begun


async def run_streams(scale: Scale) -> Result:
    idle, seconds = scale.of(20, 200), float(scale.of(3, 10))
    async with Stage() as stage, Crowd(stage) as crowd:
        await crowd.grow(_WARM)
        before = memory(stage.web.pid).rss_mb
        await crowd.grow(idle)
        per_pair_kb = (memory(stage.web.pid).rss_mb - before) * 1024 / idle
        floor_kb = await _floor_pair_kb(stage.floor, idle)
        reports = await _search(crowd, scale, seconds)
        floor_turns = await _relayed_a_second(stage.floor, scale.of(3_000, 30_000)) / _RATE
    kept = [report for report in reports if not report.is_behind]
    best = max(kept, key=lambda report: report.turns, default=None)
    lost = min((report for report in reports if report.is_behind), key=lambda report: report.turns, default=None)
    note = f"{_RATE} deltas/s each"
    if best is not None:
        note += (
            f"; median {best.median_ms:.1f} ms, p99 {best.p99_ms:.0f}, web {best.web_cpu_per_1000_s:.2f} CPU s/1,000"
        )
    note += f"; {lost.turns} fall behind" if lost is not None else "; more were not tried"
    if lost is not None and lost.is_saturated:
        note += " (the generator was at its limit, too)"
    rows = [
        Row("streaming turns", "turns", best.turns if best is not None else 0, floor_turns, n=len(reports), note=note),
        Row("memory of an idle drone and watcher", "kB", per_pair_kb, floor_kb, n=idle),
    ]
    chart, x = "Drone to watcher against simultaneous turns", "turns"
    lines = [
        Line(chart, "median", x, "ms", [(report.turns, report.median_ms) for report in reports]),
        Line(chart, "p99", x, "ms", [(report.turns, report.p99_ms) for report in reports]),
        Line(
            "Web CPU of an event against simultaneous turns",
            "ours",
            x,
            "us",
            [(report.turns, 1000 * report.web_cpu_per_1000_s) for report in reports],
        ),
    ]
    return Result(rows, lines)


async def _search(crowd: Crowd, scale: Scale, seconds: float) -> list[Report]:
    """More and more turns until they fall behind, then once in the middle."""
    reports: list[Report] = []
    for turns in (5, 20) if scale.quick else (10, 20, 40, 60, 80, 100, 150, 200, 300, 400, 500, 600):
        reports.append(await _tried(crowd, turns, seconds))
        if reports[-1].is_behind:
            break
    if reports[-1].is_behind and len(reports) > 1 and not scale.quick:
        reports.append(await _tried(crowd, (reports[-2].turns + reports[-1].turns) // 2, seconds))
    return reports


async def _tried(crowd: Crowd, turns: int, seconds: float) -> Report:
    if len(crowd) < turns:
        await crowd.grow(turns - len(crowd))
    return await crowd.run(turns, rate=_RATE, seconds=seconds)


async def _floor_pair_kb(floor: Helper, pairs: int) -> float:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Wire(floor.url))
        before = memory(floor.pid).rss_mb
        for number in range(pairs):
            await stack.enter_async_context(Wire(floor.url))
            await stack.enter_async_context(watching_floor(floor, f"pair {number}"))
        return (memory(floor.pid).rss_mb - before) * 1024 / pairs


async def _relayed_a_second(floor: Helper, events: int) -> float:
    """What the bare relay takes from one client and gives to another, events of the same size."""
    async with Wire(floor.url) as sender, watching_floor(floor, "relay") as watcher:
        event = {"type": "response", "turnId": "0" * 24, "chatSessionId": "0" * 24, "epoch": 1, "seq": 1}
        said = {**event, "at": "2026-01-01T00:00:00.000Z", "content": f"<{time.perf_counter_ns()}> {WORDS}"}
        begun = time.perf_counter()
        for _ in range(events):
            await sender.emit("relay", {**said, "room": "relay"})
        await watcher.until(lambda: len(watcher.text) == events)
        return events / (time.perf_counter() - begun)


DRONES = Bench("drones", "8 real drones at work through one web process", ("8 drones: steps",), run_drones)
STREAMS = Bench(
    "streams",
    "how many simulated turns stream without falling behind, and what an idle pair holds",
    ("streaming turns", "memory of an idle drone and watcher"),
    run_streams,
)
