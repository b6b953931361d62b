"""A job exchanges a directory for a link to what a rule denies, after the call was judged and before it runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.agent.bench import Bench
from tests.gadget_drone.permissions.conftest import policy, rule


def patch(*lines: str) -> dict[str, str]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


EDIT = ("edit", {"path": "d/key", "edits": [{"old_text": "KEY", "new_text": "taken over"}]})
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read", {"path": "d/key"}),
    "edit": EDIT,
    "create": ("write", {"path": "d/new", "content": "x"}),
    "create deeper": ("write", {"path": "d/new/new", "content": "x"}),
    "patch": ("apply_patch", patch("*** Update File: d/key", "@@", "-KEY", "+taken over")),
    "delete": ("apply_patch", patch("*** Delete File: d/key")),
    "move out": ("apply_patch", patch("*** Update File: d/key", "*** Move to: copy")),
    "move in": ("apply_patch", patch("*** Update File: other", "*** Move to: d/new")),
}


@pytest.mark.parametrize("exchanged", ["directory", "file"])
@pytest.mark.parametrize(
    ("call", "level", "before"),
    [*((call, "full", "run") for call in CALLS.values()), (EDIT, "ask", "preview")],
    ids=[*CALLS, "preview"],
)
async def test_what_was_judged_is_what_is_opened(
    call: tuple[str, Any], level: str, before: str, exchanged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = policy(level, rule("deny", "read", "secrets/**"), rule("deny", "write", "secrets/**"))
    bench = Bench(tmp_path, Script([Reply(Call(*call)), Reply(Text("Done."))]), policy=denied)
    root = bench.place
    for directory, text in (("d", "KEY\n"), ("secrets", "KEY\nof the user\n")):
        (root / directory).mkdir()
        (root / directory / "key").write_text(text)
    (root / "other").write_text("other")
    door = getattr(Toolbox, before)

    def exchange_then_run(*arguments: Any) -> Any:
        if exchanged == "directory":
            (root / "d").rename(root / "kept")
            (root / "d").symlink_to("secrets")
        else:
            (root / "d/key").rename(root / "kept")
            (root / "d/key").symlink_to("../secrets/key")
        return door(*arguments)

    monkeypatch.setattr(Toolbox, before, exchange_then_run)
    async with asyncio.timeout(60):
        events = await bench.run()
    bench.journal.close()
    assert "of the user" not in str(events)
    assert {path.name: path.read_text() for path in (root / "secrets").iterdir()} == {"key": "KEY\nof the user\n"}
    assert not (root / "copy").exists()
