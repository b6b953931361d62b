"""What a start makes of what was left, wherever the earlier run was cut off."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gadget_api.commands import CrashRecoveryResponse, RecoveryAction
from gadget_api.ids import new_id
from gadget_api.model import iso, utc_now
from gadget_api.workspace_files import WorkOrderFile
from gadget_drone.turn.journal import Journal
from gadget_drone.turn.recovery import LeftTurn, clear_up, find_left_turn, forget, go_on, journal_path, load_journal
from gadget_drone.workspace.workspace import REASON, Workspace

TURN, SESSION = "01a1fe2651d2c57a69a92a09", "01a1fe2651d2c57a69a92a0a"
LEFT = LeftTurn(TURN, SESSION)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(tmp_path / "workspace", hostname="box") as workspace:
        yield workspace


def order() -> WorkOrderFile:
    return WorkOrderFile(
        turn_id=TURN,
        chat_session_id=SESSION,
        project_id=new_id(),
        work_order_id=TURN,
        received_at=utc_now(),
        prompt="Go.",
        status="processing",
    )


SHELL: dict[str, Any] = {"name": "shell", "params": {}}
STEP: dict[str, Any] = {"message": {}, "usage": {}, "finishReason": "toolCalls", "model": "m"}


def leave_journal(workspace: Workspace, turn: str = TURN) -> Path:
    """Of events 1 to 6, of which two are acknowledged; the call `b` has started."""
    path = journal_path(workspace, turn)
    journal = Journal.create(path, base_seq=0)
    for seq, (type, fields) in enumerate(
        [
            ("step", {**STEP, "index": 1}),
            ("toolStarted", {"callId": "a", **SHELL}),
            ("toolCall", {"callId": "a", **SHELL, "response": "", "isError": False, "durationMs": 1}),
            ("steered", {"steerId": "s1", "content": "x"}),
            ("step", {**STEP, "index": 2}),
            ("toolStarted", {"callId": "b", **SHELL}),
        ],
        start=1,
    ):
        head = {"type": type, "turnId": turn, "chatSessionId": SESSION, "epoch": 1, "seq": seq, "at": iso(utc_now())}
        event = {**head, **fields}
        journal.append(seq, type, orjson.dumps(event))
    journal.ack(2)
    journal.close()
    return path


def leave(workspace: Workspace) -> Path:
    workspace.save_work_order(order())
    return leave_journal(workspace)


def aside(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in workspace.gadget_dir.glob("corrupt-*/*") if path.name != REASON)


def test_nothing_left_is_nothing_to_do(workspace: Workspace) -> None:
    clear_up(workspace)
    assert find_left_turn(workspace) is None
    assert workspace.warnings == []


def test_a_turn_is_known_by_its_journal_when_the_work_order_is_missing_or_damaged(workspace: Workspace) -> None:
    leave_journal(workspace)
    (workspace.gadget_dir / "work-order.json").write_text('{"turnId"')
    clear_up(workspace)
    assert find_left_turn(workspace) == LEFT
    assert aside(workspace) == ["work-order.json"]
    assert "damaged" in workspace.warnings[0]
    forget(workspace, TURN)
    assert find_left_turn(workspace) is None


def test_a_work_order_without_a_journal_is_asked_about(workspace: Workspace) -> None:
    workspace.save_work_order(order())
    clear_up(workspace)
    assert find_left_turn(workspace) == LEFT
    assert load_journal(workspace, TURN) is None


def test_what_belongs_to_no_turn_is_cleared_up_and_the_user_is_told_what_was_worth_something(
    workspace: Workspace,
) -> None:
    leave(workspace)
    Journal.create(journal_path(workspace, "empty"), base_seq=7).close()
    leave_journal(workspace, "other")
    (workspace.journal_dir / "bytes.ndjson").write_bytes(b"\x00\x01")
    (workspace.journal_dir / "folder.ndjson").mkdir()
    (workspace.journal_dir / ".x.ndjson.0123.tmp").write_bytes(b"half")
    (workspace.gadget_dir / ".workspace.json.0123.tmp").write_bytes(b"half")
    clear_up(workspace)
    assert [path.name for path in workspace.journal_dir.iterdir()] == [f"{TURN}.ndjson"]
    assert list(workspace.gadget_dir.glob(".*.tmp")) == []
    assert aside(workspace) == ["bytes.ndjson", "folder.ndjson", "other.ndjson"]
    assert len(workspace.warnings) == 3
    assert find_left_turn(workspace) == LEFT


@pytest.mark.parametrize("kind", ["directory", "zeros", "gap", "no event"])
def test_a_journal_that_cannot_be_read_is_set_aside_with_the_reason(kind: str, workspace: Workspace) -> None:
    path = leave(workspace)
    if kind == "directory":
        path.unlink()
        path.mkdir()
    elif kind == "no event":
        path.write_bytes(path.read_bytes().replace(b'"durationMs"', b'"durationMz"'))
    else:
        path.write_bytes(path.read_bytes() + (b"\x00" * 9 + b"\n" if kind == "zeros" else b'{"seq":99,"type":"x"}\n'))
    assert find_left_turn(workspace) == LEFT
    assert load_journal(workspace, TURN) is None
    assert aside(workspace) == [f"{TURN}.ndjson"]
    (reason,) = workspace.gadget_dir.glob(f"corrupt-*/{REASON}")
    assert "cannot be read" in reason.read_text()


def test_a_half_written_last_line_is_dropped_and_the_rest_goes_on(workspace: Workspace) -> None:
    path = leave(workspace)
    path.write_bytes(path.read_bytes() + b'{"type":"toolCa')
    journal, resumption = resume(workspace, epoch=2, acked_seq=3)
    assert [(event["seq"], event["epoch"]) for event in journal.unacked()] == [(4, 2), (5, 2), (6, 2)]
    assert resumption.started_before == frozenset({"b"})
    assert journal.steered == {"s1"}
    journal.close()


def test_without_its_journal_every_open_call_may_have_run_and_again_after_the_next_crash(workspace: Workspace) -> None:
    workspace.save_work_order(order())
    for epoch in (2, 3, 4):
        journal, resumption = resume(workspace, epoch=epoch, acked_seq=40)
        assert resumption.started_before is None
        assert (journal.last_seq, list(journal.unacked())) == (40, [])
        journal.close()


def test_a_damaged_identity_keeps_its_id_where_it_can_be_made_out(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "workspace", hostname="box") as workspace:
        known = workspace.file.workspace_id
    file = tmp_path / "workspace/.gadget/workspace.json"
    file.write_text(file.read_text().replace("}", ",}", 1))
    with Workspace.open(tmp_path / "workspace", hostname="box") as workspace:
        assert workspace.file.workspace_id == known
        assert "damaged" in workspace.warnings[0]


def resume(workspace: Workspace, *, epoch: int, acked_seq: int) -> Any:
    """As the daemon does, with a server that has `acked_seq` events."""
    journal = load_journal(workspace, TURN)
    last_seq = journal.last_seq if journal is not None else 0
    response = CrashRecoveryResponse(
        turn_id=TURN,
        action=RecoveryAction.RESUME if last_seq >= acked_seq else RecoveryAction.RETRY,
        epoch=epoch,
        acked_seq=acked_seq,
    )
    return go_on(workspace, response, journal)


FAULTS = """
import errno, itertools, os, shutil, signal, sys
from pathlib import Path
from gadget_drone.turn.recovery import clear_up, find_left_turn
from gadget_drone.workspace.workspace import Workspace
from tests.gadget_drone.test_recovery import order, resume

