"""What the store costs: steps into it, a session and a turn out of it. The floor is the same MongoDB, asked plainly."""

import asyncio
import time
from typing import Any

from pymongo import AsyncMongoClient, WriteConcern

from benchmarks.bench import Bench, Line, Result, Scale
from benchmarks.copies import Template
from benchmarks.figures import Row
from benchmarks.load.worker import SimulatedDrone
from benchmarks.stage import Stage, new_tag, plan, watching, watching_floor
from benchmarks.wire import Wire
from gadget_api.ids import new_id
from gadget_api.protocol import PROTOCOL_VERSION

Document = dict[str, Any]

_DRONES = 8
_EVENTS_A_STEP = 3
_SAID = "What was found is that the answer is 41 where it should be 42. " * 4
_WINDOW_EVENTS = 2_000
"""A drone of ours sends 2 MB ahead of what is acknowledged: about as many."""
_STORED_S = 300.0
_SESSION_TURNS = 1_000
_PAGE = 50


async def _simulated(stage: Stage, wires: list[Wire], number: int) -> tuple[SimulatedDrone, str]:
    """A drone of the stage's user, connected, and a session that has chosen it."""
    place = {"hostname": "bench", "workspaceDir": f"/bench/{number}", "workspaceId": new_id(), "name": f"d{number}"}
    made = await stage.user.post("/drones/registrations", place)
    wire = Wire(stage.web.url, {"token": made["token"], "protocolVersion": PROTOCOL_VERSION})
    drone = SimulatedDrone(await wire.__aenter__())
    wires.append(wire)
    await drone.free()
    return drone, await stage.session(drone=made["registration"]["_id"])


async def _take_turn(stage: Stage, drone: SimulatedDrone, session: str) -> str:
    turn = await stage.user.post(f"/sessions/{session}/turns", {"content": "Go on.", "promptId": new_id()})
    await drone.until_taken()
    return str(turn["_id"])


