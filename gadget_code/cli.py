"""The arguments of `gadget-code`. The commands are in `commands`, which is imported when one runs: `--help` and wrong
usage load neither asyncio nor pydantic."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LEVELS = ("plan", "ask", "autoEdit", "full")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 success, 1 failure, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    from gadget_code.commands import run  # with asyncio and pydantic, which take five times as long to load as argparse

    return run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gadget-code", description="The web service of Gadget Code, and its client.")
    parser.add_argument("--env-file", type=Path, metavar="FILE", help="read further settings from FILE (GADGET_*=...)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="run everything on this machine: MongoDB, the web service and one drone")
    up.add_argument("--workspace", type=Path, metavar="DIR", help="the drone's directory (default: this one)")
    up.add_argument("--port", type=int, help="port of the web service (default: 4270; 0 takes a free one)")
    up.add_argument("--demo", action="store_true", help="add a scripted model and a small project, and show a turn")
    up.add_argument("--no-browser", action="store_true", help="do not open the page in a browser")
    up.set_defaults(run="up")

    serve = commands.add_parser("serve", help="run the web service only")
    serve.add_argument("--host", help="address to bind (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to bind (default: 4270; 0 takes a free one)")
    serve.add_argument("--insecure", action="store_true", help="allow a network address without TLS in front")
    serve.set_defaults(run="serve")

    user = commands.add_parser("user", help="accounts of this install").add_subparsers(required=True, metavar="ACTION")
    user_add = user.add_parser("add", help="create an account")
    user_add.add_argument("email")
    user_add.add_argument("--admin", action="store_true", help="make it an administrator of the install")
    user_add.add_argument("--password-stdin", action="store_true", required=True, help="read the password from stdin")
    user_add.set_defaults(run="user_add")
    user_list = user.add_parser("list", help="list the accounts")
    user_list.add_argument("--json", action="store_true")
    user_list.set_defaults(run="user_list")
    user_remove = user.add_parser("remove", help="remove an account and end its sessions")
    user_remove.add_argument("email")
    user_remove.set_defaults(run="user_remove")

    login = commands.add_parser("login", help="sign this terminal in to a server")
    login.add_argument("--server", metavar="URL")
    login.set_defaults(run="login")

    prompt = commands.add_parser("prompt", help="send a prompt and show the turn")
    prompt.add_argument("text", help="the prompt; - reads it from stdin")
    prompt.add_argument("--server", metavar="URL", help="default: the server you signed in to last")
    prompt.add_argument("--project", metavar="SLUG", help="default: your newest project")
    prompt.add_argument("--session", metavar="ID", help="continue this session (default: a new session)")
    prompt.add_argument("--continue", action="store_true", dest="continue_newest", help="continue the newest session")
    prompt.add_argument("--drone", metavar="NAME", help="default: any suitable drone")
    prompt.add_argument("--model", metavar="MODEL", help="default: the model you used last")
    prompt.add_argument("--level", choices=LEVELS, help="what the agent may do without asking (default: the session's)")
    prompt.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    prompt.set_defaults(run="prompt")

    _add_resources(commands)
    return parser


def _add_resources(commands: Any) -> None:
    """Adds the groups of actions. Each action is a function of `client.resources`."""

    def action(group: Any, name: str, function: str, summary: str, which: str | None = None) -> argparse.ArgumentParser:
        """`which` names the argument that selects a resource."""
        parser: argparse.ArgumentParser = group.add_parser(name, help=summary)
        if which is not None:
            parser.add_argument("which", metavar=which)
        parser.add_argument("--server", metavar="URL", help="default: the server you signed in to last")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(run="resource", resource=function)
        return parser

    def group(name: str, summary: str) -> Any:
        return commands.add_parser(name, help=summary).add_subparsers(required=True, metavar="ACTION")

    project = group("project", "your projects")
    add = action(project, "add", "project_add", "add a git repository")
    add.add_argument("slug", help="its short name, and its directory in a workspace")
    add.add_argument("git_url", metavar="GIT_URL")
    add.add_argument("--name", help="default: the slug")
    action(project, "list", "project_list", "list your projects")
    action(project, "remove", "project_remove", "remove a project", which="SLUG")

    provider = group("provider", "model providers")
    add = action(provider, "add", "provider_add", "add a provider")
    add.add_argument("name")
    add.add_argument("base_url", metavar="BASE_URL", help="such as https://api.openai.com/v1")
    add.add_argument("--type", choices=("openai", "ollama"), default="openai", help="the provider's API")
    add.add_argument("--model", action="append", default=[], metavar="ID", help="one of its models; may be repeated")
    add.add_argument("--context-window", type=int, metavar="TOKENS", help="context window of these models")
    add.add_argument("--key-stdin", action="store_true", help="read the API key from stdin")
    action(provider, "list", "provider_list", "list your providers")
    action(provider, "remove", "provider_remove", "remove a provider and its key", which="NAME")

    turn = group("turn", "turns: prompts and the work on them")
    action(turn, "show", "turn_show", "show a turn's status, and what it waits for", which="ID")
    action(turn, "cancel", "turn_cancel", "cancel a turn that waits or runs", which="ID")
    steer = action(turn, "steer", "turn_steer", "send a message to the model for its next step", which="ID")
    steer.add_argument("text", help="the message")
    move = action(turn, "continue", "turn_continue", "continue a lost drone's turn on another drone", which="ID")
    move.add_argument("--drone", metavar="NAME", help="default: any other suitable drone")
    action(turn, "diff", "turn_diff", "show what a turn changed", which="ID")

    inquiry = group("inquiry", "inquiries: what turns ask their user")
    action(inquiry, "list", "inquiry_list", "list inquiries that wait for an answer")
    action(inquiry, "show", "inquiry_show", "show an inquiry, with the exact bytes", which="ID")
    answer = action(inquiry, "answer", "inquiry_answer", "answer an inquiry", which="ID")
    answer.add_argument("choice", nargs="?", help="one of its choices")
    answer.add_argument("--text", help="an answer in words, or words with the choice")

    session = group("session", "your sessions")
    sessions = action(session, "list", "session_list", "list your sessions, newest first")
    sessions.add_argument("--archived", action="store_true", help="list archived sessions")
    action(session, "remove", "session_remove", "remove a session and its turns", which="ID")
    rename = action(session, "rename", "session_rename", "rename a session", which="ID")
    rename.add_argument("name")
    action(session, "archive", "session_archive", "archive a session", which="ID")
    action(session, "pin", "session_pin", "pin a session to the top of the list", which="ID")
    action(session, "unpin", "session_unpin", "unpin a session", which="ID")
    level = action(session, "level", "session_level", "set what the agent may do without asking, at once", which="ID")
    level.add_argument("level", choices=LEVELS)
    fork = action(session, "fork", "session_fork", "copy a session up to any turn into a new session", which="ID")
    fork.add_argument("--turn", metavar="ID", help="the last turn to copy (default: all)")
    action(session, "search", "session_search", "search all sessions").add_argument("text")
    action(session, "export", "session_export", "print a session as Markdown (with --json: JSON)", which="ID")
    action(session, "diff", "session_diff", "show what a session has changed", which="ID")
    revert = action(session, "revert", "session_revert", "revert a session to before a turn", which="ID")
    revert.add_argument("--turn", metavar="ID", help="default: its newest turn")
    revert.add_argument("--scope", choices=("files", "conversation", "both"), default="both")
    revert.add_argument("--preview", action="store_true", help="change nothing: show what would change")
    action(session, "redo", "session_redo", "redo the last revert", which="ID")

    drone = group("drone", "your drones")
    action(drone, "list", "drone_list", "list your drones")
    action(drone, "remove", "drone_remove", "remove a drone and revoke its credential", which="NAME")
    token = action(drone, "token", "drone_token", "create a credential for a new drone")
    token.add_argument("--name", help="a name for it in the list of tokens")
