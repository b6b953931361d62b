"""Finds the server and the token of the terminal client."""

import asyncio
import getpass
import json
import os
import sys
from pathlib import Path

from gadget_api.errors import ErrorCode, GadgetError
from gadget_api.users import SignedIn
from gadget_code.client.api import ApiClient

DEFAULT_SERVER = "http://127.0.0.1:4270"


def _file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gadget-code" / "login.json"


def save_login(server: str, token: str) -> Path:
    """Saves the token of one server in a file that only its owner can read."""
    path = _file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"server": server, "token": token}, file)
    fresh.replace(path)
    return path


def _saved() -> tuple[str, str] | None:
    try:
        saved = json.loads(_file().read_text())
        return saved["server"], saved["token"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


async def sign_in(server: str | None) -> ApiClient:
    """Returns a client of `server` (default: the server of the last sign-in). Tries GADGET_EMAIL and GADGET_PASSWORD,
    then the saved login, then asks on the terminal. Raises GadgetError."""
    saved = _saved()
    server = (server or os.environ.get("GADGET_SERVER_URL") or (saved[0] if saved else DEFAULT_SERVER)).rstrip("/")
    email, password = os.environ.get("GADGET_EMAIL"), os.environ.get("GADGET_PASSWORD")
    if email and password:
        return ApiClient(server, (await _log_in(server, email, password)).token)
    if saved is not None and saved[0] == server:
        client = ApiClient(server, saved[1])
        if await client.is_signed_in():
            return client
        await client.close()
    return ApiClient(server, (await ask_and_log_in(server)).token)


async def ask_and_log_in(server: str) -> SignedIn:
    """Asks for e-mail address and password on the terminal, and saves the token."""
    if not sys.stdin.isatty():
        raise GadgetError(
            ErrorCode.NOT_AUTHENTICATED,
            f"Not signed in to {server}: run `gadget-code login --server {server}`, "
            "or set GADGET_EMAIL and GADGET_PASSWORD.",
        )
    try:
        email = await asyncio.to_thread(input, "E-mail: ")
        password = await asyncio.to_thread(getpass.getpass, "Password: ")
    except EOFError as exc:
        raise GadgetError(ErrorCode.NOT_AUTHENTICATED, "Nothing was entered; sign in again.") from exc
    signed_in = await _log_in(server, email, password)
    save_login(server, signed_in.token)
    return signed_in


async def _log_in(server: str, email: str, password: str) -> SignedIn:
    client = ApiClient(server, None)
    try:
        answer = await client.post("/auth/login", {"email": email, "password": password})
        return SignedIn.model_validate(answer)
    finally:
        await client.close()
