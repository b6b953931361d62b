"""What the tool `search` costs beside plain `rg` with the same pattern in the same repository.

The tool sorts by path, which ripgrep does with one thread, and stops after 300 lines.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row
from benchmarks.repository import COMMON, FILES, QUICK_FILES, RARE, make_repository
from benchmarks.rounds import Step, times_ms
from gadget_drone.processes.programs import find_ripgrep
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.search import search
from gadget_drone.tools.tool import ToolContext

PATTERNS = {"rare": RARE, "common": COMMON, "none": "no such thing at all"}


async def run(scale: Scale) -> Result:
    files, rounds = scale.of(QUICK_FILES, FILES), scale.of(5, 15)
    with TemporaryDirectory(prefix="gadget-bench-") as place:
        workspace = Path(place)
        project = workspace / "project"
        project.mkdir()
        await asyncio.to_thread(make_repository, project, files=files)
        binary = find_ripgrep()
        assert binary is not None, "ripgrep is not installed"
        supervisor = Supervisor()
        context = ToolContext(project, lambda _: None, workspace / "spool", supervisor)

        def ours(pattern: str) -> Step:
            async def step() -> None:
                await search.function(context, pattern)

            return step

        def plain(pattern: str) -> Step:
            async def step() -> None:
                process = await asyncio.create_subprocess_exec(
                    *(binary or "rg", "--no-config", "--line-number", "--hidden", "--glob=!.git", "--", pattern, "."),
                    cwd=project,
                    stdout=asyncio.subprocess.DEVNULL,
                )
                await process.wait()

            return step

        steps: dict[str, Step] = {}
        for name, pattern in PATTERNS.items():
            steps |= {f"rg, {name}": plain(pattern), f"search, {name}": ours(pattern)}
        try:
            times = await times_ms(steps, rounds=rounds)
        finally:
            supervisor.close()
    note = f"{files:,} files; floor: rg"
    return Result(
        [
            Row.of(f"tool search, {name}", "ms", times[f"search, {name}"], times[f"rg, {name}"], note)
            for name in PATTERNS
        ]
    )


SEARCH = Bench("search", "the tool search beside rg in a large repository", (), run)
