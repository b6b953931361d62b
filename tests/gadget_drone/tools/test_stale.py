"""What happens when a file changed since the model read it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_drone.editing.seen import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, SeenFiles
from gadget_drone.tools.tool import ToolContext
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.tools.conftest import Run

LINES = "".join(f"line {n}\n" for n in range(1, 21))
FIRST = [{"old_text": "line 2\n", "new_text": "LINE 2\n"}]
PATCH = "*** Begin Patch\n*** Update File: f\n line 1\n-line 2\n+LINE 2\n*** End Patch"


async def test_a_file_that_was_not_read_is_not_overwritten(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    result = await run("write", path="f", content="mine\n")
    assert result.is_error
    assert "read it first" in result.content
    assert (project / "f").read_text() == LINES
    assert not (await run("write", path="f", content=LINES)).is_error
    assert not (await run("edit", path="f", edits=FIRST)).is_error
    assert not (await run("write", path="f", content="mine\n")).is_error
    assert (project / "f").read_text() == "mine\n"


async def test_an_empty_file_may_be_written_unread(project: Path, run: Run) -> None:
    (project / "f").touch()
    assert not (await run("write", path="f", content="mine\n")).is_error


@pytest.mark.parametrize("tool", ["edit", "apply_patch", "write"])
async def test_changes_that_do_not_touch_are_merged_and_told(tool: str, project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    (project / "f").write_text(LINES.replace("line 18", "line 18 of the user"))
    calls: dict[str, dict[str, Any]] = {
        "edit": {"path": "f", "edits": FIRST},
        "apply_patch": {"patch": PATCH},
        "write": {"path": "f", "content": LINES.replace("line 2\n", "LINE 2\n")},
    }
    result = await run(tool, **calls[tool])
    assert not result.is_error, result.content
    assert "-line 18\n+line 18 of the user\n" in result.content
    wanted = LINES.replace("line 18", "line 18 of the user").replace("line 2\n", "LINE 2\n")
    assert (project / "f").read_text() == wanted
    assert "changed the file since" not in (await run("edit", path="f", edits=[_edit("line 5\n", "five\n")])).content


@pytest.mark.parametrize("tool", ["edit", "apply_patch", "write"])
async def test_changes_that_touch_are_refused_and_told(tool: str, project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    theirs = LINES.replace("line 2\n", "line 2, said the user\n")
    (project / "f").write_text(theirs)
    calls: dict[str, dict[str, Any]] = {
        "edit": {"path": "f", "edits": FIRST},
        "apply_patch": {"patch": PATCH},
        "write": {"path": "f", "content": LINES.replace("line 2\n", "LINE 2\n")},
    }
    result = await run(tool, **calls[tool])
    assert result.is_error
    assert "+line 2, said the user\n" in result.content
    assert "read the file again" in result.content
    assert (project / "f").read_text() == theirs
    await run("read", path="f")
    assert not (await run("write", path="f", content="mine\n")).is_error


async def test_what_the_model_learnt_from_a_command_may_be_edited(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    await run("shell", command="sed -i 's/line 7/seven/' f")
    result = await run("edit", path="f", edits=[_edit("seven\n", "7\n")])
    assert not result.is_error, result.content
    assert (project / "f").read_text() == LINES.replace("line 7", "7")
    assert "+seven\n" in result.content


async def test_a_copy_that_the_user_made_does_not_draw_the_edit(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    (project / "f").write_text("line 2\nline 2 again\n\n" + LINES)
    result = await run("edit", path="f", edits=FIRST)
    assert result.is_error or (project / "f").read_text() == "line 2\nline 2 again\n\n" + LINES.replace(
        "line 2\n", "LINE 2\n"
    )


async def test_merging_keeps_endings_encoding_and_the_missing_newline(project: Path, run: Run) -> None:
    base = "\ufeff" + LINES.replace("\n", "\r\n").removesuffix("\r\n")
    (project / "f").write_bytes(base.encode("utf-16-le"))
    await run("read", path="f")
    (project / "f").write_bytes(base.replace("line 18", "achtzehn").encode("utf-16-le"))
    assert not (await run("edit", path="f", edits=FIRST)).is_error
    wanted = base.replace("line 18", "achtzehn").replace("line 2\r\n", "LINE 2\r\n")
    assert (project / "f").read_bytes() == wanted.encode("utf-16-le")


async def test_another_encoding_is_a_change_that_touches(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    (project / "f").write_bytes(("\ufeff" + LINES).encode("utf-16-le"))
    result = await run("edit", path="f", edits=FIRST)
    assert result.is_error
    assert "UTF-8 before, UTF-16 now" in result.content


async def test_a_large_file_that_changed_has_to_be_read_again(project: Path, run: Run) -> None:
    large = LINES + "x\n" * (MAX_FILE_BYTES // 2)
    (project / "f").write_text(large)
    await run("read", path="f", end_line=3)
    (project / "f").write_text(large.replace("line 18", "achtzehn"))
    assert "read it again" in (await run("edit", path="f", edits=FIRST)).content
    await run("read", path="f", end_line=3)
    assert not (await run("edit", path="f", edits=FIRST)).is_error


async def test_a_file_that_changed_is_not_deleted(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    await run("read", path="f")
    (project / "f").write_text("precious\n")
    delete = "*** Begin Patch\n*** Delete File: f\n*** End Patch"
    assert "changed on disk" in (await run("apply_patch", patch=delete)).content
    await run("read", path="f")
    assert not (await run("apply_patch", patch=delete)).is_error
    assert not (project / "f").exists()


async def test_a_drone_that_restarts_knows_nothing_and_goes_on(project: Path, context: ToolContext) -> None:
    (project / "f").write_text(LINES)
    fresh = replace(context, seen=SeenFiles())
    call = ToolCallRequest(call_id="c", name="edit", params={"path": "f", "edits": FIRST})
    assert not (await Toolbox.standard().run(call, fresh)).is_error


async def test_all_names_of_a_file_are_one(project: Path, run: Run) -> None:
    (project / "f").write_text(LINES)
    (project / "link").symlink_to("f")
    await run("read", path="link")
    assert not (await run("write", path="./f", content="mine\n")).is_error
    assert not (await run("write", path=str(project / "f"), content="mine too\n")).is_error
    assert os.path.islink(project / "link")


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\nc\n", "a\nb\nd\n", b"a\r\nb\nd\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9\n", "th\u00e9\n", b"th\xe9\n"),
        (b"a\rb\r", "a\nc\n", b"a\rc\r"),
        (b"a\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a", "b\n", b"b\n"),
    ],
)
async def test_writing_all_of_a_file_keeps_its_form(
    before: bytes, content: str, after: bytes, project: Path, run: Run
) -> None:
    (project / "f").write_bytes(before)
    await run("read", path="f")
    assert not (await run("write", path="f", content=content)).is_error
    assert (project / "f").read_bytes() == after


def test_what_is_kept_is_bounded() -> None:
    seen = SeenFiles()
    for number in range(MAX_FILES + 100):
        seen.note(str(number), b"x")
    assert len(seen) == MAX_FILES
    assert seen.get("0") is None
    for number in range(MAX_BYTES // MAX_FILE_BYTES + 4):
        seen.note(f"large {number}", bytes([number]) * MAX_FILE_BYTES)
    assert seen.kept_bytes <= MAX_BYTES
    oldest = seen.get("large 0")
    assert oldest is not None
    assert oldest.content is None
    assert oldest.is_of(b"\0" * MAX_FILE_BYTES)
    seen.note("huge", b"x" * (MAX_FILE_BYTES + 1))
    huge = seen.get("huge")
    assert huge is not None
    assert huge.content is None
    for path in list(seen._files):
        seen.forget(path)
    assert (len(seen), seen.kept_bytes) == (0, 0)


def _edit(old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new}
