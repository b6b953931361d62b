"""What a checkpoint costs beside `git status` in the same repository, with 0, 1 and 100 changed files."""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row
from benchmarks.repository import FILES, QUICK_FILES, make_repository
from benchmarks.rounds import Step, times_ms
from gadget_drone.checkpoints import CheckpointLimits, Checkpoints

_NOTHING = "snapshot, nothing changed"
_CHANGED = {_NOTHING: 0, "snapshot, 1 file changed": 1, "snapshot, 100 files changed": 100}


async def run(scale: Scale) -> Result:
    files, rounds = scale.of(QUICK_FILES, FILES), scale.of(5, 21)
    with TemporaryDirectory(prefix="gadget-bench-") as place:
        workspace = Path(place)
        project = workspace / "project"
        project.mkdir()
        paths = await asyncio.to_thread(make_repository, project, files=files)
        kept = workspace / ".gadget/checkpoints/project"
        checkpoints = Checkpoints(kept, project, limits=CheckpointLimits(first_take_s=600.0))
        began = time.perf_counter()
        taken = await checkpoints.take("first", None)
        first_ms = 1000 * (time.perf_counter() - began)
        assert taken is not None
        parent = taken.checkpoint_id
        processes: dict[str, int] = {}
        edits = 0

        async def git_status() -> None:
            process = await asyncio.create_subprocess_exec(
                "git", "status", "--porcelain", cwd=project, stdout=asyncio.subprocess.DEVNULL
            )
            assert await process.wait() == 0

        def take(name: str) -> Step:
            async def step() -> None:
                nonlocal parent
                taken = await checkpoints.take("step", parent)
                assert (taken.file_count if taken is not None else 0) == _CHANGED[name]
                parent = taken.checkpoint_id if taken is not None else parent
                processes[name] = checkpoints.processes

            return step

        def change(count: int) -> Step:
            async def step() -> None:
                nonlocal edits
                edits += 1
                for path in paths[:: len(paths) // count][:count]:
                    path.write_text(f"{path.name} {edits}\n")

            return step

        steps = {"git status": git_status} | {name: take(name) for name in _CHANGED}
        before = {name: change(count) for name, count in _CHANGED.items() if count}
        times = await times_ms(steps, rounds=rounds, before=before)
    floor = times["git status"]
    rows = [
        Row.of(name, "ms", times[name], floor, f"{files:,} files, {processes[name]} git processes; floor: git status")
        for name in _CHANGED
    ]
    return Result([*rows, Row("snapshot, the first", "ms", first_ms)])


SNAPSHOT = Bench("snapshot", "a checkpoint beside git status in a large repository", (_NOTHING,), run)
