"""Patches beyond the corpus: modes, failing writes, git's own judgement."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gadget_drone.disk import confined
from gadget_drone.editing.diff import unified_diff
from gadget_drone.editing.hunks import patched
from gadget_drone.editing.unified import parse_unified
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run


def begin(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_modes_stay_and_move_along(project: Path, run: Run) -> None:
    for name in ("f", "g"):
        (project / name).write_text("a\n")
        (project / name).chmod(0o750)
    patch = begin("*** Update File: f", "-a", "+b", "*** Update File: g", "*** Move to: sub/h", "-a", "+b")
    assert not (await run("apply_patch", patch=patch)).is_error
    assert mode(project / "f") == mode(project / "sub/h") == 0o750


async def test_git_modes_are_set(project: Path, run: Run) -> None:
    (project / "f").write_text("a\n")
    (project / "f").chmod(0o640)
    patch = (
        "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
        "diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
    )
    assert not (await run("apply_patch", patch=patch)).is_error
    assert mode(project / "f") == 0o750
    assert mode(project / "n") & 0o100
    assert not (await run("apply_patch", patch="diff --git a/f b/f\nold mode 100755\nnew mode 100644\n")).is_error
    assert mode(project / "f") == 0o640


async def test_what_was_written_is_put_back_when_a_write_fails(project: Path, run: Run) -> None:
    for number in range(3):
        (project / f"f{number}").write_text(f"{number}\n")
    (project / "f0").chmod(0o600)
    before = {path.name: path.read_bytes() for path in project.glob("f*")}
    patch = begin(
        "*** Update File: f0", "-0", "+changed", "*** Add File: new", "+x", "*** Delete File: f1",
        f"*** Add File: {'n' * 300}", "+a name that cannot be made, and is not noticed before",
    )  # fmt: skip
    assert (await run("apply_patch", patch=patch)).is_error
    assert {path.name: path.read_bytes() for path in project.glob("f*")} == before
    assert mode(project / "f0") == 0o600
    assert not (project / "new").exists()
    assert not list(project.rglob("*.tmp"))


async def test_a_write_that_fails_midway_puts_back(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "f").write_text("a\n")
    (project / "g").write_text("b\n")
    real = os.replace
    left = iter([True, False])

    def full(*args: object, **options: object) -> None:
        if not next(left, True):
            raise OSError(28, "No space left on device")
        real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(confined.os, "replace", full)  # type: ignore[attr-defined]
    result = await run("apply_patch", patch=begin("*** Update File: f", "-a", "+A", "*** Update File: g", "-b", "+B"))
    assert result.is_error
    assert "No space left" in result.content
    assert ((project / "f").read_text(), (project / "g").read_text()) == ("a\n", "b\n")
    assert not list(project.rglob("*.tmp"))


async def test_links_are_followed_to_change_and_not_moved_or_deleted(project: Path, run: Run) -> None:
    (project / "f").write_text("a\n")
    (project / "link").symlink_to("f")
    assert not (await run("apply_patch", patch=begin("*** Update File: link", "-a", "+b"))).is_error
    assert (project / "f").read_text() == "b\n"
    assert "symlink" in (await run("apply_patch", patch=begin("*** Delete File: link"))).content
    assert "symlink" in (await run("apply_patch", patch=begin("*** Update File: link", "*** Move to: g"))).content
    assert (project / "link").is_symlink()


@pytest.mark.parametrize("path", ["../x", "out/x", ".git/config", ".GIT/hooks/x", "sub/.gadget/x", "git_link/config"])
@pytest.mark.parametrize("how", ["add", "delete", "move from", "move to", "update"])
async def test_no_patch_leaves_the_project_or_reaches_into_git(how: str, path: str, project: Path, run: Run) -> None:
    (project / "f").write_text("a\n")
    (project / "out").symlink_to("..")
    (project / "git_link").symlink_to(".git")
    (project.parent / "x").write_text("a\n")
    lines = {
        "add": (f"*** Add File: {path}", "+a"),
        "delete": (f"*** Delete File: {path}",),
        "move from": (f"*** Update File: {path}", "*** Move to: g"),
        "move to": ("*** Update File: f", f"*** Move to: {path}"),
        "update": (f"*** Update File: {path}", "-a", "+b"),
    }[how]
    result = await run("apply_patch", patch=begin(*lines))
    assert result.is_error
    assert (project / "f").exists()
    assert (project.parent / "x").read_text() == "a\n"
    assert (project / ".git/config").read_text() == "[core]\n"
    assert not (project / "g").exists()


def test_access_names_each_file_of_a_patch() -> None:
    tool = Toolbox.standard()._tools["apply_patch"]
    assert tool.access is not None
    patch = begin("*** Update File: f", "*** Move to: g", "-a", "+b", "*** Delete File: h", "*** Add File: i/j", "+x")
    accesses = list(tool.access(patch=patch))
    assert [(access.capability.value, access.target) for access in accesses] == [
        ("read", "f"), ("read", "h"), ("write", "f"), ("write", "g"), ("write", "h"), ("write", "i/j"),
    ]  # fmt: skip
    with pytest.raises(ToolError):
        list(tool.access(patch="nothing"))


async def test_a_preview_is_the_change_and_changes_nothing(project: Path, context: ToolContext, run: Run) -> None:
    (project / "f").write_text("a\nb\n")
    patch = begin("*** Update File: f", "-a", "+A", "*** Add File: n", "+x")
    tools = Toolbox.standard()._tools
    assert tools["apply_patch"].preview is not None
    shown = tools["apply_patch"].preview(context, patch=patch)
    assert shown == (
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+x\n"
    )
    assert (project / "f").read_text() == "a\nb\n"
    with pytest.raises(ToolError):
        tools["apply_patch"].preview(context, patch=begin("*** Update File: f", "-x", "+A"))
    edit, write = tools["edit"], tools["write"]
    assert edit.preview is not None
    assert write.preview is not None
    arguments = dict(edit.arguments.model_validate({"path": "f", "edits": [{"old_text": "a", "new_text": "A"}]}))
    assert "-a\n+A\n" in edit.preview(context, **arguments)
    assert edit.access is not None
    assert [(one.capability.value, one.target) for one in edit.access(**arguments)] == [("read", "f"), ("write", "f")]
    with pytest.raises(ToolError, match="read it first"):
        write.preview(context, path="f", content="x\n")
    assert "new file" in write.preview(context, path="g", content="x\n")


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", " d", "-e", "+f", "é", "\r"]), max_size=25).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""])])
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXTS, after=TEXTS)
def test_git_takes_our_diffs(before: str, after: str, tmp_path: Path) -> None:
    diff = unified_diff(before, after, "a/f", "b/f")
    (tmp_path / "f").write_bytes(before.encode())
    (tmp_path / "p").write_bytes(diff.encode())
    if diff:
        subprocess.run(["git", "apply", "--unsafe-paths", "p"], cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "f").read_bytes() == after.encode()


@settings(max_examples=300, deadline=None)
@given(before=TEXTS, after=TEXTS)
def test_our_patches_take_our_diffs_or_refuse(before: str, after: str) -> None:
    before, after = before.replace("\r", ""), after.replace("\r", "")
    diff = unified_diff(before, after, "a/f", "b/f")
    if not diff:
        return
    try:
        made = patched(before, parse_unified(diff)[0].hunks, "f").content
    except ToolError:
        return
    assert made == after
