"""What a step of a turn costs the drone: nothing but `echo`, asked for by a model that answers at once.

A step's time is that between two requests as the model gets them, so ours and the floor's are measured by the same
clock at the same place.
"""

import itertools
import statistics
import time
from collections.abc import Sequence

from pymongo import AsyncMongoClient

from benchmarks.bench import Bench, Line, Result, Scale
from benchmarks.copies import Document, Template
from benchmarks.figures import Row
from benchmarks.proc import cpu_s
from benchmarks.stage import Model, Stage, Watcher, new_tag, plan, run_floor, watching


def between(notes: Sequence[dict[str, int]]) -> list[float]:
    """Milliseconds from each request to the next."""
    return [(b["received"] - a["received"]) / 1e6 for a, b in itertools.pairwise(notes)]


async def _ours(watcher: Watcher, model: Model, steps: int, deltas: int) -> list[float]:
    tag = new_tag()
    await watcher.run(plan(tag, steps=steps, deltas=deltas))
    return between(await model.notes(tag))


async def _floor(model: Model, steps: int, deltas: int) -> list[float]:
    tag = new_tag()
    await run_floor(model.url, plan(tag, steps=steps, deltas=deltas))
    return between(await model.notes(tag))


async def run(scale: Scale) -> Result:
    rounds, steps = scale.of(1, 5), scale.of(30, 100)
    rows = []
    async with Stage() as stage:
        drone = await stage.drone()
        async with watching(stage.user, await stage.session()) as warm:
            await _ours(warm, stage.model, 10, 0)  # the clone, and what is read for the first time
        for name, deltas in (("step", 0), ("step with 400 deltas", 400)):
            ours: list[float] = []
            floor: list[float] = []
            used = [0.0, 0.0]
            for _ in range(rounds):
                floor += await _floor(stage.model, steps, deltas)
                async with watching(stage.user, await stage.session()) as watcher:
                    before = cpu_s(drone.pid), cpu_s(stage.web.pid)
                    ours += await _ours(watcher, stage.model, steps, deltas)
                    used[0] += cpu_s(drone.pid) - before[0]
                    used[1] += cpu_s(stage.web.pid) - before[1]
            note = f"{steps} steps a turn; CPU ms a step: drone {1000 * used[0] / rounds / steps:.1f}, "
            note += f"web {1000 * used[1] / rounds / steps:.1f}"
            rows.append(Row.of(name, "ms", ours, floor, note))
            if not deltas:
                rows.append(Row.of("step, below every other agent", "ms", ours))
    return Result(rows)


async def run_growth(scale: Scale) -> Result:
    steps, edge = scale.of(60, 500), scale.of(20, 50)
    async with Stage() as stage:
        await stage.drone()
        async with watching(stage.user, await stage.session()) as warm:
            await _ours(warm, stage.model, 10, 0)
        async with watching(stage.user, await stage.session()) as watcher:
            ours = await _ours(watcher, stage.model, steps, 0)
        floor = await _floor(stage.model, steps, 0)
        turns = await _turns(stage, (50,) if scale.quick else (100, 300, 1_000), scale.of(5, 30))
    first, last = statistics.median(ours[1 : edge + 1]), statistics.median(ours[-edge:])
    of_floor = statistics.median(floor[-edge:]) / statistics.median(floor[1 : edge + 1])
    most = max(turns)
    late, early = (statistics.median(times) for times in turns[most])
    rows = [
        Row(
            "growth of a step",
            "x",
            last / first,
            of_floor,
            n=steps,
            note=f"last {edge} of {steps} steps ({last:.1f} ms) against the first ({first:.1f} ms)",
        ),
        Row(
            "growth of a turn",
            "x",
            late / early,
            n=len(turns[most][0]),
            note=f"after {most:,} turns ({late:.1f} ms) against the second of a session ({early:.1f} ms), in turn",
        ),
    ]
    chart = "Cost of a step against steps in the turn"
    history = "Cost of a turn against turns in the session"
    lines = [
        Line(chart, "ours", "steps", "ms", smoothed(ours)),
        Line(chart, "floor", "steps", "ms", smoothed(floor)),
        Line(history, "long session", "turns", "ms", [(n, statistics.median(turns[n][0])) for n in turns]),
        Line(history, "fresh session", "turns", "ms", [(n, statistics.median(turns[n][1])) for n in turns]),
    ]
    return Result(rows, lines)


async def _turns(stage: Stage, sizes: Sequence[int], rounds: int) -> dict[int, tuple[list[float], list[float]]]:
    """By how many turns a session has: milliseconds of its next turns, and of the second turns of fresh sessions,
    measured in turn. A turn has one step, and is measured from the prompt to its end at the watcher."""
    found: dict[int, tuple[list[float], list[float]]] = {}
    async with (
        AsyncMongoClient[Document](stage.database_url, tz_aware=True) as client,
        watching(stage.user, await stage.session()) as watcher,
    ):
        template = await Template.of(client.gadget, await watcher.run(plan(new_tag(), steps=1)))
        have = 1
        for size in sizes:
            await template.copy(watcher.session, size - have)
            have = size + rounds + 1
            await _turn_ms(watcher)  # its history is fetched
            long, fresh = [], []
            for _ in range(rounds):
                long.append(await _turn_ms(watcher))
                async with watching(stage.user, await stage.session()) as other:
                    await _turn_ms(other)
                    fresh.append(await _turn_ms(other))
            found[size] = long, fresh
    return found


async def _turn_ms(watcher: Watcher) -> float:
    """One turn, begun when the drone is free."""
    begun = time.perf_counter()
    await watcher.run(plan(new_tag(), steps=1))
    took = time.perf_counter() - begun
    await watcher.until(lambda: watcher.drone_is_free)
    return 1000 * took


def smoothed(values: Sequence[float], points: int = 50) -> list[tuple[float, float]]:
    """Medians of as many equal parts, against their middle."""
    width = max(1, len(values) // points)
    starts = range(0, len(values), width)
    return [(start + width / 2, statistics.median(values[start : start + width])) for start in starts]


STEPS = Bench(
    "steps",
    "a step's cost beside an httpx loop's, with 0 and 400 deltas",
    ("step", "step, below every other agent", "step with 400 deltas"),
    run,
)
GROWTH = Bench(
    "growth",
    "a step late in a long turn, a turn late in a long session",
    ("growth of a step", "growth of a turn"),
    run_growth,
)
