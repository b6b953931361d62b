from pathlib import Path

import pytest

from tests.gadget_drone.tools.conftest import Run


@pytest.fixture
def tree(project: Path) -> Path:
    (project / "src").mkdir()
    (project / "src/a.py").write_text("one\nneedle here\nthree\n")
    (project / "b.txt").write_text("a needle\n")
    (project / ".env.example").write_text("needle=1\n")
    (project / "out").mkdir()
    (project / "out/c.py").write_text("needle\n")
    (project / ".gitignore").write_text("out/\n")
    (project / ".git/config").write_text("needle\n")
    return project


async def test_matches_come_by_file_without_ignored_ones(tree: Path, run: Run) -> None:
    found = (await run("search", pattern="ne+dle")).content
    assert found == ".env.example\n1:needle=1\n\nb.txt\n1:a needle\n\nsrc/a.py\n2:needle here"


async def test_glob_path_and_context_narrow_and_widen(tree: Path, run: Run) -> None:
    assert (await run("search", pattern="needle", glob="*.py")).content == "src/a.py\n2:needle here"
    assert (await run("search", pattern="needle", path="b.txt")).content == "b.txt\n1:a needle"
    around = await run("search", pattern="needle", path="src", context_lines=1)
    assert around.content == "src/a.py\n1-one\n2:needle here\n3-three"


@pytest.mark.parametrize("glob", ["*", "**/*", ".git/**"])
async def test_no_glob_reaches_ignored_directories_or_git(glob: str, tree: Path, run: Run) -> None:
    found = (await run("search", pattern="needle", glob=glob)).content
    assert "out/" not in found
    assert ".git/" not in found


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(tree: Path, run: Run) -> None:
    (tree / "opts").write_text("--pre=evil\n")
    assert (await run("search", pattern="--pre=evil")).content == "opts\n1:--pre=evil"
    assert (await run("search", pattern="x", glob="--pre=evil")).content == "No matches."


async def test_a_configuration_file_of_the_users_is_not_read(
    tree: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "rc").write_text("--files-with-matches\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rc"))
    assert "2:needle here" in (await run("search", pattern="needle here")).content


async def test_errors_and_nothing_are_told_apart(tree: Path, run: Run) -> None:
    assert (await run("search", pattern="absent")).content == "No matches."
    bad = await run("search", pattern="(")
    assert bad.is_error
    assert "unclosed group" in bad.content


async def test_a_flood_of_matches_is_bounded(tree: Path, run: Run) -> None:
    (tree / "many").write_text("needle\n" * 100_000)
    (tree / "wide").write_text("needle" * 1_000_000)
    found = await run("search", pattern="needle")
    assert not found.is_error
    assert len(found.content.splitlines()) <= 301
    assert found.content.endswith("[there is more: narrow it down with path, glob or a longer pattern]")
    assert len((await run("search", pattern="needle", path="wide")).content) < 1000


async def test_only_the_names_of_files_and_any_case_on_demand(tree: Path, run: Run) -> None:
    assert (await run("search", pattern="needle", files_only=True)).content == ".env.example\nb.txt\nsrc/a.py"
    assert (await run("search", pattern="NEEDLE")).content == "No matches."
    found = await run("search", pattern="NEEDLE", ignore_case=True, files_only=True)
    assert found.content == ".env.example\nb.txt\nsrc/a.py"
