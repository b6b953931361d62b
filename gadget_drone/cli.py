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
    except ModuleNotFoundError as exc:
        print(
            f"gadget-drone: {exc.name} is not installed; pip install 'gadget-code[drone]' brings it.", file=sys.stderr
        )
        return 1


def _parser() -> argparse.ArgumentParser:
    # Options may stand before the command and after it; without a command it is `start`.
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--workspace", type=Path, metavar="DIR", help="default: the current directory")
    options.add_argument("--server", metavar="URL", help="default: GADGET_SERVER_URL, or http://127.0.0.1:4270")
    starting = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    starting.add_argument("--name", help="default: its host and directory")
    starting.add_argument("--quiet", action="store_true", help="only warnings on the terminal (the log has all)")
    parser = argparse.ArgumentParser(
        prog="gadget-drone",
        parents=[options, starting],
        description="The daemon that does the work, in a directory of this machine.",
    )
    parser.set_defaults(run=_start, workspace=None, server=None, name=None, quiet=False)
    commands = parser.add_subparsers(metavar="COMMAND")
    commands.add_parser("start", parents=[options, starting], help="start the drone (the default)")
    status = commands.add_parser("status", parents=[options], help="what this workspace is and holds")
    status.set_defaults(run=_status)
    doctor = commands.add_parser("doctor", parents=[options], help="what is missing on this machine")
    doctor.set_defaults(run=_doctor)
    for command in (status, doctor):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _start(arguments: argparse.Namespace) -> int:
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