def recover(place, acked_seq, epoch):
    with Workspace.open(place, hostname="box") as workspace:
        clear_up(workspace)
        assert find_left_turn(workspace) is not None
        journal, resumption = resume(workspace, epoch=epoch, acked_seq=acked_seq)
        workspace.save_work_order(order())
        found = [(e["seq"], e["epoch"]) for e in journal.unacked()], resumption.started_before
        journal.close()
        return found

def faulty(number, kind):
    # Makes one call fail; answers whether there were so many.
    calls = itertools.count()
    def wrap(function):
        def call(*arguments, **options):
            if next(calls) == number:
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)
        return call
    names = ["fsync", "replace", "open", "pwrite", "ftruncate"] + (["unlink", "close"] if kind == "kill" else [])
    for name in names:
        setattr(os, name, wrap(getattr(os, name)))
    return lambda: next(calls) > number

place, kind, acked_seq, once_more = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
before = Path(f"{place}.before")
shutil.copytree(place, before)
for number in itertools.count():
    if not once_more:
        shutil.rmtree(place)
        shutil.copytree(before, place)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            has_failed = faulty(number, kind)
            recover(place, acked_seq, number + 2)
            status = 7 if has_failed() else 0
        except OSError as exc:
            status = 7 if exc.errno == errno.ENOSPC else 1
        except Exception as exc:  # what Workspace.open makes of a full disk
            status = 7 if "No space left" in str(exc) else 1
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, 7, -9), ended
    copy = Path(f"{place}.copy{number}")
    shutil.copytree(place, copy)
    events, started = recover(copy, acked_seq, 1000)
    expected = [(seq, 1000) for seq in range(acked_seq + 1, 7)]
    assert (events, started) == (expected, None if acked_seq > 6 else frozenset("b")), (number, events, started)
    assert list((copy / ".gadget").glob(".*.tmp")) == list((copy / ".gadget/journal").glob(".*.tmp")) == []
    if ended == 0:
        break
print(number)
"""


@pytest.mark.parametrize("once_more", ["", "kills in a row"])
@pytest.mark.parametrize("acked_seq", [3, 9])
@pytest.mark.parametrize("kind", ["kill", "full disk"])
def test_a_recovery_that_is_cut_off_anywhere_can_be_begun_again(
    kind: str, acked_seq: int, once_more: str, workspace: Workspace
) -> None:
    """At each system call that changes something: SIGKILL, or a disk that takes nothing more."""
    leave(workspace)
    workspace.close()
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, str(workspace.dir), kind, str(acked_seq), once_more],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
    for copy in workspace.dir.parent.glob("workspace.*"):
        shutil.rmtree(copy)
