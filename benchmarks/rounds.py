"""Measuring things in turn, so that whatever else the machine does hits all of them alike."""

import argparse
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

Step = Callable[[], Awaitable[None]]


async def medians_ms(steps: Mapping[str, Step], *, rounds: int, before: Mapping[str, Step]) -> dict[str, float]:
    """Runs each step once a round; `before` prepares a step, and is not measured. The first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            if name in before:
                await before[name]()
            began = time.perf_counter()
            await step()
            if number:
                times[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="5,000 files and few rounds")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE, too")
    return made


def report(rows: Mapping[str, Any], file: Path | None) -> None:
    for name, value in rows.items():
        print(f"{name:48} {value:10.2f}" if isinstance(value, float) else f"{name:48} {value:>10}")
    if file is not None:
        file.write_text(json.dumps(rows, indent=2) + "\n")
