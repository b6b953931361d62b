import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.checkpoints.store import REFS
from gadget_drone.disk import confined
from gadget_drone.files import places, writing
from tests.gadget_drone.conftest import git
from tests.gadget_drone.files.conftest import Room

OTHER = "0" * 64


async def refused(asked: object) -> ErrorCode:
    with pytest.raises(GadgetError) as error:
        await asked  # type: ignore[misc]
    return error.value.code


async def test_a_file_is_made_with_its_directories_and_replaced_with_its_mode(room: Room) -> None:
    version = await room.write("a/b/run.sh", b"one\n")
    file = room.dir / "a/b/run.sh"
    assert file.read_bytes() == b"one\n"
    file.chmod(0o750)
    assert await room.write("a/b/run.sh", b"two\n", version) == await room.version("a/b/run.sh")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"two\n", 0o750)
    assert os.listdir(file.parent) == ["run.sh"]


async def test_a_git_directory_of_any_name_stays_as_it_is(room: Room) -> None:
    git(room.dir, "init", "-q", "--bare", "deep/other")
    (room.dir / "hook").write_bytes(b"evil")
    version = await room.version("deep/other/config")
    before = (room.dir / "deep/other/config").read_bytes()
    for asked in (
        room.write("deep/other/config", b"evil", version),
        room.write("deep/other/hooks/post-receive", b"evil"),
        room.rename("hook", "deep/other/hooks/post-receive"),
        room.rename("deep/other/config", "config"),
        room.rename("deep/other", "other"),
        room.delete("deep/other/config", version),
        room.delete("deep/other", recursive=True),
        room.delete("deep", recursive=True),
    ):
        assert await refused(asked) is ErrorCode.NOT_ALLOWED
    assert (room.dir / "deep/other/config").read_bytes() == before
    assert not (room.dir / "deep/other/hooks/post-receive").exists()


async def test_what_is_on_disk_is_not_lost(room: Room) -> None:
    version = await room.write("f", b"one")
    (room.dir / "f").write_bytes(b"by somebody else")
    assert await refused(room.write("f", b"two", version)) is ErrorCode.FILE_CHANGED
    assert await refused(room.write("f", b"two")) is ErrorCode.ALREADY_EXISTS
    assert (room.dir / "f").read_bytes() == b"by somebody else"
    (room.dir / "f").unlink()
    assert await refused(room.write("f", b"two", version)) is ErrorCode.FILE_CHANGED
    assert await refused(room.write("gone/f", b"two", version)) is ErrorCode.FILE_CHANGED
    assert os.listdir(room.dir) == [".git"]


async def test_of_two_saves_at_once_one_wins(room: Room) -> None:
    version = await room.write("f", b"one")
    for content in ([b"two", b"three"], [b"x" * 2_000_000, b"y" * 2_000_000]):
        done = await asyncio.gather(*(room.write("f", each, version) for each in content), return_exceptions=True)
        [lost] = [each for each in done if isinstance(each, GadgetError)]
        assert lost.code is ErrorCode.FILE_CHANGED
        [version] = [each for each in done if isinstance(each, str)]
        assert (room.dir / "f").read_bytes() in content
    made = await asyncio.gather(*(room.write("g", each) for each in (b"1", b"2", b"3")), return_exceptions=True)
    assert sorted(each.code for each in made if isinstance(each, GadgetError)) == ["alreadyExists"] * 2


