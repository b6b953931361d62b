import stat
import time
from pathlib import Path

import pytest

from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\nb\nc\n", "b", "B", "a\nB\nc\n"),
        ("a\nb", "b", "B", "a\nB"),
        ("a\nb", "b\n", "B\n", "a\nB"),
        ("a\nb\n", "b\n", "", "a\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"),
        ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "x\n", "x\n"),
        ("a\r\nb\nc\nd\n", "b\nc", "x\ny", "a\r\nx\ny\nd\n"),
        ("\ufeffa\nb\n", "a", "x", "\ufeffx\nb\n"),
        ("\ufeffa\nb\n", "\ufeffa", "x", "\ufeffx\nb\n"),
        ("a.c abc\n", "a.c", r"\1\g<0>", "\\1\\g<0> abc\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "\nx", "a\r\nx\r\nc\r\n"),
        ("a\r\nb\r\nc", "c\n", "x\n", "a\r\nb\r\nx"),
        ("a\r\nb", "b\r\n", "x\r\n", "a\r\nx"),
        ("\n\n", "\n\n", "\n", "\n"),
        ("\tü\n", "\tü", "", "\n"),
    ],
)
async def test_the_match_alone_changes(before: str, old: str, new: str, after: str, project: Path, run: Run) -> None:
    (project / "f").write_bytes(before.encode())
    result = await run("edit", path="f", old_text=old, new_text=new)
    assert not result.is_error, result.content
    assert (project / "f").read_bytes() == after.encode()


async def test_the_mode_stays(project: Path, run: Run) -> None:
    (project / "f").write_text("a")
    (project / "f").chmod(0o755)
    await run("edit", path="f", old_text="a", new_text="b")
    assert stat.S_IMODE((project / "f").stat().st_mode) == 0o755


async def test_an_ambiguous_match_names_its_lines_and_changes_nothing(project: Path, run: Run) -> None:
    (project / "f").write_text("x\ny\nx\nz\nx\n")
    result = await run("edit", path="f", old_text="x", new_text="q")
    assert result.is_error
    assert "3 times, at lines 1, 3, 5" in result.content
    assert (project / "f").read_text() == "x\ny\nx\nz\nx\n"
    result = await run("edit", path="f", old_text="x", new_text="q", replace_all=True)
    assert result.content == "Replaced 3 in f, at line 1, 3, 5."
    assert (project / "f").read_text() == "q\ny\nq\nz\nq\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def two():\n    return 3\n", "at lines 4-5:\n4\tdef two():\n5\t    return 2"),
        ("def two():\n  return 2\n", "at lines 4-5 (only whitespace differs)"),
        ("def twoo():", "at lines 4-4"),
        ("~~~~~~~~~~~", "Nothing in the file is similar"),
    ],
)
async def test_a_missing_match_shows_the_nearest(old: str, said: str, project: Path, run: Run) -> None:
    (project / "f.py").write_text("def one():\n    return 1\n\ndef two():\n    return 2\n")
    result = await run("edit", path="f.py", old_text=old, new_text="")
    assert result.is_error
    assert said in result.content


async def test_looking_for_the_nearest_is_bounded(project: Path, run: Run) -> None:
    (project / "f").write_text("".join(f"line {n} {'ab' * 100}\n" for n in range(200_000)))
    started = time.monotonic()
    for old in ("a\n" * 5_000_000, "line x " + "ba" * 100, "nothing\n" * 1000, "ab" * 100_000):
        result = await run("edit", path="f", old_text=old, new_text="")
        assert result.is_error
        assert len(result.content) < 12_000
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("data", "said"), [(b"a\0b", "binary"), (b"a\xff", "not UTF-8"), (b"a" * (32 * 2**20 + 1), "larger than 32 MiB")]
)
async def test_what_is_not_editable_text_is_refused(data: bytes, said: str, project: Path, run: Run) -> None:
    (project / "f").write_bytes(data)
    result = await run("edit", path="f", old_text="a", new_text="b")
    assert result.is_error
    assert said in result.content
    assert (project / "f").read_bytes() == data


async def test_one_edit_may_be_written_beside_the_path(project: Path, run: Run) -> None:
    (project / "f").write_text("a\nb\n")
    assert not (await run("edit", path="f", old_text="a", new_text="A", replace_all=True)).is_error
    assert not (await run("edit", path="f", edits=[{"old_text": "b", "new_text": "B"}])).is_error
    assert (project / "f").read_text() == "A\nB\n"
    assert not (await run("edit", path="f", edits={"old_text": "A", "new_text": "a"})).is_error
    assert not (await run("edit", path="f", edits='[{"old_text": "a", "new_text": "A"}]')).is_error
    assert "valid list" in (await run("edit", path="f", edits="[")).content
    both = await run("edit", path="f", old_text="A", new_text="x", edits=[{"old_text": "B", "new_text": "y"}])
    assert both.is_error
    assert (await run("edit", path="f", old_text="A")).is_error
    schema = next(spec.parameters for spec in Toolbox.standard().specs if spec.name == "edit")
    assert schema["required"] == ["path", "edits"]
    assert schema["properties"].keys() == {"path", "edits"}


async def test_a_change_that_is_none_is_refused(project: Path, run: Run) -> None:
    (project / "f").write_text("a")
    assert (await run("edit", path="f", old_text="a", new_text="a")).is_error
    assert (await run("edit", path="f", old_text="", new_text="a")).is_error
