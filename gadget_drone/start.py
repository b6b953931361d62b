"""`gadget-drone start`: from the command line to a running daemon."""

import asyncio
import ctypes
import getpass
import logging
import os
import signal
import socket
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from pydantic import SecretStr, ValidationError

from gadget_api import logs
from gadget_api.drones import Sandbox
from gadget_api.errors import ErrorCode, GadgetError, InvalidInput
from gadget_api.traces import create_tracer
from gadget_drone.daemon import Daemon
from gadget_drone.sandbox.probe import NoSandbox, probe
from gadget_drone.service.server import Server
from gadget_drone.settings import DroneSettings
from gadget_drone.turn.recovery import clear_up
from gadget_drone.workspace.workspace import Workspace

log = logging.getLogger(__name__)

_LOG_BYTES = 5_000_000
_LOG_FILES = 3
_REGISTER_AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0)
_PR_SET_DUMPABLE = 4


def start(directory: Path, *, server_url: str | None, name: str | None, quiet: bool) -> int:
    """Runs a drone until SIGTERM or Ctrl+C. Raises GadgetError."""
    _hide_memory()
    try:
        settings = DroneSettings() if server_url is None else DroneSettings(server_url=server_url)
    except ValidationError as exc:
        problem = exc.errors()[0]
        where = str(problem["loc"][0] if problem["loc"] else "").upper()
        raise InvalidInput(f"The setting GADGET_{where} will not do: {problem['msg']}.") from exc
    for secret in ("GADGET_DRONE_TOKEN", "GADGET_PASSWORD"):
        os.environ.pop(secret, None)
    with Workspace.open(directory, hostname=socket.gethostname() or "unknown") as workspace:
        clear_up(workspace)
        _set_up_logs(workspace.logs_dir / "drone.log", settings.log_level, quiet=quiet)
        for warning in workspace.warnings:
            log.warning("%s", warning)
        if settings.drone_token is None:
            settings = _with_credentials(settings)
        asyncio.run(_run(settings, workspace, name))
    return 0


async def _run(settings: DroneSettings, workspace: Workspace, name: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tracer = create_tracer("gadget-drone", os.environ)
    if tracer.problem is not None:
        log.warning("%s", tracer.problem)
    server = Server(settings.server_url)
    try:
        daemon = Daemon(settings, workspace, server, name, await _sandbox(settings), tracer)
        if await _register(daemon, stop):
            await daemon.run(stop)
    except GadgetError as exc:
        log.error("%s", exc.message)
        raise
    finally:
        await server.close()
        await asyncio.to_thread(tracer.close)


async def _sandbox(settings: DroneSettings) -> Sandbox:
    """Raises GadgetError when there must be one and is none, or when it is not known whether there is one."""
    try:
        sandbox = await asyncio.to_thread(probe, settings.sandbox)
    except NoSandbox as exc:
        raise GadgetError(ErrorCode.WORKSPACE_REFUSED, str(exc)) from exc
    if sandbox.kind == "none":
        log.warning("Commands run without a sandbox. %s", sandbox.reason)
    return sandbox


async def _register(daemon: Daemon, stop: asyncio.Event) -> bool:
    """Registers, again and again while the server is away; False when a stop came first. Raises GadgetError when the
    server is there and says no."""
    attempt = 0
    while True:
        try:
            await daemon.register()
            return True
        except GadgetError as exc:
            if not exc.retryable:
                raise
            log.warning("%s Trying again.", exc.message)
        try:
            await asyncio.wait_for(stop.wait(), _REGISTER_AGAIN_S[min(attempt, len(_REGISTER_AGAIN_S) - 1)])
            return False
        except TimeoutError:
            attempt += 1


def _with_credentials(settings: DroneSettings) -> DroneSettings:
    """E-mail address and password from the environment, or asked for on the terminal."""
    email, password = settings.email, settings.password
    if email is not None and password is not None:
        return settings
    if not sys.stdin.isatty():
        raise GadgetError(
            ErrorCode.NOT_AUTHENTICATED,
            "Who is this drone's user? Set GADGET_DRONE_TOKEN, or GADGET_EMAIL and GADGET_PASSWORD.",
        )
    try:
        email = email or input(f"E-mail at {settings.server_url}: ")
        typed = getpass.getpass("Password: ")
    except EOFError as exc:
        raise GadgetError(ErrorCode.NOT_AUTHENTICATED, "Nothing was entered; start again.") from exc
    return settings.model_copy(update={"email": email, "password": SecretStr(typed)})


def _set_up_logs(path: Path, level: str, *, quiet: bool) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    file = _LogFile(path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
    terminal = logging.StreamHandler(sys.stderr)
    if quiet:
        terminal.setLevel(logging.WARNING)
    logs.configure_logging(level, [file, terminal], logs.PlainText())


class _LogFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """What a full disk does not take is on the terminal; a traceback for each line would hide it there."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _hide_memory() -> None:
    """Other processes of this user may not read our environment and memory, where keys are. (Linux; root still may.)"""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
