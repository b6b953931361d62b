"""`search`, `glob` and `list` in the sandbox, beside a job that exchanges a directory for a link under their eyes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervised
from gadget_drone.sandbox.standing import Standing
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.sandbox.conftest import need_sandbox

CALLS: dict[str, dict[str, Any]] = {
    "search": {"pattern": "outside", "path": "d"},
    "glob": {"pattern": "secret.txt", "path": "d"},
    "list": {"path": "d"},
}


@pytest.fixture
async def sandboxed(context: ToolContext) -> AsyncIterator[ToolContext]:
    await asyncio.to_thread(need_sandbox)
    (context.project_dir / "secrets").mkdir()
    (context.project_dir / "secrets/secret.txt").write_text("outside of what may be read")
    standing = Standing(context.project_dir.parent)
    start = partial(standing.start, network=False, hidden=[context.project_dir / "secrets"])
    yield replace(context, sandboxed=start, hidden=["secrets/**"])
    await standing.close()


@pytest.mark.parametrize("target", ["..", "secrets"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_raced_link_leads_nowhere(
    name: str, target: str, sandboxed: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = sandboxed.project_dir / "d"
    directory.mkdir()
    (directory / "own.txt").touch()
    module = import_module(f"gadget_drone.tools.{name}")

    def exchanged(*given: Any) -> Path:
        real: Path = looked(*given)
        directory.rename(f"{directory}-before")
        directory.symlink_to(target)
        return real

    looked, toolbox = module.real_path, Toolbox.standard()
    call = ToolCallRequest(call_id="c1", name=name, params=CALLS[name])
    assert not (await toolbox.run(call, sandboxed)).is_error
    monkeypatch.setattr(module, "real_path", exchanged)
    assert "secret.txt" not in (await toolbox.run(call, sandboxed)).content
    assert directory.is_symlink()


async def test_what_the_user_ignores_everywhere_is_left_out(sandboxed: ToolContext, home: Path) -> None:
    (home / "ignored-everywhere").write_text("*.swp\n")
    (home / ".gitconfig").write_text("[core]\nexcludesFile = ~/ignored-everywhere\n")
    for name in ("x.swp", "y.txt"):
        (sandboxed.project_dir / name).touch()
    call = ToolCallRequest(call_id="c1", name="glob", params={"pattern": "?.*"})
    assert (await Toolbox.standard().run(call, sandboxed)).content == "y.txt"


async def test_ripgrep_ends_when_enough_is_said(sandboxed: ToolContext) -> None:
    (sandboxed.project_dir / "many").write_text("needle\n" * 1_000_000)
    started: list[Supervised] = []

    async def start(*given: Any, **more: Any) -> Supervised:
        assert sandboxed.sandboxed is not None
        started.append(await sandboxed.sandboxed(*given, **more))
        return started[0]

    call = ToolCallRequest(call_id="c1", name="search", params={"pattern": "needle"})
    found = await Toolbox.standard().run(call, replace(sandboxed, sandboxed=start))
    assert found.content.endswith("[there is more: narrow it down with path, glob or a longer pattern]")
    assert started[0].is_over
