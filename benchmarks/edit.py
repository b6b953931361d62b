"""What reading and editing a file cost in a repository of 50,000 files, as ratios to reading the file plainly.

    python benchmarks/edit.py [--quick] [--json FILE]

Each round measures all, one after the other, so that a busy moment of the machine hits them alike; the median counts.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gadget_api.messages import ToolCallRequest
from gadget_drone.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox

FILES, ROUNDS = 50_000, 200
QUICK_FILES, QUICK_ROUNDS = 2_000, 30
_LINES = 400
_TARGET = "src/d007/f00007.py"


def make_repository(root: Path, files: int) -> None:
    for number in range(files):
        path = root / f"src/d{number % 100:03}/f{number:05}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = _LINES if str(path.relative_to(root)) == _TARGET else 20
        path.write_text("".join(f"    value_{n} = compute({number}, {n})\n" for n in range(lines)))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)


async def measure(root: Path, rounds: int) -> dict[str, float]:
    """Milliseconds, the median of each."""
    supervisor = Supervisor()
    context = ToolContext(root, lambda _: None, root.parent / "spool", supervisor)
    toolbox = Toolbox.standard()
    file = root / _TARGET
    original = file.read_text()

    async def call(name: str, **params: Any) -> None:
        result = await toolbox.run(ToolCallRequest(call_id="c", name=name, params=params), context)
        assert not result.is_error, result.content

    async def plain() -> None:
        file.read_bytes()

    async def plain_write() -> None:
        file.write_text(original)

    def edits(old: str) -> list[dict[str, str]]:
        return [{"old_text": old, "new_text": "    value_200 = None\n"}]

    line = "    value_200 = compute(7, 200)\n"
    patch = f"*** Begin Patch\n*** Update File: {_TARGET}\n-{line.rstrip()}\n+    value_200 = None\n*** End Patch"
    measured: dict[str, Callable[[], Awaitable[None]]] = {
        "read plainly": plain,
        "write plainly": plain_write,
        "read": lambda: call("read", path=_TARGET),
        "edit": lambda: call("edit", path=_TARGET, edits=edits(line)),
        "edit, tolerant": lambda: call("edit", path=_TARGET, edits=edits(line.strip() + "  \n")),
        "apply_patch": lambda: call("apply_patch", patch=patch),
        "write": lambda: call("write", path=_TARGET, content=original.replace("200", "x")),
    }
    times: dict[str, list[float]] = {name: [] for name in measured}
    try:
        for _ in range(rounds):
            for name, step in measured.items():
                file.write_text(original)
                await call("read", path=_TARGET)
                begun = time.perf_counter()
                await step()
                times[name].append((time.perf_counter() - begun) * 1000)
    finally:
        supervisor.close()
    return {name: statistics.median(found) for name, found in times.items()}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 files and 30 rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    arguments = parser.parse_args()
    files, rounds = (QUICK_FILES, QUICK_ROUNDS) if arguments.quick else (FILES, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="gadget-benchmark-") as directory:
        root = Path(directory) / "project"
        make_repository(root, files)
        medians = await measure(root, rounds)
    base = medians["read plainly"]
    print(f"{files} files, a file of {_LINES} lines, {rounds} rounds, median")
    for name, median_ms in medians.items():
        print(f"{name:<16}{median_ms:>9.3f} ms{median_ms / base:>8.1f} x")
    if arguments.json is not None:
        found = {name: {"medianMs": ms, "ratio": ms / base} for name, ms in medians.items()}
        arguments.json.write_text(json.dumps({"files": files, "rounds": rounds, "measured": found}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
