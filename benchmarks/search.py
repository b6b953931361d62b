"""What the tool `search` costs, as a ratio to plain `rg` with the same pattern in the same repository.

    python -m benchmarks.search [--quick] [--json FILE]

The tool sorts by path, which ripgrep does with one thread, and stops after 300 lines.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.repository import COMMON, FILES, QUICK_FILES, RARE, make_repository
from benchmarks.rounds import Step, medians_ms, parser, report
from gadget_drone.supervised import Supervisor
from gadget_drone.tools.ripgrep import find_ripgrep
from gadget_drone.tools.search import search
from gadget_drone.tools.tool import ToolContext

PATTERNS = {"rare": RARE, "common": COMMON, "none": "no such thing at all"}


async def measure(workspace: Path, *, files: int, rounds: int) -> dict[str, Any]:
    project = workspace / "project"
    project.mkdir()
    make_repository(project, files=files)
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
        medians = await medians_ms(steps, rounds=rounds, before={})
    finally:
        supervisor.close()
    rows: dict[str, Any] = {"files": files} | {f"{name} (ms)": value for name, value in medians.items()}
    return rows | {f"{name}: ratio to rg": medians[f"search, {name}"] / medians[f"rg, {name}"] for name in PATTERNS}


def main() -> None:
    given = parser(__doc__).parse_args()
    with TemporaryDirectory() as place:
        files, rounds = (QUICK_FILES, 5) if given.quick else (FILES, 15)
        report(asyncio.run(measure(Path(place), files=files, rounds=rounds)), given.json)


if __name__ == "__main__":
    main()
