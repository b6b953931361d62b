"""The journal of a turn: `.gadget/journal/<turnId>.ndjson`.

A line is an event as it goes over the wire, or `{"acked": N}`: the server has stored everything up to N. What is
acknowledged is dropped when it is worth a rewrite, but for the `toolStarted` of a call that has not ended: the ledger
that tells after a crash which tools may have run. A call is named by its agent and its id. With `"blind": true` in the
first line the ledger does not know the open calls of an agent until it has a `step` of that agent, for the journal was
begun in the middle of a turn. `"seen"` lists the agents whose step was dropped since (null: the turn's own).

Appending survives the death of this process at once (the kernel has it) and of the machine after `sync`.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gadget_api.errors import ErrorCode, GadgetError
from gadget_drone.durable import replace_file, sync_directory

_REWRITE_BYTES = 1024 * 1024


class JournalDamaged(GadgetError):
    def __init__(self, path: Path) -> None:
        super().__init__(ErrorCode.WORKSPACE_DAMAGED, f"The journal {path.name} cannot be read.")


@dataclass(frozen=True)
class Entry:
    """An event that is not acknowledged yet."""

    seq: int
    type: str
    offset: int
    size: int
    body: bytes | None = None
    """The event itself, where the disk did not take it."""


class Journal:
    def __init__(self, path: Path) -> None:
        """For `create` and `load`."""
        self.path = path
        self.last_seq = 0
        self.acked_seq = 0
        self.is_complete = False
        """Whether the turn's last event is in it."""
        self._entries: deque[Entry] = deque()
        self._is_blind = False
        self._seen: set[str | None] = set()
        """The agents of which it has had a step."""
        self.steered: set[str] = set()
        """Ids of the messages that it knows to be before the model."""
        self._open_calls: dict[tuple[str | None, str], bytes] = {}
        """By agent and call id."""
        self._is_named = True
        """Whether the disk has its name."""
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._size = os.fstat(self._fd).st_size

    @classmethod
    def create(cls, path: Path, *, base_seq: int) -> "Journal":
        """A new journal whose first event is `base_seq` + 1, in place of one that may be there.

        Its name is on the disk with the first `sync`: a power cut before that takes a journal of nothing that could not
        be done again. Raises OSError: the one that was there is whole then.
        """
        replace_file(path, _head(base_seq, is_blind=base_seq > 0, seen=()), is_synced=False)
        journal = cls.load(path)
        journal._is_named = False
        return journal

    @classmethod
    def load(cls, path: Path) -> "Journal":
        """The journal that is there; a last line that a crash has cut is dropped. Raises JournalDamaged, OSError."""
        journal = cls(path)
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(journal._fd, whole)
            journal._size = whole
        offset = 0
        try:
            for line in data[:whole].splitlines(keepends=True):
                journal._take(orjson.loads(line), offset, len(line), line)
                offset += len(line)
        except (ValueError, KeyError, TypeError) as exc:
            journal.close()
            raise JournalDamaged(path) from exc
        return journal

    def append(self, seq: int, type: str, body: bytes, agent_id: str | None = None) -> None:
        """Appends one event, the next in order. Raises OSError; then nothing was appended. A turn's last event is kept
        in memory then: the turn has to end, on a full disk too."""
        line = body + b"\n"
        try:
            self._write(line)
        except OSError:
            with suppress(OSError):  # what stays of the line is written over, or dropped as one that was cut
                os.ftruncate(self._fd, self._size)
            if type != "workOrderComplete":
                raise
            self._entries.append(Entry(seq, type, self._size, 0, body))
            self.last_seq, self.is_complete = seq, True
            return
        event = orjson.loads(body) if type in _NOTED else {"seq": seq, "type": type, "agentId": agent_id}
        self._take(event, self._size, len(line), line)
        self._size += len(line)

    async def sync(self) -> None:
        """Waits until the disk has all that was appended."""
        await asyncio.to_thread(self._sync)

    def after(self, seq: int) -> Entry | None:
        """The first unacknowledged event after `seq`."""
        if not self._entries:
            return None
        index = max(seq + 1, self._entries[0].seq) - self._entries[0].seq
        return self._entries[index] if index < len(self._entries) else None

    def read(self, entry: Entry) -> bytes:
        """The event as JSON."""
        return entry.body or os.pread(self._fd, entry.size - 1, entry.offset)

    def unacked(self) -> Iterator[dict[str, Any]]:
        return (orjson.loads(self.read(entry)) for entry in self._entries)

    @property
    def unacked_bytes(self) -> int:
        return self._size - self._entries[0].offset if self._entries else 0

    def started_calls(self, agent_id: str | None = None) -> frozenset[str] | None:
        """Ids of the agent's tool calls that have started and are not known to have ended; None: any that is open may
        have."""
        if self._is_blind and agent_id not in self._seen:
            return None
        return frozenset(call_id for agent, call_id in self._open_calls if agent == agent_id)

    def ack(self, seq: int) -> None:
        """Notes that the server has everything up to `seq`."""
        if seq < self.acked_seq or (seq == self.acked_seq and self._size):
            return
        self._acknowledge(seq)
        with suppress(OSError):  # a note that is missing costs one event sent twice
            self._write(line := orjson.dumps({"acked": seq}) + b"\n")
            self._size += len(line)
        # Only when most of it can go: a rewrite costs what is left.
        if not self.is_complete and self._size - self.unacked_bytes > max(_REWRITE_BYTES, self.unacked_bytes):
            with suppress(OSError):  # it is only to save room
                self.rewrite()

    def rewrite(self, *, epoch: int | None = None) -> None:
        """Drops what is acknowledged; with `epoch`, puts what is not under that epoch, to be sent anew."""
        bodies = []
        for event in self.unacked():
            if epoch is not None:
                event["epoch"] = epoch
            bodies.append(orjson.dumps(event) + b"\n")
        ledger = [line for line in self._open_calls.values() if orjson.loads(line)["seq"] <= self.acked_seq]
        head = _head(self.acked_seq, is_blind=self._is_blind, seen=self._seen)
        replace_file(self.path, b"".join([head, *ledger, *bodies]))
        self._is_named = True
        self.close()  # first: what cannot be opened again must take no more events, not lose them
        renewed = Journal.load(self.path)
        self._fd, self._size, self._entries = renewed._fd, renewed._size, renewed._entries
        self._open_calls = renewed._open_calls

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def _sync(self) -> None:
        os.fdatasync(self._fd)
        if not self._is_named:
            sync_directory(self.path.parent)
            self._is_named = True

    def _write(self, line: bytes) -> None:
        written = os.pwrite(self._fd, line, self._size)
        if written != len(line):  # a full disk may take a part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _take(self, line: dict[str, Any], offset: int, size: int, raw: bytes) -> None:
        """Takes in one line as it is in the file."""
        if "acked" in line:
            self._is_blind = self._is_blind or line.get("blind", False)
            self._seen.update(line.get("seen", ()))
            self._acknowledge(int(line["acked"]))
            return
        seq, type = int(line["seq"]), str(line["type"])
        agent = line.get("agentId")
        if type == "toolStarted":
            self._open_calls[agent, line["callId"]] = raw
        elif type == "toolCall":
            self._open_calls.pop((agent, line["callId"]), None)
        elif type == "step":
            self._seen.add(agent)
        elif type == "steered":
            self.steered.add(line["steerId"])
        elif type == "workOrderComplete":
            self.is_complete = True
        if seq <= self.acked_seq:
            return  # kept for the ledger alone
        if seq != self.last_seq + 1:
            raise ValueError("events are missing")
        self._entries.append(Entry(seq, type, offset, size))
        self.last_seq = seq

    def _acknowledge(self, seq: int) -> None:
        self.acked_seq = seq
        self.last_seq = max(self.last_seq, seq)
        while self._entries and self._entries[0].seq <= seq:
            self._entries.popleft()


