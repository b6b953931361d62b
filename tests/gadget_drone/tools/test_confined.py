import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.disk.confined import relative_target
from gadget_drone.errors import ToolError
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.conftest import git
from tests.gadget_drone.tools.conftest import Run

FILE_TOOLS = {
    "read": {},
    "write": {"content": "taken over"},
    "edit": {"old_text": "outside", "new_text": "taken over"},
}


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("way", ["dots", "dots_inside", "absolute", "file_link", "absolute_link", "directory_link"])
async def test_no_tool_leaves_the_project(tool: str, way: str, project: Path, run: Run) -> None:
    secret = project.parent / "secret.txt"
    (project / "sub").mkdir()
    (project / "file_link").symlink_to("../secret.txt")
    (project / "absolute_link").symlink_to(secret)
    (project / "directory_link").symlink_to("..")
    path = {
        "dots": "../secret.txt",
        "dots_inside": "sub/../../secret.txt",
        "absolute": str(secret),
        "directory_link": "directory_link/secret.txt",
    }.get(way, way)
    result = await run(tool, path=path, **FILE_TOOLS[tool])
    assert result.is_error
    assert "leads out of the project" in result.content
    assert secret.read_text() == "outside"


@pytest.mark.parametrize("tool", ["list", "search"])
@pytest.mark.parametrize("path", ["..", "out", "/"])
async def test_no_listing_or_search_leaves_the_project(tool: str, path: str, project: Path, run: Run) -> None:
    (project / "out").symlink_to("..")
    result = await run(tool, path=path, **({"pattern": "outside"} if tool == "search" else {}))
    assert result.is_error
    assert "leads out of the project" in result.content


async def test_directories_are_not_made_outside(project: Path, run: Run) -> None:
    (project / "out").symlink_to("..")
    for path in ("../new/x", "out/new/x", "sub/../../new/x"):
        assert (await run("write", path=path, content="x")).is_error
    assert not (project.parent / "new").exists()


async def test_symlinks_and_absolute_paths_inside_work(project: Path, run: Run) -> None:
    (project / "real.txt").write_text("one\n")
    (project / "link").symlink_to("real.txt")
    assert not (await run("edit", path="link", old_text="one", new_text="two")).is_error
    assert (project / "link").is_symlink()
    assert (project / "real.txt").read_text() == "two\n"
    assert (await run("read", path=str(project / "real.txt"))).content == "1\ttwo\n"


@pytest.mark.parametrize("tool", FILE_TOOLS)
@pytest.mark.parametrize("kind", ["fifo", "device", "socket", "directory"])
async def test_only_regular_files_are_touched(tool: str, kind: str, project: Path, run: Run) -> None:
    place = project / "special"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        try:
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root may make a device")
    elif kind == "socket":
        server = await asyncio.start_unix_server(lambda reader, writer: None, str(place))
        server.close()
    else:
        place.mkdir()
    before = place.lstat().st_ino
    async with asyncio.timeout(5):
        result = await run(tool, path="special", **FILE_TOOLS[tool])
    assert result.is_error
    assert place.lstat().st_ino == before


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/new",
        ".gadget/workspace.json",
        "git_link/config",
        "config_link",
        "sub/.git/config",
        ".git",
        "sub/.gadget",
    ],
)
async def test_git_and_gadget_directories_are_not_written(path: str, project: Path, run: Run) -> None:
    (project / "git_link").symlink_to(".git")
    (project / "config_link").symlink_to(".git/config")
    (project / ".gadget").mkdir()
    result = await run("write", path=path, content="[core]\nfsmonitor = evil\n")
    assert result.is_error
    assert "which tools may not change" in result.content or path == ".git"
    assert (project / ".git/config").read_text() == "[core]\n"
    assert not (project / ".git/hooks/pre-commit").exists()
    assert not (project / "sub/.git").exists()
    assert (await run("edit", path="config_link", old_text="core", new_text="evil")).is_error


@pytest.mark.parametrize("kind", ["separate", "bare", "bare with a linked HEAD", "bare with linked objects"])
async def test_a_git_directory_of_any_name_is_not_written(kind: str, project: Path, run: Run) -> None:
    (project / "deep").mkdir()
    if kind == "separate":
        git(project / "deep", "init", "-q", "--separate-git-dir", str(project / "deep/other"), "work")
    else:
        git(project / "deep", "init", "-q", "--bare", "other")
    other = project / "deep/other"
    if kind.endswith("HEAD"):
        (other / "HEAD").unlink()
        (other / "HEAD").symlink_to("refs/heads/main")
    elif kind.endswith("objects"):
        (other / "objects").rename(project / "kept")
        (other / "objects").symlink_to("../../kept")
    (project / "link").symlink_to("deep/other")
    before = (other / "config").read_text()
    for path in ("deep/other/config", "link/config", "deep/other/hooks/post-receive", "link/new/x"):
        result = await run("write", path=path, content="[core]\nfsmonitor = evil\n")
        assert "is inside other, which tools may not change" in result.content, path
    edit = await run("edit", path="link/config", old_text="[core]", new_text="[core]\nfsmonitor = evil")
    assert "which tools may not change" in edit.content
    for head in ("Delete File: deep/other/config", "Update File: deep/other/config\n*** Move to: config"):
        patch = await run("apply_patch", patch=f"*** Begin Patch\n*** {head}\n@@\n-[core]\n+[x]\n*** End Patch\n")
        assert patch.is_error, head
    assert (other / "config").read_text() == before
    assert not (other / "new").exists()
    assert not (other / "hooks/post-receive").exists()
    assert not (await run("write", path="deep/beside", content="x")).is_error


async def test_a_hard_link_into_git_is_cut_not_followed(project: Path, run: Run) -> None:
    os.link(project / ".git/config", project / "innocent")
    await run("write", path="innocent", content="evil")
    assert (project / ".git/config").read_text() == "[core]\n"


@pytest.mark.parametrize("path", ["a\0b", "x/" * 5000, "n" * 300])
async def test_impossible_paths_are_plain_errors(path: str, run: Run) -> None:
    for tool, rest in FILE_TOOLS.items():
        result = await run(tool, path=path, **rest)
        assert result.is_error
        assert len(result.content) < 400
        assert "failed:" not in result.content


def test_a_target_is_what_its_links_point_at(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub/f").touch()
    (project / "link").symlink_to("sub")
    (project / "nowhere").symlink_to("sub/none")
    (project / "out").symlink_to("..")
    for path, target in {
        "link/f": "sub/f",
        "./sub/../link/new/x": "sub/new/x",
        "sub/../f": "f",
        str(project / "link"): "sub",
        "nowhere": "nowhere",  # writing there replaces the link
        ".": ".",
    }.items():
        assert relative_target(project, path) == target
    for path in ("out/secret.txt", "../x", "out", "sub/../../x"):
        with pytest.raises(ToolError, match="leads out"):
            relative_target(project, path)


async def test_a_failed_write_leaves_nothing_behind(project: Path, run: Run) -> None:
    (project / "directory").mkdir()
    assert (await run("write", path="directory", content="x")).is_error
    assert (await run("write", path="directory/", content="x")).is_error
    assert sorted(os.listdir(project)) == [".git", "directory"]
    assert os.listdir(project / "directory") == []


async def test_a_path_that_was_not_judged_is_not_opened(project: Path, context: ToolContext) -> None:
    (project / "f").write_text("x")
    call = ToolCallRequest(call_id="c1", name="read", params={"path": "f"})
    result = await Toolbox.standard().run(call, replace(context, targets={"other": "other"}))
    assert "was not judged" in result.content
