import os
from pathlib import Path

import pytest

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.files import FileKind
from gadget_drone.files import listing
from tests.gadget_drone.conftest import git, project_at
from tests.gadget_drone.files.conftest import Room


async def test_directories_come_first_and_what_is_gits_or_ours_is_hidden(room: Room) -> None:
    for name in ("b.txt", "A.txt", ".dot"):
        (room.dir / name).write_text("12345")
    for name in ("zoo", "Ant", ".gadget"):
        (room.dir / name).mkdir()
    assert await room.names() == ["Ant", "zoo", ".dot", "A.txt", "b.txt"]
    entries = {entry.name: entry for entry in (await room.list_directory()).entries}
    assert (entries["zoo"].kind, entries["zoo"].is_directory, entries["zoo"].size_bytes) == ("directory", True, None)
    assert (entries["b.txt"].kind, entries["b.txt"].is_directory, entries["b.txt"].size_bytes) == ("file", False, 5)


async def test_paths_are_those_to_ask_with(room: Room) -> None:
    (room.dir / "a" / "b").mkdir(parents=True)
    (room.dir / "a" / "b" / "c").write_text("")
    for path in ("a/b", "a/b/", "./a//b"):
        files = await room.list_directory(path)
        assert (files.path, [entry.path for entry in files.entries]) == ("a/b", ["a/b/c"])


async def test_what_git_ignores_is_marked_unless_it_is_tracked(room: Room) -> None:
    (room.dir / ".gitignore").write_text("*.log\nbuild/\n:odd\n")
    for name in ("kept.log", "new.log", "plain", ":odd"):
        (room.dir / name).write_text("")
    (room.dir / "build").mkdir()
    (room.dir / "build" / "x").write_text("")
    git(room.dir, "add", "--force", "kept.log")
    ignored = {entry.name for entry in (await room.list_directory()).entries if entry.is_ignored}
    assert ignored == {"build", "new.log", ":odd"}
    assert [entry.is_ignored for entry in (await room.list_directory("build")).entries] == [True]


async def test_a_listing_needs_no_git(room: Room) -> None:
    (room.dir / ".gitignore").write_text("*\n")
    (room.dir / ".git" / "HEAD").write_text("damaged")
    assert [(entry.name, entry.is_ignored) for entry in (await room.list_directory()).entries] == [
        (".gitignore", False)
    ]


async def test_a_link_is_a_directory_only_where_it_leads_to_one_inside(room: Room) -> None:
    (room.dir / "real").mkdir()
    (room.dir / "real" / "x").write_text("")
    for name, target in (("in", "real"), ("out", ".."), ("git", ".git"), ("file", "real/x"), ("gone", "nothing")):
        (room.dir / name).symlink_to(target)
    links = {e.name: e.is_directory for e in (await room.list_directory()).entries if e.kind is FileKind.SYMLINK}
    assert links == {"in": True, "out": False, "git": False, "file": False, "gone": False}
    assert [entry.path for entry in (await room.list_directory("in")).entries] == ["in/x"]


async def test_what_is_neither_file_nor_directory_is_other(room: Room) -> None:
    os.mkfifo(room.dir / "pipe")
    Path(os.fsdecode(os.fsencode(room.dir) + b"/caf\xe9")).touch()
    assert [(e.name, e.kind) for e in (await room.list_directory()).entries] == [
        ("caf\N{REPLACEMENT CHARACTER}", FileKind.OTHER),
        ("pipe", FileKind.OTHER),
    ]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("out", ErrorCode.NOT_ALLOWED),
        ("..", ErrorCode.INVALID_REQUEST),
        ("a/../..", ErrorCode.INVALID_REQUEST),
        ("/", ErrorCode.INVALID_REQUEST),
        (".git", ErrorCode.NOT_ALLOWED),
        (".GIT", ErrorCode.NOT_FOUND),
        ("git_link", ErrorCode.NOT_ALLOWED),
        ("pipe", ErrorCode.INVALID_REQUEST),
        ("file", ErrorCode.INVALID_REQUEST),
        ("nothing", ErrorCode.NOT_FOUND),
        ("x" * 300, ErrorCode.INVALID_REQUEST),
        ("x/" * 200, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_no_directory_of_the_project_is_refused(path: str, code: ErrorCode, room: Room) -> None:
    (room.dir / "out").symlink_to("..")
    (room.dir / "git_link").symlink_to(".git/hooks")
    (room.dir / "file").write_text("")
    os.mkfifo(room.dir / "pipe")
    with pytest.raises(GadgetError) as refused:
        await room.list_directory(path)
    assert refused.value.code is code


async def test_a_large_directory_is_cut_and_says_so(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(30):
        (room.dir / f"f{n:02}").write_text("")
    assert not (await room.list_directory()).truncated
    monkeypatch.setattr(listing, "MAX_LISTED_ENTRIES", 10)
    files = await room.list_directory()
    assert ([entry.name for entry in files.entries], files.truncated) == ([f"f{n:02}" for n in range(10)], True)


async def test_a_listing_fits_one_message(room: Room) -> None:
    deep = room.dir.joinpath(*["\x01" * 200] * 4)
    deep.mkdir(parents=True)
    for n in range(600):
        (deep / f"{n}{chr(2) * 200}").touch()
    files = await room.list_directory(str(deep.relative_to(room.dir)))
    assert files.truncated
    assert 500_000 < len(files.model_dump_json()) < 1_000_000


async def test_a_project_that_is_not_there_says_what_to_do(room: Room, tmp_path: Path) -> None:
    room.project = project_at("https://example.org/other.git", "other")
    with pytest.raises(GadgetError, match="send a prompt") as refused:
        await room.list_directory()
    assert refused.value.code is ErrorCode.NOT_CLONED
