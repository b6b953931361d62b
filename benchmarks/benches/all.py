"""Every bench, in the order in which they run."""

from benchmarks.bench import Bench
from benchmarks.benches.crowds import DRONES, STREAMS
from benchmarks.benches.edit import EDIT
from benchmarks.benches.requests import REQUESTS
from benchmarks.benches.search import SEARCH
from benchmarks.benches.snapshot import SNAPSHOT
from benchmarks.benches.starting import HELP, MEMORY, START
from benchmarks.benches.steps import GROWTH, STEPS
from benchmarks.benches.store import OPEN, REPLAY, STORED
from benchmarks.benches.stream import BURST, CANCEL, LATENCY

BENCHES: tuple[Bench, ...] = (
    *(STEPS, GROWTH, LATENCY, BURST, CANCEL, DRONES, STREAMS),
    *(STORED, OPEN, REPLAY, HELP, START, MEMORY, REQUESTS),
    *(SEARCH, SNAPSHOT, EDIT),
)
