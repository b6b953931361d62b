import base64
import hashlib
import os
import time

import pytest

from gadget_api.commands import MAX_CHUNK_BYTES
from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.files import reading
from gadget_drone.files.places import version_of
from tests.gadget_drone.files.conftest import Room


async def test_a_file_is_read_in_pieces_of_one_version(room: Room) -> None:
    content = os.urandom(2 * MAX_CHUNK_BYTES + 5)
    (room.dir / "f").write_bytes(content)
    first = await room.read("f")
    assert (first.size_bytes, first.version) == (len(content), hashlib.sha256(content).hexdigest())
    pieces = [base64.b64decode((await room.read("f", at, first.version)).data) for at in range(0, 600_000, 262_144)]
    assert [len(piece) for piece in pieces] == [MAX_CHUNK_BYTES, MAX_CHUNK_BYTES, 5]
    assert b"".join(pieces) == content
    assert (await room.read("f", 2**40)).data == ""


async def test_a_file_that_changes_between_two_pieces_is_refused(room: Room) -> None:
    (room.dir / "f").write_bytes(b"a" * 300_000)
    version = await room.version("f")
    (room.dir / "f").write_bytes(b"b" * 300_000)
    with pytest.raises(GadgetError) as refused:
        await room.read("f", MAX_CHUNK_BYTES, version)
    assert refused.value.code is ErrorCode.FILE_CHANGED


async def test_a_version_is_hashed_once_when_the_file_has_settled(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (room.dir / "f").write_bytes(b"a" * 300_000)
    hashed = []

    def counted(fd: int) -> str:
        hashed.append(fd)
        return version_of(fd)

    monkeypatch.setattr(reading, "version_of", counted)
    for _ in range(3):
        await room.read("f")
    assert len(hashed) == 3  # it may still change and look the same
    later = time.time() + 60
    monkeypatch.setattr(reading.time, "time", lambda: later)  # type: ignore[attr-defined]
    versions = {(await room.read("f")).version for _ in range(3)}
    assert (len(hashed), len(versions)) == (4, 1)
    (room.dir / "f").write_bytes(b"b" * 300_000)
    assert (await room.read("f")).version not in versions


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("link_out", ErrorCode.NOT_ALLOWED),
        ("dir_out/secret.txt", ErrorCode.NOT_ALLOWED),
        ("absolute_link", ErrorCode.NOT_ALLOWED),
        ("../secret.txt", ErrorCode.INVALID_REQUEST),
        ("sub/../../secret.txt", ErrorCode.INVALID_REQUEST),
        ("/etc/hostname", ErrorCode.INVALID_REQUEST),
        (".git/config", ErrorCode.NOT_ALLOWED),
        ("git_link/config", ErrorCode.NOT_ALLOWED),
        ("sub/.git", ErrorCode.NOT_ALLOWED),
        ("sub", ErrorCode.INVALID_REQUEST),
        (".", ErrorCode.INVALID_REQUEST),
        ("pipe", ErrorCode.INVALID_REQUEST),
        ("nothing", ErrorCode.NOT_FOUND),
        ("file/below", ErrorCode.INVALID_REQUEST),
        ("large", ErrorCode.TOO_LARGE),
    ],
)
async def test_nothing_but_the_projects_own_files_is_read(path: str, code: ErrorCode, room: Room) -> None:
    (room.dir / "sub").mkdir()
    (room.dir / "sub" / ".git").write_text("gitdir: elsewhere")
    (room.dir / "file").write_text("")
    (room.dir / "link_out").symlink_to("../secret.txt")
    (room.dir / "dir_out").symlink_to("..")
    (room.dir / "absolute_link").symlink_to(room.dir.parent / "secret.txt")
    (room.dir / "git_link").symlink_to(".git")
    os.mkfifo(room.dir / "pipe")
    with (room.dir / "large").open("wb") as large:
        large.truncate(50 * 1024 * 1024)
    with pytest.raises(GadgetError) as refused:
        await room.read(path)
    assert refused.value.code is code


async def test_a_link_inside_the_project_is_read(room: Room) -> None:
    (room.dir / "real").write_text("here")
    (room.dir / "link").symlink_to("real")
    assert base64.b64decode((await room.read("link")).data) == b"here"
