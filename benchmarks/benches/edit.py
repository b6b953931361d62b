"""What reading and changing a file by our tools costs in a large repository, beside doing it plainly."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row
from benchmarks.repository import FILES, QUICK_FILES, make_repository
from benchmarks.rounds import Step, times_ms
from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox

_LINES = 400
_TARGET = "part0/module0/long.py"


async def run(scale: Scale) -> Result:
    files, rounds = scale.of(QUICK_FILES, FILES), scale.of(30, 200)
    with TemporaryDirectory(prefix="gadget-bench-") as place:
        project = Path(place) / "project"
        project.mkdir()
        await asyncio.to_thread(make_repository, project, files=files)
        times = await _measured(project, rounds)
    note = f"{files:,} files, one of {_LINES} lines"
    plainly = {"read": "read plainly"}
    return Result(
        [
            Row.of(f"tool {name}", "ms", times[name], times[plainly.get(name, "write plainly")], note)
            for name in ("read", "edit", "edit, tolerant", "apply_patch", "write")
        ]
    )


async def _measured(project: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each."""
    file = project / _TARGET
    original = "".join(f"    value_{n} = compute(7, {n})\n" for n in range(_LINES))
    file.write_text(original)
    supervisor = Supervisor()
    context = ToolContext(project, lambda _: None, project.parent / "spool", supervisor)
    toolbox = Toolbox.standard()

    async def call(name: str, **params: Any) -> None:
        result = await toolbox.run(ToolCallRequest(call_id="c", name=name, params=params), context)
        assert not result.is_error, result.content

    async def plain() -> None:
        file.read_bytes()

    async def plain_write() -> None:
        file.write_text(original)

    async def as_read() -> None:
        file.write_text(original)
        await call("read", path=_TARGET)

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
    steps: dict[str, Step] = dict(measured)
    try:
        return await times_ms(steps, rounds=rounds, before=dict.fromkeys(steps, as_read))
    finally:
        supervisor.close()


EDIT = Bench("edit", "the tools that read and change a file, beside doing it plainly", (), run)
