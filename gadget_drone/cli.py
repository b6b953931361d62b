"""`gadget-drone`: what may be said to it. What a command does is in `commands`, imported when one runs: `--help` and
wrong usage load neither asyncio nor pydantic."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 failed, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    from gadget_drone.commands import run  # with pydantic: five times what a parser takes

    return run(arguments)


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
    parser.set_defaults(run="start", workspace=None, server=None, name=None, quiet=False)
    commands = parser.add_subparsers(metavar="COMMAND")
    commands.add_parser("start", parents=[options, starting], help="start the drone (the default)")
    status = commands.add_parser("status", parents=[options], help="what this workspace is and holds")
    status.set_defaults(run="status")
    doctor = commands.add_parser("doctor", parents=[options], help="what is missing on this machine")
    doctor.set_defaults(run="doctor")
    for command in (status, doctor):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser
