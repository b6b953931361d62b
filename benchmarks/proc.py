"""What processes have used, read from /proc: processor time and memory; and their end. Linux only."""

import asyncio
import os
from asyncio.subprocess import Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found  # it ended meanwhile
    for task in tasks:
        try:
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += tree(int(child))
    return found


def cpu_s(*pids: int) -> float:
    """User and system time of these processes, and of the children they have waited for; a tick is 10 ms."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


@dataclass(frozen=True)
class Memory:
    rss_mb: float
    """What is in memory of it, shared pages counted whole."""
    pss_mb: float
    """The same, shared pages counted in parts: what it costs the machine."""


def memory(pid: int) -> Memory:
    """Raises OSError when the process is gone."""
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0])
    return Memory(fields["Rss"] / 1024, fields["Pss"] / 1024)


def memory_below(pid: int) -> list[Memory]:
    """Of each process that descends from this one; one that ends meanwhile is left out."""
    found = []
    for child in tree(pid)[1:]:
        with suppress(OSError):
            found.append(memory(child))
    return found


def load_average() -> float:
    """Of the last minute: a busy machine makes every absolute figure worse."""
    return os.getloadavg()[0]


async def end(process: Process, within_s: float) -> None:
    """Closes the input of a helper of ours, which ends with it; killed when it does not."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
