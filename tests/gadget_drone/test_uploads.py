"""Large outputs on their way to the server: what is kept, what is deleted, and how much may wait."""

from pathlib import Path

import pytest

from gadget_drone.service.server import Server
from gadget_drone.service.uploads import Uploads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "blobs").mkdir()
    return tmp_path / "blobs"


def spooled(folder: Path, size: int) -> Path:
    path = folder / "output.txt"
    path.write_bytes(b"x" * size)
    return path


async def test_what_waits_is_bounded_and_the_rest_is_not_kept(folder: Path) -> None:
    server = Server("http://127.0.0.1:9")
    blobs = Uploads(folder, server, max_waiting_bytes=100)
    first = blobs.keep("turn", spooled(folder, 60))
    assert first is not None
    assert first.size_bytes == 60
    assert blobs.keep("turn", spooled(folder, 41)) is None
    assert [path.name for path in folder.iterdir()] == [f"turn.{first.blob_id}.blob"]
    assert blobs.keep("turn", spooled(folder, 40)) is not None
    await server.close()


async def test_a_spool_that_no_event_names_is_deleted_at_the_start(folder: Path) -> None:
    server = Server("http://127.0.0.1:9")
    blobs = Uploads(folder, server)
    kept = blobs.keep("turn", spooled(folder, 5))
    assert kept is not None
    spooled(folder, 7)
    (folder / "nothing-of-ours.blob").write_text("x")
    blobs.remove_leftovers()
    assert [path.name for path in folder.iterdir()] == [f"turn.{kept.blob_id}.blob"]
    await server.close()
