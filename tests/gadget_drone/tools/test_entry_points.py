"""Tools of other distributions, installed as pip would: a module and a `.dist-info` on the path."""

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.doctor import examine
from gadget_drone.errors import ToolError
from gadget_drone.tools.entry_points import find_tools
from gadget_drone.tools.tool import SideEffect, ToolContext
from gadget_drone.tools.toolbox import BUILT_IN, Preview, Toolbox

HOWTO = Path(__file__).parents[3] / "docs/howto/add-a-tool.md"
TAKEN = {tool.spec.name for tool in BUILT_IN}

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Takes the name of a distribution, which is its module's too, the code, and the object that is its entry point."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def install(name: str, code: str, points_to: str) -> None:
        (site / f"{name}.py").write_text(code)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[gadget.tools]\n{name} = {name}:{points_to}\n")
        modules.append(name)
        importlib.invalidate_caches()

    yield install
    for name in modules:
        sys.modules.pop(name, None)


ONE = '''
from gadget_drone.tools.tool import SideEffect, ToolContext, ToolResult, tool

@tool(effect=SideEffect.READ_ONLY)
async def {name}(context: ToolContext) -> ToolResult:
    """Do it."""
    return ToolResult("done")
'''


def of_howto(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", HOWTO.read_text(), re.S)
    assert found is not None
    return found[1]


async def test_the_tools_of_the_how_to_work(install: Install, context: ToolContext) -> None:
    ((name, target),) = tomllib.loads(of_howto("toml"))["project"]["entry-points"]["gadget.tools"].items()
    assert (name, target) == ("words", "gadget_words:TOOLS")
    install("gadget_words", of_howto("python"), "TOOLS")
    found = find_tools(TAKEN)
    assert found.problems == ()
    toolbox = Toolbox.standard(found.tools)
    assert [spec.name for spec in toolbox.specs][-2:] == ["count_words", "shout"]
    (context.project_dir / "a.txt").write_text("a few words\n")
    count = ToolCallRequest(call_id="c", name="count_words", params={"path": "a.txt", "at_least": 2})
    assert (await toolbox.run(count, context)).content == "2 words"
    assert toolbox.effect_of(count) is SideEffect.READ_ONLY
    shout = ToolCallRequest(call_id="c", name="shout", params={"path": "a.txt"})
    assert [access.capability.value for access in toolbox.accesses(shout)] == ["read", "write"]
    assert await toolbox.preview(shout, context) == Preview("A FEW WORDS\n", is_diff=False)
    assert (context.project_dir / "a.txt").read_text() == "a few words\n"
    assert not (await toolbox.run(shout, context)).is_error
    assert (context.project_dir / "a.txt").read_text() == "A FEW WORDS\n"
    absent = ToolCallRequest(call_id="c", name="shout", params={"path": "absent"})
    with pytest.raises(ToolError, match="There is no 'absent'"):
        await toolbox.preview(absent, context)


def test_nothing_installed_is_nothing_found() -> None:
    assert find_tools(TAKEN).tools == ()


@pytest.mark.parametrize(
    ("code", "points_to", "said"),
    [
        ("raise RuntimeError('broken')", "x", "cannot be loaded (RuntimeError: broken)"),
        ("import sys; sys.exit(3)", "x", "cannot be loaded: it ends the process."),
        ("x = ", "x", "cannot be loaded (SyntaxError"),
        ("", "absent", "cannot be loaded (AttributeError"),
        ("import not_there", "x", "cannot be loaded (ModuleNotFoundError"),
        ("x = 5", "x", "is no tool"),
        ("x = [5]", "x", "is no tool"),
        ("x = []", "x", "is no tool"),
        ("def x(): pass", "x", "is no tool"),
        (ONE.format(name="shell"), "shell", "brings a tool 'shell', but there is one of that name."),
        (ONE.format(name="é"), "é", "TypeError: a tool cannot be called 'é'"),
    ],
)
def test_a_broken_one_is_told_and_the_others_work(code: str, points_to: str, said: str, install: Install) -> None:
    install("aaa_broken", code, points_to)
    install("zzz_works", ONE.format(name="works"), "works")
    found = find_tools(TAKEN)
    assert [tool.spec.name for tool in found.tools] == ["works"]
    (problem,) = found.problems
    assert problem.startswith(f"The entry point 'aaa_broken' of aaa_broken 1.0 (aaa_broken:{points_to}) ")
    assert said in problem


def test_of_two_with_one_name_the_first_is_taken(install: Install) -> None:
    install("bbb", ONE.format(name="works"), "works")
    install("aaa", ONE.format(name="works"), "works")
    found = find_tools(TAKEN)
    assert len(found.tools) == 1
    assert "'bbb'" in found.problems[0]


def test_the_doctor_says_what_is_installed_and_what_is_broken(install: Install, tmp_path: Path) -> None:
    install("aaa_broken", "raise RuntimeError('broken')", "x")
    install("zzz_works", ONE.format(name="works"), "works")
    findings = [finding for finding in examine(tmp_path, "http://127.0.0.1:9") if finding.what == "tools"]
    assert [(finding.is_well, finding.is_fatal) for finding in findings] == [(False, False), (True, False)]
    assert findings[1].says == "installed: works"
