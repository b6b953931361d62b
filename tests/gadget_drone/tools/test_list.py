from pathlib import Path

import pytest

from tests.gadget_drone.tools.conftest import Run


@pytest.fixture
def tree(project: Path) -> Path:
    for name in ("z.py", "a.py", "src/m.py", "src/deep/x.py", "src/deep/y.py", ".github/ci.yml", "node_modules/m/i.js"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / ".gadget").mkdir()
    (project / ".gadget/lock").touch()
    (project / ".gitignore").write_text("node_modules\n")
    return project


async def test_directories_come_first_and_ignored_files_not_at_all(tree: Path, run: Run) -> None:
    lines = [".github/", ".github/ci.yml", "src/", "src/deep/ (2 files)", "src/m.py", ".gitignore", "a.py", "z.py"]
    assert (await run("list")).content.splitlines() == lines


async def test_depth_and_directory_are_chosen(tree: Path, run: Run) -> None:
    assert (await run("list", depth=1)).content.splitlines()[1] == "src/ (3 files)"
    assert (await run("list", path="src", depth=3)).content == "deep/\ndeep/x.py\ndeep/y.py\nm.py"
    assert (await run("list", path=str(tree / "src/deep"))).content == "x.py\ny.py"


async def test_an_ignored_directory_can_be_listed_by_name(tree: Path, run: Run) -> None:
    assert (await run("list", path="node_modules")).content == "m/\nm/i.js"


async def test_what_cannot_be_listed_is_said(tree: Path, run: Run) -> None:
    (tree / "empty").mkdir()
    assert (await run("list", path="empty")).content == "(no files)"
    assert "is not a directory" in (await run("list", path="a.py")).content
    assert "There is no" in (await run("list", path="none")).content


async def test_a_large_directory_is_bounded(project: Path, run: Run) -> None:
    for n in range(1500):
        (project / f"{n}.txt").touch()
    lines = (await run("list")).content.splitlines()
    assert len(lines) == 1001
    assert lines[-1].startswith("[500 more entries")
