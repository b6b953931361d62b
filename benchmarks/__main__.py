"""`scripts/bench`: runs benches and prints the table; see docs/explanation/performance.md.

scripts/bench [NAME ...] [--quick] [--json FILE] [--plots DIR] [--list]
scripts/bench load --drones N --watchers M --rate R --seconds S
"""

import argparse
import asyncio
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Line, Result, Scale
from benchmarks.benches.all import BENCHES
from benchmarks.figures import Row, as_json, table
from benchmarks.load import command as load
from benchmarks.plot import write_charts
from benchmarks.proc import load_average


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 when every bench ran, whatever it says; 1 when one did not; 2 for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # As Ctrl+C, which a shell has its background jobs ignore: what was started is stopped on the way out.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return _main(given)
    except KeyboardInterrupt:
        return 130


def _main(given: Sequence[str]) -> int:
    if given[:1] == ["load"]:
        return load.main(given[1:])
    asked = _parser().parse_args(given)
    if asked.list:
        width = max(len(bench.name) for bench in BENCHES)
        print("\n".join(f"{bench.name:<{width}}  {bench.says}" for bench in BENCHES))
        return 0
    by_name = {bench.name: bench for bench in BENCHES}
    if unknown := [name for name in asked.names if name not in by_name]:
        print(f"scripts/bench: there is no bench {unknown[0]!r}; `scripts/bench --list` names them.", file=sys.stderr)
        return 2
    return _run([by_name[name] for name in asked.names] or list(BENCHES), Scale(asked.quick), asked.json, asked.plots)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to run; without one, everything")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, within 5 minutes: only to see that it runs"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE, too")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write charts (SVG) to DIR")
    parser.add_argument("--list", action="store_true", help="name the benches")
    return parser


def _run(benches: Sequence[Bench], scale: Scale, json_file: Path | None, plots: Path | None) -> int:
    rows: list[Row] = []
    lines: list[Line] = []
    failed: list[str] = []
    begun, loads = time.monotonic(), [load_average()]
    for bench in benches:
        print(f"{bench.name}: {bench.says} …", file=sys.stderr, flush=True)
        bench_begun = time.monotonic()
        result = Result(())
        try:
            result = asyncio.run(bench.run(scale))
        except Exception as exc:  # noqa: BLE001  (the door of a bench: the others run, and the status says it)
            print(f"{bench.name} did not run: {type(exc).__name__}: {exc}", file=sys.stderr)
            failed.append(bench.name)
        loads.append(load_average())
        rows += result.rows
        lines += result.lines
        print(f"{table(result.rows)}\n  in {time.monotonic() - bench_begun:.0f} s", file=sys.stderr, flush=True)
        if json_file is not None:  # after each: who stops a long run has what it came to
            json_file.write_text(as_json(rows, **_about(scale, time.monotonic() - begun, loads), failed=failed))
    print(table(rows))
    print(f"\n{_sentence(_about(scale, time.monotonic() - begun, loads))}")
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for path in write_charts(lines, plots):
            print(path)
    if failed:
        print(f"did not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _about(scale: Scale, seconds: float, loads: Sequence[float]) -> dict[str, Any]:
    """What a figure has to be read with."""
    return {
        "quick": scale.quick,
        "seconds": round(seconds),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "loadAverage": [round(min(loads), 2), round(max(loads), 2)],
    }


def _sentence(about: dict[str, Any]) -> str:
    least, most = about["loadAverage"]
    said = f"{about['processors']} processors, Python {about['python']}, load {least} to {most}, {about['seconds']} s"
    return f"{said}; quick: small numbers, no verdict" if about["quick"] else said


if __name__ == "__main__":
    sys.exit(main())
