"""Every case of the corpus, through the toolbox, on real files: wrong place must be 0."""

import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.processes.supervised import Supervisor
from gadget_drone.tools.tool import ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox
from tests.tools import patches, real_files, written
from tests.tools.case import Case


@cache
def corpus() -> tuple[Case, ...]:
    return (*real_files.cases(), *written.cases(), *patches.cases())


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


async def play(case: Case, directory: Path) -> tuple[ToolResult, dict[str, bytes]]:
    """The result, and all files afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, data in case.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    supervisor = Supervisor()
    try:
        context = ToolContext(directory, lambda _: None, directory.parent / "spool", supervisor)
        call = ToolCallRequest(call_id="c", name=case.tool, params=dict(case.params))
        result = await Toolbox.standard().run(call, context)
    finally:
        supervisor.close()
    return result, contents(directory)


def expected(case: Case) -> dict[str, bytes]:
    after = {**case.files, **(case.after or {})}
    return {name: data for name, data in after.items() if data is not None}


def judged(case: Case, result: ToolResult, after: dict[str, bytes]) -> str:
    if result.is_error:
        if after != dict(case.files):
            return "refused, but changed"
        return "right" if case.after is None else "refused"
    return "right" if case.after is not None and after == expected(case) else "wrong place"


@pytest.mark.parametrize("case", corpus(), ids=lambda case: case.name)
async def test_a_case(case: Case, tmp_path: Path) -> None:
    result, after = await play(case, tmp_path / "project")
    assert judged(case, result, after) == "right", f"{result.content}\n{after if len(str(after)) < 4000 else ''}"
    assert case.says in result.content
    assert " failed: " not in result.content


@pytest.mark.timeout(600)
async def test_no_case_of_the_corpus_is_edited_in_a_wrong_place(tmp_path: Path) -> None:
    assert len(corpus()) >= 200
    assert len({case.name for case in corpus()}) == len(corpus())
    verdicts = Counter[str]()
    for case in corpus():
        verdicts[judged(case, *await play(case, tmp_path / "project"))] += 1
    assert verdicts["wrong place"] == verdicts["refused, but changed"] == 0
    assert verdicts == {"right": len(corpus())}
