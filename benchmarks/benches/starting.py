"""Start-up and memory: commands that only say how they are used, processes until they are ready, and what they hold."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row
from benchmarks.proc import memory, memory_below
from benchmarks.stage import Helper, Model, Stage, new_tag, plan, run_floor, watching
from benchmarks.wire import Wire
from gadget_api.protocol import PROTOCOL_VERSION
from tests.harness import Web, clean_environment

_READY_S = 60.0


async def _timed_ms(*command: str) -> float:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=clean_environment()
    )
    assert await process.wait() == 0, command
    return 1000 * (time.perf_counter() - begun)


async def run_help(scale: Scale) -> Result:
    commands = {name: str(Path(sys.executable).with_name(name)) for name in ("gadget-drone", "gadget-code")}
    bare: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(scale.of(4, 30) + 1):
        once = await _timed_ms(sys.executable, "-c", "pass")
        each = {name: await _timed_ms(path, "--help") for name, path in commands.items()}
        if number:  # the first one reads from the disk, and may write bytecode
            bare.append(once)
            for name, took in each.items():
                times[name].append(took)
    return Result([Row.of(f"{name} --help", "ms", times[name], bare, "floor: python -c pass") for name in commands])


async def _web_ready_s(directory: Path) -> float:
    """From the start of the process until `/health/ready` says yes; the process is stopped then."""
    log = directory / "web.log"
    env = clean_environment(GADGET_DATA_DIR=str(directory / "data"), GADGET_DATABASE="gadget")
    begun = time.perf_counter()
    web = Web([sys.executable, "-m", "gadget_code", "serve", "--port", "0"], env, log)
    await asyncio.to_thread(web.start)
    try:
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"{web.url}/health/ready", timeout=_READY_S)).is_success
        return time.perf_counter() - begun
    finally:
        await asyncio.to_thread(web.stop)
        log.unlink()


async def _floor_ready_s() -> float:
    begun = time.perf_counter()
    async with Helper("benchmarks.floors.relay") as floor, Wire(floor.url):
        return time.perf_counter() - begun


async def _drone_available_s(stage: Stage) -> float:
    """From the start of the process until a watcher is told that it is available."""
    told = asyncio.Event()
    auth = {"token": stage.user.token, "protocolVersion": PROTOCOL_VERSION}
    async with Wire(stage.user.url, auth, origin=stage.user.url) as wire:

        def take(name: str, payload: dict[str, dict[str, str]]) -> None:
            if name == "droneStatus" and payload["drone"]["status"] == "available":
                told.set()

        wire.on_event = take
        begun = time.perf_counter()
        drone = await stage.start_drone()
        async with asyncio.timeout(_READY_S):
            await told.wait()
        took = time.perf_counter() - begun
    await asyncio.to_thread(drone.stop)
    return took


async def _first_request_s(model: Model) -> float:
    """From the start of the floor's loop to its first request."""
    tag = new_tag()
    begun = time.perf_counter_ns()
    await run_floor(model.url, plan(tag))
    [note] = await model.notes(tag)
    return (note["received"] - begun) / 1e9


async def run_start(scale: Scale) -> Result:
    drone: list[float] = []
    drone_floor: list[float] = []
    again: list[float] = []
    first: list[float] = []
    web_floor: list[float] = []
    async with Stage() as stage:
        for _ in range(scale.of(2, 10)):
            drone_floor.append(await _first_request_s(stage.model))
            drone.append(await _drone_available_s(stage))
    for _ in range(scale.of(1, 7)):
        with tempfile.TemporaryDirectory(prefix="gadget-bench-") as directory:
            web_floor.append(await _floor_ready_s())
            first.append(await _web_ready_s(Path(directory)))
            again.append(await _web_ready_s(Path(directory)))
    rows = [
        Row.of(
            "drone start -> available",
            "s",
            drone,
            drone_floor,
            "a fresh workspace; floor: an httpx loop's first request",
        ),
        Row.of("web start -> ready", "s", again, web_floor, "with data; floor: the relay in memory"),
        Row.of("web start -> ready, the first time", "s", first, web_floor, "an empty data directory"),
    ]
    return Result(rows)


async def run_memory(scale: Scale) -> Result:
    steps = scale.of(50, 500)
    async with Stage() as stage:
        drone = await stage.drone()
        web, idle = memory(stage.web.pid), memory(drone.pid)
        helpers = memory_below(drone.pid)
        database = sum(m.rss_mb for m in memory_below(stage.web.pid))
        floor = memory(stage.floor.pid)
        async with watching(stage.user, await stage.session()) as watcher:
            await watcher.run(plan(new_tag(), steps=steps))
        worked = memory(drone.pid)
    of_helpers = f", its helpers {sum(m.rss_mb for m in helpers):.0f} MB" if helpers else ""
    rows = [
        Row("drone memory, idle", "MB", idle.rss_mb, floor.rss_mb, note=f"RSS; PSS {idle.pss_mb:.0f} MB{of_helpers}"),
        Row(
            "drone memory, after 500 steps",
            "MB",
            worked.rss_mb,
            floor.rss_mb,
            note=f"RSS after {steps} steps; PSS {worked.pss_mb:.0f} MB",
        ),
        Row(
            "web memory, idle",
            "MB",
            web.rss_mb,
            floor.rss_mb,
            note=f"RSS; PSS {web.pss_mb:.0f} MB; mongod besides {database:.0f} MB; floor: the relay",
        ),
    ]
    return Result(rows)


HELP = Bench(
    "help", "--help of both commands beside python -c pass", ("gadget-drone --help", "gadget-code --help"), run_help
)
START = Bench(
    "start",
    "from the start of a process until it is of use",
    ("drone start -> available", "web start -> ready"),
    run_start,
)
MEMORY = Bench(
    "memory",
    "what an idle service, an idle drone and one after 500 steps hold",
    ("drone memory, idle", "drone memory, after 500 steps", "web memory, idle"),
    run_memory,
)
