"""`gadget-drone`: the commands. What a command needs is imported when it runs: `--help` is quick."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gadget_api.errors import GadgetError


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 failed, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        result: int = arguments.run(arguments)
        return result
    except GadgetError as exc:
        print(f"gadget-drone: {exc.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gadget-drone", description="The daemon that does the work, in a directory of this machine."
    )
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--workspace", type=Path, metavar="DIR", help="default: the current directory")
    options.add_argument("--server", metavar="URL", help="default: GADGET_SERVER_URL, or http://127.0.0.1:4270")
    _add_start(parser, options)
    commands = parser.add_subparsers(metavar="COMMAND")
    start = commands.add_parser("start", parents=[options], help="start the drone (the default)")
    start.add_argument("--name", help="default: its host and directory")
    start.set_defaults(run=_start)
    status = commands.add_parser("status", parents=[options], help="what this workspace is and holds")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)
    doctor = commands.add_parser(
        "doctor", parents=[options], help="what on this machine is missing, and how to mend it"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)
    return parser


def _add_start(parser: argparse.ArgumentParser, options: argparse.ArgumentParser) -> None:
    for action in options._actions:
        parser._add_action(action)
    parser.add_argument("--name", help="default: its host and directory")
    parser.set_defaults(run=_start)


def _start(arguments: argparse.Namespace) -> int:
    from gadget_drone.start import start

    return start(arguments.workspace or Path.cwd(), server_url=arguments.server, name=arguments.name)


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