async def _steps(drone: SimulatedDrone, count: int) -> None:
    """So many steps with a tool call each, no further ahead than a drone goes; returns when they are stored."""
    for index in range(1, count + 1):
        call = {"callId": f"c{index}", "name": "shell", "params": {"command": "echo"}}
        message = {"thinking": "", "content": _SAID, "toolCalls": [call]}
        await drone.event("step", index=index, message=message, usage={}, finishReason="toolCalls", model="bench")
        await drone.event("toolStarted", **call)
        await drone.event("toolCall", **call, response=_SAID, isError=False, durationMs=1)
        if drone.seq - drone.acked > _WINDOW_EVENTS:
            await drone.until(lambda: drone.seq - drone.acked <= _WINDOW_EVENTS // 2, _STORED_S)
    await drone.until(lambda: drone.acked >= drone.seq, _STORED_S)


async def run_stored(scale: Scale) -> Result:
    steps = scale.of(100, 1_000)
    ours: list[float] = []
    floor: list[float] = []
    wires: list[Wire] = []
    group = 1
    async with Stage() as stage:
        try:
            pairs = [await _simulated(stage, wires, number) for number in range(_DRONES)]
            for _ in range(scale.of(1, 3)):
                for drone, session in pairs:
                    await _take_turn(stage, drone, session)
                acks = sum(drone.acks for drone, _ in pairs)
                begun = time.perf_counter()
                await asyncio.gather(*(_steps(drone, steps) for drone, _ in pairs))
                ours.append(_DRONES * steps / (time.perf_counter() - begun))
                groups = sum(drone.acks for drone, _ in pairs) - acks
                group = max(1, round(_DRONES * steps * _EVENTS_A_STEP / groups))
                floor.append(await _inserted_a_second(stage.database_url, steps, group) / _EVENTS_A_STEP)
                await asyncio.gather(*(drone.end() for drone, _ in pairs))
        finally:
            for wire in wires:
                await wire.__aexit__()
    note = f"{_DRONES} turns at once, {_EVENTS_A_STEP} events a step, stored by {group}; floor: insert_many by as many"
    return Result([Row.of("stored steps", "/s", ours, floor, note)])


async def _inserted_a_second(url: str, steps: int, group: int) -> float:
    """Documents as ours are, from as many writers at once, each group acknowledged by a majority."""
    async with AsyncMongoClient[Document](url) as client:
        events = client.get_database("floor", write_concern=WriteConcern("majority")).events
        await events.drop()

        async def write(writer: int) -> None:
            documents = [
                {
                    "_id": f"{writer:024}:{seq:010}",
                    "turn": f"{writer:024}",
                    "seq": seq,
                    "epoch": 1,
                    "type": "step",
                    "body": _SAID + "x" * 220,
                    "schemaVersion": 1,
                }
                for seq in range(steps * _EVENTS_A_STEP)
            ]
            for start in range(0, len(documents), group):
                await events.insert_many(documents[start : start + group], ordered=False)

        begun = time.perf_counter()
        await asyncio.gather(*map(write, range(_DRONES)))
        return _DRONES * steps * _EVENTS_A_STEP / (time.perf_counter() - begun)


async def run_open(scale: Scale) -> Result:
    in_store = scale.of(3_000, 100_000)
    rows: list[Row] = []
    points: list[tuple[float, float]] = []
    async with Stage() as stage, AsyncMongoClient[Document](stage.database_url, tz_aware=True) as client:
        await stage.drone()
        session = await stage.session()
        async with watching(stage.user, session) as watcher:
            first = await watcher.run(plan(new_tag(), steps=2))
        for name, turns in (
            ("open a session of 1,000 turns", _SESSION_TURNS),
            ("open it with 100,000 turns in the store", in_store),
        ):
            database = client.gadget
            template = await Template.of(database, first)
            while (have := await database.turns.count_documents({})) < turns:
                # The measured session's first, then others' of as many.
                belongs = session if have < _SESSION_TURNS else new_id()
                await template.copy(belongs, min(turns - have, _SESSION_TURNS))
            ours, asked, floor = await _opened(stage, database, session, scale.of(5, 50))
            note = f"selectSession and {_PAGE} turns; selectSession alone {asked:.1f} ms; floor: find of those turns"
            rows.append(Row.of(name, "ms", ours, floor, f"{note}; {turns:,} turns in the store"))
            points.append((turns, rows[-1].ours))
    return Result(rows, [Line("Opening a session against turns in the store", "ours", "turns", "ms", points)])


async def _opened(stage: Stage, database: Any, session: str, times: int) -> tuple[list[float], float, list[float]]:
    """Milliseconds of opening, in all; of `selectSession` alone, the best; and of a plain find."""
    ours: list[float] = []
    asked: list[float] = []
    floor: list[float] = []
    for number in range(times + 1):
        begun = time.perf_counter()
        await database.turns.find({"session": session}).sort("_id", -1).limit(_PAGE).to_list()
        floor_ms = 1000 * (time.perf_counter() - begun)
        auth = {"token": stage.user.token, "protocolVersion": PROTOCOL_VERSION}
        async with Wire(stage.web.url, auth, origin=stage.web.url) as wire:
            begun = time.perf_counter()
            await wire.call("selectSession", {"chatSessionId": session})
            selected_ms = 1000 * (time.perf_counter() - begun)
            page = await stage.user.get(f"/sessions/{session}/turns", limit=_PAGE)
            ours_ms = 1000 * (time.perf_counter() - begun)
        assert len(page["items"]) == _PAGE
        if number:  # the first one fills caches
            ours.append(ours_ms)
            asked.append(selected_ms)
            floor.append(floor_ms)
    return ours, min(asked), floor


async def run_replay(scale: Scale) -> Result:
    events = scale.of(2_000, 10_000)
    ours: list[float] = []
    floor: list[float] = []
    wires: list[Wire] = []
    async with Stage() as stage:
        try:
            drone, session = await _simulated(stage, wires, 0)
            turn = await _take_turn(stage, drone, session)
            for number in range(events):
                await drone.event("response", content=f"{number} {_SAID[:40]}")
                if drone.seq - drone.acked > _WINDOW_EVENTS:
                    await drone.until(lambda: drone.seq - drone.acked <= _WINDOW_EVENTS // 2, _STORED_S)
            await drone.end()
            for _ in range(scale.of(2, 10)):
                async with watching_floor(stage.floor, "replay") as watcher:
                    begun = time.perf_counter()
                    await watcher.wire.emit("replay", {"count": events, "content": "x" * 220})
                    await watcher.until_ended("done")
                    floor.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                async with watching(stage.user, session, {"turnId": turn, "seq": 0}) as watcher:
                    await watcher.until_ended(turn)
                    ours.append(time.perf_counter() - begun)
                    assert len(watcher.text) == events
        finally:
            for wire in wires:
                await wire.__aexit__()
    note = f"{events:,} events; floor: as many from the relay in memory"
    return Result([Row.of("replay of 10,000 events", "s", ours, floor, note)])


STORED = Bench("stored", "steps a second into the store", ("stored steps",), run_stored)
OPEN = Bench(
    "open",
    "opening a session of 1,000 turns",
    ("open a session of 1,000 turns", "open it with 100,000 turns in the store"),
    run_open,
)
REPLAY = Bench("replay", "a turn of 10,000 events to a new watcher", ("replay of 10,000 events",), run_replay)
