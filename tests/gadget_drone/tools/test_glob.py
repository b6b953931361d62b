import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.tools.path_glob import PathGlob
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run

FILES = (
    "a.py",
    "z.gen.py",
    "src/b.py",
    "src/c.ts",
    "src/d.tsx",
    "src/deep/e.py",
    "src/.env",
    ".env",
    "keys/k.pem",
    "out/f.py",
    "a[1].txt",
)


@pytest.fixture
def tree(project: Path) -> Path:
    for age, name in enumerate(FILES):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("needle\n")
        os.utime(project / name, (1e9 - age, 1e9 - age))
    (project / ".gitignore").write_text("out/\n*.gen.py\n")
    return project


async def found(run: Run, **params: Any) -> list[str]:
    result = await run("glob", **params)
    assert not result.is_error, result
    return result.content.splitlines()


async def test_files_are_found_by_name_without_ignored_ones(tree: Path, run: Run) -> None:
    assert await found(run, pattern="**/*.py") == ["a.py", "src/b.py", "src/deep/e.py"]
    assert await found(run, pattern="*.py") == ["a.py", "src/b.py", "src/deep/e.py"]
    assert await found(run, pattern="src/*.{ts,tsx}") == ["src/c.ts", "src/d.tsx"]
    assert await found(run, pattern="absent") == ["No files."]


async def test_a_pattern_is_relative_to_the_path_and_answers_to_the_project(tree: Path, run: Run) -> None:
    assert await found(run, pattern="*/*.py", path="src") == ["src/deep/e.py"]
    assert await found(run, pattern="/deep/*", path=str(tree / "src")) == ["src/deep/e.py"]
    assert await found(run, pattern="f.py", path="out") == ["out/f.py"]


async def test_the_newest_come_first_when_asked(tree: Path, run: Run) -> None:
    assert await found(run, pattern="**/*.py", sort="newest") == ["a.py", "src/b.py", "src/deep/e.py"]
    os.utime(tree / "src/deep/e.py", (2e9, 2e9))
    assert (await found(run, pattern="**/*.py", sort="newest"))[0] == "src/deep/e.py"


async def test_no_pattern_reaches_git_or_out_of_the_project(tree: Path, run: Run) -> None:
    assert await found(run, pattern=".git/**") == ["No files."]
    assert await found(run, pattern="../**") == ["No files."]
    assert (await run("glob", pattern="*", path="..")).is_error
    assert "is not a directory" in (await run("glob", pattern="*", path="a.py")).content


async def test_many_files_are_bounded(project: Path, run: Run) -> None:
    for n in range(600):
        (project / f"{n}.txt").touch()
    lines = await found(run, pattern="*.txt")
    assert len(lines) == 501
    assert lines[-1].startswith("[there is more")


async def test_what_is_hidden_is_left_out_of_every_tool(tree: Path, context: ToolContext) -> None:
    hidden = replace(context, hidden=(".env*", "/keys/**", "src/deep/"))

    async def said(name: str, /, **params: Any) -> str:
        return (await Toolbox.standard().run(ToolCallRequest(call_id="c", name=name, params=params), hidden)).content

    for path in (".", "src"):
        for content in (
            await said("glob", pattern="**", path=path),
            await said("list", depth=9, path=path),
            await said("search", pattern="needle", path=path),
            await said("search", pattern="needle", path=path, glob="*.{py,env,pem}", files_only=True),
            await said("search", pattern="needle", path=path, glob=".env"),
        ):
            assert ".env" not in content
            assert "k.pem" not in content
            assert "e.py" not in content
    assert "src/b.py" in await said("glob", pattern="**")


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.py", ("a.py", "x/y/a.py", ".py"), ("a.pyc", "a.py/x")),
        ("src/**", ("src/a", "src/a/b"), ("src", "a/src/b")),
        ("src/", ("src/a", "src/a/b"), ("src",)),
        ("**/test_*.py", ("test_a.py", "a/b/test_.py"), ("atest_a.py",)),
        ("a/**/b", ("a/b", "a/x/b", "a/x/y/b"), ("a/xb", "b")),
        ("a/*/b", ("a/x/b",), ("a/b", "a/x/y/b")),
        ("./a.py", ("a.py", "x/a.py"), ()),
        ("/a.py", ("a.py",), ("x/a.py",)),
        ("{a,b{c,d}}.py", ("a.py", "bc.py", "bd.py"), ("b.py", "c.py")),
        ("a?[0-9][!a].x", ("ab1b.x",), ("ab1a.x", "a/1b.x")),
        ("*.{py", ("a.{py",), ("a.py",)),
        ("[", ("[",), ("a",)),
        ("a\nb", ("a\nb",), ("a",)),
    ],
)
def test_how_patterns_fit(pattern: str, fits: tuple[str, ...], fits_not: tuple[str, ...]) -> None:
    compiled = PathGlob(pattern)
    assert [path for path in fits if not compiled.fits(path)] == []
    assert [path for path in fits_not if compiled.fits(path)] == []


def test_no_pattern_takes_long() -> None:
    started = time.monotonic()
    long = PathGlob("*a" * 400 + "b")
    deep = PathGlob("**/a/" * 24 + "**/b")
    assert not long.fits("a" * 4000)
    assert not deep.fits("a/" * 100 + "c")
    assert time.monotonic() - started < 5
    for too_much in ("{a,b}" * 20, "a/" * 100):
        with pytest.raises(ValueError, match="more than"):
            PathGlob(too_much)
