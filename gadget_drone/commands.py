"""The commands of `gadget-drone`, as `cli` reads them. What one alone needs is imported when it runs."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gadget_api.errors import GadgetError
from gadget_api.loading import gc_paused


def run(arguments: argparse.Namespace) -> int:
    """Runs the command `arguments.run`; the exit status."""
    try:
        return _COMMANDS[arguments.run](arguments)
    except GadgetError as exc:
        print(f"gadget-drone: {exc.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as exc:
        print(
            f"gadget-drone: {exc.name} is not installed; pip install 'gadget-code[drone]' brings it.", file=sys.stderr
        )
        return 1


def _start(arguments: argparse.Namespace) -> int:
    with gc_paused():
        from gadget_drone.start import start

    return start(
        arguments.workspace or Path.cwd(), server_url=arguments.server, name=arguments.name, quiet=arguments.quiet
    )


def _status(arguments: argparse.Namespace) -> int:
    from gadget_drone.status import describe, status

    found = status(arguments.workspace or Path.cwd())
    print(json.dumps(found) if arguments.json else describe(found))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from gadget_drone.doctor import examine

    server = arguments.server or os.environ.get("GADGET_SERVER_URL", "http://127.0.0.1:4270")
    findings = examine(arguments.workspace or Path.cwd(), server)
    if arguments.json:
        print(json.dumps([finding.as_dict() for finding in findings]))
    else:
        for finding in findings:
            print(f"{finding.mark} {finding.what}: {finding.says}")
    return 1 if any(finding.is_fatal for finding in findings) else 0


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {"start": _start, "status": _status, "doctor": _doctor}
