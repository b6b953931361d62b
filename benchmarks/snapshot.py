"""What a checkpoint costs, as a ratio to `git status` in the same repository.

    python -m benchmarks.snapshot [--quick] [--json FILE]

A snapshot with 0, 1 and 100 changed files, taken in turn with the user's own `git status`, medians. The aim: one with
nothing changed in at most 1.5 times the time of `git status`.
"""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.repository import FILES, QUICK_FILES, make_repository
from benchmarks.rounds import Step, medians_ms, parser, report
from gadget_drone.checkpoints import Checkpoints, Limits


async def measure(workspace: Path, *, files: int, rounds: int) -> dict[str, Any]:
    project = workspace / "project"
    project.mkdir()
    paths = make_repository(project, files=files)
    checkpoints = Checkpoints(workspace / ".gadget/checkpoints/project", project, limits=Limits(first_take_s=600.0))
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

    def take(count: int) -> Step:
        async def step() -> None:
            nonlocal parent
            taken = await checkpoints.take("step", parent)
            assert (taken.file_count if taken is not None else 0) == count
            parent = taken.checkpoint_id if taken is not None else parent
            processes[f"{count} changed: git processes"] = checkpoints.processes

        return step

    def change(count: int) -> Step:
        async def step() -> None:
            nonlocal edits
            edits += 1
            for path in paths[:: len(paths) // count][:count]:
                path.write_text(f"{path.name} {edits}\n")

        return step

    steps = {"git status": git_status} | {f"{count} changed": take(count) for count in (0, 1, 100)}
    before = {f"{count} changed": change(count) for count in (1, 100)}
    medians = await medians_ms(steps, rounds=rounds, before=before)
    rows: dict[str, Any] = {"files": files, "first (ms)": first_ms}
    rows |= {f"{name} (ms)": value for name, value in medians.items()}
    rows |= {f"{name}: ratio to git status": medians[name] / medians["git status"] for name in list(steps)[1:]}
    return rows | processes


def main() -> None:
    given = parser(__doc__).parse_args()
    with TemporaryDirectory() as place:
        files, rounds = (QUICK_FILES, 5) if given.quick else (FILES, 21)
        report(asyncio.run(measure(Path(place), files=files, rounds=rounds)), given.json)


if __name__ == "__main__":
    main()
