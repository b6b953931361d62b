"""What a watcher of a running turn gets, and when: through the drone, the web service and its store, beside a service
that holds everything in memory in one process.

Times are of the clock that all processes of a machine share: the model notes when a request came and when its last byte
left, each delta says when it was sent, the watcher notes when it came.
"""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row, percentile
from benchmarks.proc import cpu_s, tree
from benchmarks.stage import Stage, Watcher, new_tag, plan, watching, watching_floor

_SENT = re.compile(r"<(\d+)>")
_RATE = 50
_BURST = 20_000
_TURN = "done"


@dataclass
class _Pair:
    """A watcher of ours and one of the floor; each runs the same prompts."""

    stage: Stage
    ours: Watcher
    floor: Watcher

    async def start(self, watcher: Watcher, prompt: str) -> str:
        """Its turn, as `ended` names it."""
        watcher.text.clear()
        if watcher is self.ours:
            return await watcher.submit(prompt)
        watcher.ended.pop(_TURN, None)
        ask = {"room": watcher.session, "url": self.stage.model.url, "content": prompt}
        await watcher.wire.call("prompt", ask)
        return _TURN

    async def idle(self) -> None:
        """Waits until the drone is free: a turn that ended has a few things to put away."""
        await self.ours.until(lambda: self.ours.drone_is_free)

    async def run(self, watcher: Watcher, prompt: str) -> int:
        """The nanosecond at which its end came."""
        turn = await self.start(watcher, prompt)
        return await watcher.until_ended(turn)


@asynccontextmanager
async def _pair() -> AsyncIterator[_Pair]:
    async with Stage() as stage:
        await stage.drone()
        session = await stage.session()
        async with watching(stage.user, session) as ours, watching_floor(stage.floor, "r") as floor:
            pair = _Pair(stage, ours, floor)
            for watcher in (ours, floor):  # the clone, and what is loaded when it is first needed
                for _ in range(3):
                    await pair.run(watcher, plan(new_tag(), steps=2))
            await pair.idle()
            yield pair


async def run_latency(scale: Scale) -> Result:
    turns, seconds = scale.of(5, 50), scale.of(4, 20)
    asked: dict[bool, list[float]] = {True: [], False: []}
    ended: dict[bool, list[float]] = {True: [], False: []}
    late: dict[bool, list[float]] = {True: [], False: []}
    at_once: list[float] = []
    async with _pair() as pair:
        for _ in range(turns):
            for watcher in (pair.floor, pair.ours):
                tag = new_tag()
                await pair.idle()
                begun = time.perf_counter_ns()
                end = await pair.run(watcher, plan(tag, deltas=20))
                [note] = await pair.stage.model.notes(tag)
                asked[watcher is pair.ours].append((note["received"] - begun) / 1e6)
                ended[watcher is pair.ours].append((end - note["last"]) / 1e6)
        for _ in range(turns):
            tag = new_tag()
            begun = time.perf_counter_ns()
            await pair.run(pair.ours, plan(tag, deltas=20))
            [note] = await pair.stage.model.notes(tag)
            at_once.append((note["received"] - begun) / 1e6)
        await pair.idle()
        for _ in range(scale.of(1, 3)):
            for watcher in (pair.floor, pair.ours):
                await pair.run(watcher, plan(new_tag(), deltas=_RATE * seconds, rate=_RATE))
                late[watcher is pair.ours] += [
                    (came - int(sent)) / 1e6 for came, text in watcher.text for sent in _SENT.findall(text)
                ]
    rows = [
        Row.of("prompt -> model request", "ms", asked[True], asked[False], "the drone is free"),
        Row.of("prompt -> model request, at once", "ms", at_once, note="sent as soon as the turn before has ended"),
        Row.of("last model byte -> end at the watcher", "ms", ended[True], ended[False]),
        Row.of("delta -> watcher", "ms", late[True], late[False], f"{_RATE} deltas a second"),
        Row("delta -> watcher, p99", "ms", percentile(late[True], 99), percentile(late[False], 99), n=len(late[True])),
    ]
    return Result(rows)


async def run_burst(scale: Scale) -> Result:
    rates: dict[bool, list[float]] = {True: [], False: []}
    costs: dict[bool, list[float]] = {True: [], False: []}
    events = 0
    async with _pair() as pair:
        services = {
            False: [pair.stage.floor.pid],
            True: [*tree(pair.stage.web.pid), *(pid for drone in pair.stage.drones for pid in tree(drone.pid))],
        }
        for _ in range(scale.of(1, 7)):
            for watcher in (pair.floor, pair.ours):
                is_ours, tag = watcher is pair.ours, new_tag()
                await pair.idle()
                before = cpu_s(*services[is_ours])
                end = await pair.run(watcher, plan(tag, deltas=_BURST))
                [note] = await pair.stage.model.notes(tag)
                rates[is_ours].append(_BURST / ((end - note["first"]) / 1e9))
                costs[is_ours].append((cpu_s(*services[is_ours]) - before) / _BURST * 1e6)
                assert sum(text.count("word ") for _, text in watcher.text) == _BURST
                events = len(watcher.text)
    rows = [
        Row.of("burst: deltas at the watcher", "/s", rates[True], rates[False], f"{events} events, end included"),
        Row.of("burst: half of the floor", "/s", rates[True], rates[False]),
        Row.of("burst: CPU of a delta", "us", costs[True], costs[False], "web, drone and mongod"),
    ]
    return Result(rows)


async def run_cancel(scale: Scale) -> Result:
    closed: dict[bool, list[float]] = {True: [], False: []}
    told: dict[bool, list[float]] = {True: [], False: []}
    async with _pair() as pair:
        for _ in range(scale.of(3, 25)):
            for watcher in (pair.floor, pair.ours):
                tag = new_tag()
                await pair.idle()
                turn = await pair.start(watcher, plan(tag, deltas=_RATE * 60, rate=_RATE))
                await _streaming(watcher)
                begun = time.perf_counter_ns()
                what = {"turnId": turn} if watcher is pair.ours else {"room": watcher.session}
                await watcher.wire.call("cancelTurn" if watcher is pair.ours else "cancel", what)
                end = await watcher.until_ended(turn)
                [note] = await pair.stage.model.notes(tag, until=lambda notes: "closed" in notes[0])
                closed[watcher is pair.ours].append((note["closed"] - begun) / 1e6)
                told[watcher is pair.ours].append((end - begun) / 1e6)
    rows = [
        Row.of("cancel -> model connection closed", "ms", closed[True], closed[False]),
        Row.of("cancel -> watcher told", "ms", told[True], told[False]),
    ]
    return Result(rows)


async def _streaming(watcher: Watcher) -> None:
    await watcher.until(lambda: len(watcher.text) >= 5)


LATENCY = Bench(
    "latency",
    "prompt to model request, delta to watcher, last byte to end",
    (
        "prompt -> model request",
        "last model byte -> end at the watcher",
        "delta -> watcher",
        "delta -> watcher, p99",
    ),
    run_latency,
)
BURST = Bench(
    "burst",
    f"{_BURST:,} deltas at once",
    ("burst: deltas at the watcher", "burst: half of the floor", "burst: CPU of a delta"),
    run_burst,
)
CANCEL = Bench(
    "cancel",
    "how soon a cancel reaches the model and the watcher",
    ("cancel -> model connection closed", "cancel -> watcher told"),
    run_cancel,
)