async def test_a_file_that_appears_or_changes_at_the_last_moment_is_kept(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = await room.write("f", b"one")

    def meanwhile(*arguments: object, **options: object) -> object:
        (room.dir / "f").write_bytes(b"theirs")
        return confined.beside(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "beside", meanwhile)
    assert await refused(room.write("f", b"two", version)) is ErrorCode.FILE_CHANGED
    (room.dir / "f").unlink()
    assert await refused(room.write("f", b"two")) is ErrorCode.ALREADY_EXISTS
    assert (room.dir / "f").read_bytes() == b"theirs"
    assert sorted(os.listdir(room.dir)) == [".git", "f"]


REFUSED = [
    ("link", ErrorCode.INVALID_REQUEST),
    ("link_out", ErrorCode.INVALID_REQUEST),
    ("dir_out/new", ErrorCode.NOT_ALLOWED),
    ("../new", ErrorCode.INVALID_REQUEST),
    ("/new", ErrorCode.INVALID_REQUEST),
    (".", ErrorCode.INVALID_REQUEST),
    (".git/hooks/pre-commit", ErrorCode.NOT_ALLOWED),
    (".GIT/config", ErrorCode.NOT_ALLOWED),
    ("sub/.git", ErrorCode.NOT_ALLOWED),
    ("git_link/config", ErrorCode.NOT_ALLOWED),
    (".gadget/workspace.json", ErrorCode.NOT_ALLOWED),
    ("sub", ErrorCode.INVALID_REQUEST),
    ("pipe", ErrorCode.INVALID_REQUEST),
    ("file/below", ErrorCode.INVALID_REQUEST),
]
RENAMED = ("link", "link_out", "pipe", "sub")
"""What it is does not matter to a rename."""


@pytest.mark.parametrize(("path", "code"), REFUSED)
async def test_nothing_else_is_written(path: str, code: ErrorCode, room: Room) -> None:
    _dangers(room.dir)
    before = _tree(room.dir)
    assert await refused(room.write(path, b"x", OTHER)) in (code, ErrorCode.FILE_CHANGED)
    assert await refused(room.write(path, b"x")) in (code, ErrorCode.ALREADY_EXISTS)
    assert _tree(room.dir) == before


@pytest.mark.parametrize(
    ("path", "code"), [each for each in REFUSED if each[0] not in ("link", "link_out", "pipe", "sub")]
)
async def test_nothing_else_is_renamed_or_deleted(path: str, code: ErrorCode, room: Room) -> None:
    _dangers(room.dir)
    before = _tree(room.dir)
    allowed = (code, ErrorCode.NOT_FOUND)
    assert await refused(room.rename(path, "elsewhere")) in allowed
    assert await refused(room.rename("file2", path)) in (*allowed, ErrorCode.ALREADY_EXISTS)
    assert await refused(room.delete(path, recursive=True)) in allowed
    assert _tree(room.dir) == before


async def test_a_rename_moves_and_never_overwrites(room: Room) -> None:
    await room.write("d/f", b"one")
    await room.write("g", b"two")
    (room.dir / "empty").mkdir()
    for to in ("g", "empty", "d"):
        assert await refused(room.rename("d/f", to)) is ErrorCode.ALREADY_EXISTS
    assert await refused(room.rename("d", "empty")) is ErrorCode.ALREADY_EXISTS
    assert await refused(room.rename("d", "d/below")) is ErrorCode.INVALID_REQUEST
    assert await refused(room.rename("nothing", "h")) is ErrorCode.NOT_FOUND
    await room.rename("d", "new/place")
    assert (room.dir / "new/place/f").read_bytes() == b"one"
    (room.dir / "link").symlink_to("g")
    await room.rename("link", "moved")
    assert os.readlink(room.dir / "moved") == "g"


async def test_a_rename_never_overwrites_where_the_system_has_no_such_rename(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined.sys, "platform", "darwin")  # type: ignore[attr-defined]
    confined._has_openat2.cache_clear()
    try:
        await room.write("f", b"one")
        await room.write("g", b"two")
        assert await refused(room.rename("f", "g")) is ErrorCode.ALREADY_EXISTS
        await room.rename("f", "h")
        assert (room.dir / "h").read_bytes() == b"one"
    finally:
        confined._has_openat2.cache_clear()


async def test_a_file_is_deleted_only_if_it_is_what_was_meant(room: Room) -> None:
    version = await room.write("f", b"one")
    assert await refused(room.delete("f", OTHER)) is ErrorCode.FILE_CHANGED
    assert await room.delete("f", version) == 1
    assert await refused(room.delete("f", version)) is ErrorCode.NOT_FOUND
    (room.dir / "target").write_text("stays")
    (room.dir / "link").symlink_to("target")
    assert await room.delete("link") == 1
    assert (room.dir / "target").exists()


async def test_a_directory_is_deleted_when_that_was_said(room: Room) -> None:
    for name in ("d/a", "d/e/b", "d/e/c"):
        await room.write(name, b"x")
    (room.dir / "d" / "out").symlink_to("../..")
    assert await refused(room.delete("d")) is ErrorCode.INVALID_REQUEST
    assert await room.delete("d", recursive=True) == 4
    assert os.listdir(room.dir) == [".git"]


async def test_what_is_too_much_or_has_a_repository_in_it_is_not_deleted(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("d/a", "d/e/b", "d/e/c"):
        await room.write(name, b"x")
    monkeypatch.setattr(writing, "MAX_DELETED_FILES", 3)
    assert await refused(room.delete("d", recursive=True)) is ErrorCode.TOO_LARGE
    monkeypatch.undo()
    (room.dir / "d" / "e" / ".git").mkdir()
    assert await refused(room.delete("d", recursive=True)) is ErrorCode.NOT_ALLOWED
    assert len(_tree(room.dir / "d")) == 5


async def test_while_the_agent_works_nothing_is_changed_and_all_can_be_read(room: Room) -> None:
    version = await room.write("f", b"one")
    room.is_busy = True
    for asked in (room.write("f", b"two", version), room.write("g", b""), room.rename("f", "g"), room.delete("f")):
        assert await refused(asked) is ErrorCode.WORKSPACE_BUSY
    assert (await room.version("f"), await room.names(), await room.find("f")) == (version, ["f"], ["f"])


async def test_what_is_saved_has_bounds(room: Room) -> None:
    assert await refused(room.write("f", b"x" * (2 * 1024 * 1024 + 1))) is ErrorCode.TOO_LARGE
    await room.write("f", b"x" * (2 * 1024 * 1024))
    with pytest.raises(GadgetError):
        writing.decoded("no base64!")


async def test_what_is_deleted_can_be_had_again_when_there_are_checkpoints(room: Room) -> None:
    checkpoints = room.checkpoints.of(room.project, room.dir)
    await checkpoints.take("a turn", None)
    await room.write("new.txt", b"made by hand")
    await room.delete("new.txt")
    await room.write("newer.txt", b"by hand, too")
    await room.rename("newer.txt", "newest.txt")
    store = room.dir.parent / ".gadget" / "checkpoints" / room.project.id
    assert {_shown(store, name) for name in ("new.txt", "newer.txt")} == {"made by hand", "by hand, too"}


def _shown(store: Path, name: str) -> str:
    """The content of a file of this name in some checkpoint; empty when it is in none."""
    for ref in (store / REFS).iterdir():
        command = ["git", "--git-dir", str(store), "show", f"{ref.read_text().strip()}:{name}"]
        shown = subprocess.run(command, capture_output=True, text=True)
        if shown.returncode == 0:
            return shown.stdout
    return ""


def test_a_path_has_one_form() -> None:
    assert [places.checked(path) for path in ("", ".", "./a//b/", "a/.")] == ["", "", "a/b", "a"]
    for path in ("a\0b", "a\ud800", "..", "a/..", "/a"):
        with pytest.raises(GadgetError):
            places.checked(path)


def _dangers(directory: Path) -> None:
    (directory / "sub").mkdir()
    (directory / "sub" / "x").write_text("")
    for name in ("file", "file2"):
        (directory / name).write_text("here")
    (directory / "link").symlink_to("file")
    (directory / "link_out").symlink_to("../secret.txt")
    (directory / "dir_out").symlink_to("..")
    (directory / "git_link").symlink_to(".git")
    os.mkfifo(directory / "pipe")


def _tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}
