"""Whatever is in the files of `.gadget/`, the drone starts: it sets aside what it cannot read, and says so."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gadget_api.errors import GadgetError
from gadget_drone.recovery import clear_up, find_left_turn, load_journal
from gadget_drone.workspace import Workspace, inspect_workspace
from tests.gadget_drone.test_recovery import TURN, leave

DEEP = 100_000
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "garbage": lambda _: b"\x00\xff\xfe{]",
    "zeros": lambda data: bytes(len(data)),
    "a deep list": lambda _: b"[" * DEEP + b"]" * DEEP + b"\n",
    "a deep object": lambda _: b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"\n",
    "a deep field": lambda data: data.replace(b"{", b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b", ", 1),
    "a list": lambda _: b"[]\n",
    "null": lambda _: b"null\n",
    "a number": lambda _: b"1e999\n",
    "a large number": lambda _: b"9" * 10_000 + b"\n",
    "text": lambda _: b'"workspace"\n',
    "an empty object": lambda _: b"{}\n",
    "half": lambda data: data[: len(data) // 2],
    "a lone surrogate": lambda data: data.replace(b'"', b'"\\ud800', 1),
    "twice": lambda data: data + data,
    "ids that name other files": lambda data: data.replace(TURN.encode(), b"../../../../etc/passwd"),
    "ids with NUL": lambda data: data.replace(TURN.encode(), b"a\\u0000b"),
    "long ids": lambda data: data.replace(TURN.encode(), b"a" * 64),
    "dates that are none": lambda data: data.replace(b'At": "20', b'At": "xx'),
    "negative numbers": lambda data: data.replace(b'"seq":', b'"seq":-').replace(b'"acked":', b'"acked":-'),
    "numbers as text": lambda data: data.replace(b'"seq":1', b'"seq":"1"').replace(b'"acked":2', b'"acked":"2"'),
    "types that are none": lambda data: data.replace(b'"type":"', b'"type":["').replace(b'",', b'"],', 1),
    "a call without id": lambda data: data.replace(b'"callId":"a"', b'"callId":null'),
    "a call whose id is a list": lambda data: data.replace(b'"callId":"a"', b'"callId":[[]]'),
    "a status that is none": lambda data: data.replace(b"processing", b"dancing"),
}
FILES = ("workspace.json", "work-order.json", f"journal/{TURN}.ndjson")


def start(directory: Path) -> list[str]:
    """What a drone's start does with the files; answers its warnings."""
    with Workspace.open(directory, hostname="box") as workspace:
        clear_up(workspace)
        left = find_left_turn(workspace)
        if left is not None:
            assert left.turn_id.isalnum()
            journal = load_journal(workspace, left.turn_id)
            if journal is not None:
                assert journal.last_seq >= 0
                _ = [*journal.unacked()], journal.started_calls()
                journal.close()
        inspect_workspace(directory)
        return workspace.warnings


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A workspace with a turn that a crash left."""
    with Workspace.open(tmp_path / "workspace", hostname="box") as workspace:
        leave(workspace)
    return tmp_path / "workspace"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_start_survives(name: str, damage: str, left: Path) -> None:
    path = left / ".gadget" / name
    before = path.read_bytes()
    path.write_bytes(DAMAGES[damage](before))
    start(left)
    assert start(left) == [], "the second start finds nothing damaged"


REFUSED = ("tmp", "home", "logs", "journal", "lock")
PLANTED = (*REFUSED, "logs/drone.log", "blobs/a.b.blob", "checkpoints/p1", "workspace.json")


@pytest.mark.parametrize("name", PLANTED)
def test_a_link_that_a_repository_brings_leads_nowhere(name: str, tmp_path: Path) -> None:
    """A repository that tracks a `.gadget/`, or a command before a drone worked here."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("as it was")
    link = tmp_path / "workspace/.gadget" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(victim if "." not in name else victim / "file")
    if name in REFUSED:
        with pytest.raises(GadgetError, match=r"cannot be a workspace|move it away"):
            Workspace.open(tmp_path / "workspace", hostname="box")
    else:
        with Workspace.open(tmp_path / "workspace", hostname="box") as workspace:
            with (workspace.logs_dir / "drone.log").open("a") as log:
                log.write("written")
            assert "moved to" in workspace.warnings[0]
        assert not link.is_symlink()
    assert (victim / "file").read_text() == "as it was"
    assert [path.name for path in victim.iterdir()] == ["file"]


KINDS: dict[str, Callable[[Path], object]] = {
    "a directory": lambda path: path.mkdir(),
    "a directory with files": lambda path: (path / "x").mkdir(parents=True),
    "a link to nothing": lambda path: path.symlink_to("/absent"),
    "a link to a directory": lambda path: path.symlink_to("/"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_a_start_survives_what_is_no_file(name: str, kind: str, left: Path) -> None:
    path = left / ".gadget" / name
    path.unlink()
    KINDS[kind](path)
    start(left)
    assert start(left) == []


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(FILES),
    st.binary(max_size=200),
    st.floats(0, 1),
    st.integers(0, 100),
)
def test_a_start_survives_whatever_is_written_anywhere(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes, where: float, instead_of: int
) -> None:
    directory = tmp_path_factory.mktemp("hostile") / "workspace"
    try:
        with Workspace.open(directory, hostname="box") as workspace:
            leave(workspace)
        path = directory / ".gadget" / name
        before = path.read_bytes()
        at = int(where * len(before))
        path.write_bytes(before[:at] + data + before[at + instead_of :])
        start(directory)
        assert start(directory) == []
    finally:
        shutil.rmtree(directory.parent)
