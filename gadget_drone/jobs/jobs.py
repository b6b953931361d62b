"""What a session's commands run in the background, for as long as the session or its drone."""

import asyncio
import os
import secrets
from typing import Protocol

from gadget_drone.jobs.job import Job
from gadget_drone.processes.supervised import Supervised

MAX_JOBS = 16
"""Kept at once, the ended ones too until there is no room."""
_PIPE_BYTES = 2**18


class Start(Protocol):
    """Starts the job's command with these descriptors; cancelled, it has started nothing. Raises OSError."""

    async def __call__(self, *, output: int, stdin: int) -> Supervised: ...


class TooManyJobs(Exception):
    """So many run as may."""


class Jobs:
    """They end with `close`, with their supervisor, and with the drone, whatever ends that."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    async def start(self, command: str, start: Start) -> Job:
        """`command` is what the job is called in lists. The oldest that has ended makes room.

        Raises TooManyJobs, and OSError where it does not start.
        """
        await self._make_room()
        stream = asyncio.StreamReader(limit=_PIPE_BYTES)
        reading, printing = os.pipe()
        with os.fdopen(printing, "wb", buffering=0) as output:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
            )
            theirs, ours = os.pipe()
            with os.fdopen(theirs, "rb", buffering=0) as stdin:
                try:
                    os.set_blocking(ours, False)
                    running = await start(output=output.fileno(), stdin=stdin.fileno())
                except BaseException:
                    os.close(ours)
                    transport.close()
                    raise
        # Nothing may be cancelled between the start of the command and here.
        job = Job(self._new_id(), command, running, stream, transport, ours)
        self._jobs[job.id] = job
        return job

    def find(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def all(self) -> tuple[Job, ...]:
        """In the order of their starts."""
        return tuple(self._jobs.values())

    @property
    def are_running(self) -> bool:
        """Whether any of them still runs."""
        return any(job.is_running for job in self._jobs.values())

    def ended(self) -> tuple[Job, ...]:
        """Those that have ended and of which neither this nor an answer of a tool has said so before."""
        found = tuple(job for job in self._jobs.values() if not job.is_running and not job.is_end_told)
        for job in found:
            job.is_end_told = True
        return found

    async def close(self) -> None:
        """Ends all of them; takes 4 seconds at most."""
        jobs = self.all()
        self._jobs.clear()
        await asyncio.gather(*(job.close() for job in jobs))

    async def _make_room(self) -> None:
        if len(self._jobs) < MAX_JOBS:
            return
        oldest = next((job for job in self._jobs.values() if not job.is_running), None)
        if oldest is None:
            raise TooManyJobs
        del self._jobs[oldest.id]
        await oldest.close()

    def _new_id(self) -> str:
        # Not 1, 2, 3: those of a drone that was started anew would be taken for those that the model remembers.
        while (job_id := secrets.token_hex(2)) in self._jobs:
            pass
        return job_id