@dataclass(frozen=True)
class Summary:
    """What a journal says to somebody who only looks."""

    event_count: int = 0
    """Not acknowledged."""
    size_bytes: int = 0
    """Of these events."""
    epoch: int | None = None
    """Of the newest event; None: all is acknowledged."""
    step_count: int | None = None
    """Model calls of the turn, as far as the newest `step` says; None: there is none in it."""
    is_damaged: bool = False


def summarize(path: Path) -> Summary:
    """Reads and changes nothing, so that a daemon may write meanwhile. Raises OSError."""
    sizes: dict[int, int] = {}
    epoch = steps = None
    try:
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                event = orjson.loads(line)
                if "acked" in event:
                    sizes = {seq: size for seq, size in sizes.items() if seq > event["acked"]}
                    continue
                sizes[event["seq"]] = len(line)
                epoch = event["epoch"]
                steps = event["index"] if event["type"] == "step" else steps
    except (ValueError, KeyError, TypeError, IsADirectoryError):
        return Summary(is_damaged=True)
    return Summary(len(sizes), sum(sizes.values()), epoch, steps)


def _head(acked_seq: int, *, is_blind: bool, seen: Iterable[str | None]) -> bytes:
    ledger = {"blind": True, "seen": [*seen]} if is_blind else {}
    return orjson.dumps({"acked": acked_seq, **ledger}) + b"\n"


_NOTED = frozenset({"toolStarted", "toolCall", "steered"})
"""Events of which more is remembered than where they are."""
