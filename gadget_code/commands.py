"""The commands of `gadget-code`. Each imports what only it needs when it runs."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from gadget_api.disguise import marked
from gadget_api.errors import GadgetError
from gadget_api.loading import REDIS, UNUSED_BY_SOCKETIO, gc_paused, hidden_modules


def run(arguments: argparse.Namespace) -> int:
    """Runs the command `arguments.run` and returns the exit status."""
    try:
        if arguments.env_file is not None:
            _load_env_file(arguments.env_file)
        return _COMMANDS[arguments.run](arguments)
    except GadgetError as exc:
        print(f"gadget-code: {marked(exc.message)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as exc:
        print(f"gadget-code: {exc.name} is not installed: pip install 'gadget-code[web]'.", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _load_env_file(path: Path) -> None:
    """Sets the variables of the file that the environment does not set. Raises GadgetError."""
    from gadget_api.errors import InvalidInput

    try:
        lines = path.read_text().splitlines()
    except OSError as exc:
        raise InvalidInput(f"The file {path} cannot be read: {exc.strerror}.") from exc
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("\"'"))


def _settings(**overrides: Any) -> Any:
    from pydantic import ValidationError

    from gadget_api.errors import InvalidInput
    from gadget_code.settings import Settings

    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as exc:
        problem = exc.errors()[0]
        raise InvalidInput(
            f"GADGET_{str(problem['loc'][0] if problem['loc'] else '').upper()}: {problem['msg']}."
        ) from exc


def _complete(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs `work` on uvloop, where uvloop is available."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def _serve(arguments: argparse.Namespace) -> int:
    from gadget_code.runtime.logs import set_up_logs

    settings = _settings(host=arguments.host, port=arguments.port)
    set_up_logs(settings.log_level, settings.log_format)
    # Only python-socketio's client uses aiohttp.
    beside = (*UNUSED_BY_SOCKETIO, "aiohttp", *(REDIS if settings.redis_url is None else ()))
    with gc_paused(), hidden_modules(*beside):
        from gadget_code.server.serve import serve
    _complete(serve(settings, insecure=arguments.insecure))
    return 0


def _up(arguments: argparse.Namespace) -> int:
    from gadget_code.runtime.logs import set_up_logs

    with gc_paused(), hidden_modules(*UNUSED_BY_SOCKETIO):
        from gadget_code.server.up import UpOptions, up

    allow_private = None if "GADGET_ALLOW_PRIVATE_URLS" in os.environ else True
    settings = _settings(port=arguments.port, allow_private_urls=allow_private)
    # The terminal is for the user. The drone and MongoDB log to their own files.
    set_up_logs("warning" if settings.log_level == "info" else settings.log_level, settings.log_format)
    options = UpOptions(
        workspace=(arguments.workspace or Path.cwd()).absolute(),
        demo=arguments.demo,
        open_browser=not arguments.no_browser,
    )
    _complete(up(settings, options))
    return 0


def _user_add(arguments: argparse.Namespace) -> int:
    from gadget_code.auth.accounts import add_user

    password = sys.stdin.readline().rstrip("\r\n")
    user = _complete(add_user(_settings(), arguments.email, password, is_admin=arguments.admin))
    print(f"{user.email} can sign in now.")
    return 0


def _user_list(arguments: argparse.Namespace) -> int:
    from gadget_code.auth.accounts import list_users

    users = _complete(list_users(_settings()))
    if arguments.json:
        print(json.dumps([user.to_wire() for user in users]))
    else:
        for user in users:
            print(f"{user.email}{'  (admin)' if user.is_admin else ''}")
    return 0


def _user_remove(arguments: argparse.Namespace) -> int:
    from gadget_code.auth.accounts import remove_user

    _complete(remove_user(_settings(), arguments.email))
    print(f"{arguments.email} is removed.")
    return 0


def _login(arguments: argparse.Namespace) -> int:
    from gadget_code.client.login import DEFAULT_SERVER, ask_and_log_in

    server = (arguments.server or os.environ.get("GADGET_SERVER_URL") or DEFAULT_SERVER).rstrip("/")
    signed_in = _complete(ask_and_log_in(server))
    print(f"Signed in to {server} as {signed_in.user.email}.")
    return 0


def _prompt(arguments: argparse.Namespace) -> int:
    with gc_paused(), hidden_modules(*UNUSED_BY_SOCKETIO, *REDIS):
        from gadget_code.client.answers import answer_reader
        from gadget_code.client.login import sign_in
        from gadget_code.client.prompt import PromptOptions, run_prompt
        from gadget_code.client.render import JsonRenderer, Renderer, TerminalRenderer

    options = PromptOptions(
        text=sys.stdin.read() if arguments.text == "-" else arguments.text,
        project=arguments.project,
        session=arguments.session,
        continue_newest=arguments.continue_newest,
        drone=arguments.drone,
        model=arguments.model,
        level=arguments.level,
    )
    terminal = TerminalRenderer()
    renderer: Renderer = JsonRenderer() if arguments.json else terminal
    ask = answer_reader(terminal, is_json=arguments.json)

    async def run() -> bool:
        interrupts = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupts.set)
        api = await sign_in(arguments.server)
        try:
            return await run_prompt(api, options, renderer, interrupts, ask)
        finally:
            await api.close()

    try:
        return 0 if _complete(run()) else 1
    except asyncio.CancelledError:
        return 130


def _resource(arguments: argparse.Namespace) -> int:
    from gadget_code.client import resources
    from gadget_code.client.login import sign_in

    async def run() -> None:
        api = await sign_in(arguments.server)
        try:
            await getattr(resources, arguments.resource)(api, arguments)
        finally:
            await api.close()

    _complete(run())
    return 0


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "up": _up,
    "serve": _serve,
    "user_add": _user_add,
    "user_list": _user_list,
    "user_remove": _user_remove,
    "login": _login,
    "prompt": _prompt,
    "resource": _resource,
}
