"""`scripts/bench load`: so many simulated drones and watchers, for so long, and what that costs the service."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.crowd import Crowd
from benchmarks.load.report import Report
from benchmarks.stage import Stage

_MOST_DRONES = 5_000
_MOST_SECONDS = 600.0


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, or 1 when the service fell behind."""
    asked = _parser().parse_args(arguments)
    report = asyncio.run(_run(asked.drones, asked.watchers or asked.drones, asked.rate, asked.seconds, asked.workers))
    print(report.text())
    if asked.json is not None:
        asked.json.write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    return 1 if report.is_behind else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench load", description=__doc__)
    parser.add_argument("--drones", type=_between(1, _MOST_DRONES), default=50, metavar="N", help="each with a turn")
    parser.add_argument(
        "--watchers", type=_between(1, _MOST_DRONES), metavar="M", help="spread over the sessions; default: one each"
    )
    parser.add_argument("--rate", type=_between(0.1, 2_000), default=20.0, metavar="R", help="deltas a second, each")
    parser.add_argument("--seconds", type=_between(1, _MOST_SECONDS), default=10.0, metavar="S")
    parser.add_argument("--workers", type=_between(1, 16), default=2, metavar="W", help="processes that simulate")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to FILE, too")
    return parser


class _between:
    def __init__(self, least: float, most: float) -> None:
        self._least, self._most = least, most

    def __call__(self, text: str) -> float:
        value = float(text)
        if not self._least <= value <= self._most:
            raise argparse.ArgumentTypeError(f"from {self._least:g} to {self._most:g}")
        return value


async def _run(drones: float, watchers: float, rate: float, seconds: float, workers: float) -> Report:
    async with Stage() as stage, Crowd(stage, workers=int(workers)) as crowd:
        await crowd.grow(int(drones), watchers=int(watchers))
        return await crowd.run(int(drones), rate=rate, seconds=seconds)
