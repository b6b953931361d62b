"""The journal: what it keeps, what it drops, and what it makes of a file that a crash left."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from gadget_drone.journal import Journal, JournalDamaged


def event(seq: int, type: str = "response", **fields: Any) -> bytes:
    return orjson.dumps({"type": type, "seq": seq, "epoch": 1, **fields})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turn.ndjson"


def seqs(journal: Journal) -> list[int]:
    return [entry["seq"] for entry in journal.unacked()]


def test_what_is_appended_is_read_back_in_order_after_a_crash(path: Path) -> None:
    journal = Journal.create(path, base_seq=0)
    for seq in range(1, 6):
        journal.append(seq, "response", event(seq, content="x" * seq))
    loaded = Journal.load(path)
    assert list(loaded.unacked()) == [orjson.loads(event(seq, content="x" * seq)) for seq in range(1, 6)]
    assert (loaded.last_seq, loaded.acked_seq) == (5, 0)
    assert path.stat().st_mode & 0o777 == 0o600
    journal.close()
    loaded.close()


def test_what_is_acknowledged_is_not_sent_again_after_a_crash(path: Path) -> None:
    journal = Journal.create(path, base_seq=0)
    for seq in range(1, 6):
        journal.append(seq, "response", event(seq))
    journal.ack(3)
    journal.ack(2)  # an old one that was late
    assert seqs(journal) == [4, 5]
    loaded = Journal.load(path)
    assert seqs(loaded) == [4, 5]
    journal.close()
    loaded.close()


def test_a_turn_that_goes_on_numbers_from_where_it_was(path: Path) -> None:
    journal = Journal.create(path, base_seq=40)
    journal.append(41, "response", event(41))
    loaded = Journal.load(path)
    assert (loaded.acked_seq, loaded.last_seq) == (40, 41)
    journal.close()
    loaded.close()


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_last_line_that_was_cut_is_dropped_and_the_journal_goes_on(path: Path, cut: int) -> None:
    journal = Journal.create(path, base_seq=0)
    journal.append(1, "response", event(1))
    journal.append(2, "response", event(2))
    journal.close()
    os.truncate(path, path.stat().st_size - cut)
    loaded = Journal.load(path)
    assert seqs(loaded) == [1]
    loaded.append(2, "response", event(2, content="anew"))
    again = Journal.load(path)
    assert seqs(again) == [1, 2]
    loaded.close()
    again.close()


@pytest.mark.parametrize(
    "damage", [b"\x00\x00\x00\n", b"not json\n", b"[1]\n", b'{"type": "response"}\n', event(9) + b"\n"]
)
def test_a_damaged_journal_says_so(path: Path, damage: bytes) -> None:
    journal = Journal.create(path, base_seq=0)
    journal.append(1, "response", event(1))
    journal.close()
    path.write_bytes(path.read_bytes() + damage + event(2) + b"\n")
    with pytest.raises(JournalDamaged):
        Journal.load(path)


def test_the_ledger_knows_which_tools_may_have_run_even_when_all_is_acknowledged(path: Path) -> None:
    journal = Journal.create(path, base_seq=0)
    journal.append(1, "toolStarted", event(1, "toolStarted", callId="a"))
    journal.append(2, "toolCall", event(2, "toolCall", callId="a"))
    journal.append(3, "toolStarted", event(3, "toolStarted", callId="b"))
    journal.ack(3)
    journal.rewrite(epoch=2)
    loaded = Journal.load(path)
    assert loaded.started_calls() == frozenset({"b"})
    assert seqs(loaded) == []
    assert loaded.last_seq == 3
    journal.close()
    loaded.close()


def test_a_journal_that_was_begun_in_the_middle_says_nothing_of_the_calls_that_were_open_then(path: Path) -> None:
    journal = Journal.create(path, base_seq=40)
    journal.append(41, "notice", event(41, "notice"))
    journal.rewrite(epoch=2)
    assert journal.started_calls() is None
    journal.append(42, "step", event(42, "step"))
    journal.append(43, "toolStarted", event(43, "toolStarted", callId="a"))
    for _ in range(2):
        loaded = Journal.load(path)
        assert loaded.started_calls() == frozenset({"a"})
        loaded.close()
        journal.ack(42)
        journal.rewrite()
    journal.close()


def test_a_rewrite_under_a_new_epoch_keeps_what_is_not_acknowledged(path: Path) -> None:
    journal = Journal.create(path, base_seq=0)
    for seq in range(1, 4):
        journal.append(seq, "response", event(seq))
    journal.ack(1)
    journal.rewrite(epoch=7)
    assert [(e["seq"], e["epoch"]) for e in journal.unacked()] == [(2, 7), (3, 7)]
    journal.append(4, "response", event(4))
    assert seqs(journal) == [2, 3, 4]
    journal.close()


def test_a_long_turn_keeps_the_journal_small(path: Path) -> None:
    journal = Journal.create(path, base_seq=0)
    for seq in range(1, 2001):
        journal.append(seq, "response", event(seq, content="x" * 5000))
        journal.ack(seq)
        assert path.stat().st_size < 1_100_000
    assert journal.last_seq == 2000
    loaded = Journal.load(path)
    assert loaded.last_seq == 2000
    journal.close()
    loaded.close()


FULL_DISK = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from gadget_drone.journal import Journal
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
journal = Journal.create(Path({path!r}), base_seq=0)
journal.append(1, "response", b'{{"type":"response","seq":1}}')
try:
    journal.append(2, "response", b'{{"type":"response","seq":2,"content":"' + b"x" * 5000 + b'"}}')
except OSError:
    journal.append(2, "workOrderComplete", b'{{"type":"workOrderComplete","seq":2,"message":"' + b"y" * 5000 + b'"}}')
    print([event["type"] for event in journal.unacked()], journal.is_complete)
print([event["seq"] for event in Journal.load(Path({path!r})).unacked()])
"""


def test_on_a_full_disk_the_old_journal_stays_whole_and_the_end_is_kept_in_memory(path: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK.format(root=root, path=str(path))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["['response', 'workOrderComplete'] True", "[1]"], done.stderr


def test_the_ledger_names_a_call_by_its_agent_and_its_id(tmp_path: Path) -> None:
    path = tmp_path / "turn.ndjson"
    journal = Journal.create(path, base_seq=7)
    for seq, (type, agent) in enumerate(
        [("step", None), ("toolStarted", None), ("toolStarted", "child"), ("step", "child"), ("toolCall", "child")], 8
    ):
        event = {"seq": seq, "type": type, "callId": "same", "epoch": 1, "agentId": agent}
        journal.append(seq, type, orjson.dumps(event), agent)
    for _ in range(2):
        assert journal.started_calls() == frozenset({"same"})
        assert journal.started_calls("child") == frozenset()
        assert journal.started_calls("another") is None
        journal.ack(12)
        journal.rewrite()
        journal.close()
        journal = Journal.load(path)
    journal.close()
