"""A private MongoDB: a child process behind a Unix socket, for installs without a server.

Its data is in the data directory. It has no TCP port, and is a replica set of one, so that majority writes, retryable
writes and transactions work. It is restarted when it dies, and stopped with the service. See docs/adr/0002.

Every client must authenticate. `mongodb.key` in the data directory is the only secret. MongoDB takes it as the password
of its built-in user `__system`, who may do everything and exists before any other user. At each start the service signs
in as `__system` once, and gives its own user (readWrite and dbAdmin on one database) a password that is derived from
the key. So no user is ever created without a password, there is no second file to keep in step, and a data directory
without users, or with users of another key, works after the next start.
"""

import asyncio
import fcntl
import hashlib
import hmac
import importlib.util
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from gadget_api.errors import ErrorCode, GadgetError
from gadget_code.runtime.children import start_child, stop_child
from gadget_code.store.secret_file import secret_in

log = logging.getLogger(__name__)

REPLICA_SET = "gadget"
_START_S = 60.0  # a server that replays its journal after a crash takes longer than the usual 0.6 s
_FREE_S = 20.0  # until an orphaned server has released the data
_STOP_S = 15.0
_SOCKET_NAME = "mongodb-27017.sock"  # mongod's name for it under --unixSocketPrefix
_MAX_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes on Linux, 104 on macOS
_KEY_NAME = "mongodb.key"
_SYSTEM = "__system"
_USER = "gadget-code"
_USER_NOT_FOUND = 11
_ALREADY_INITIATED = 23


def find_mongod() -> Path:
    """Finds the server's binary: on PATH, else in the wheel of the `local` extra. Raises GadgetError that names the
    alternatives."""
    if path := shutil.which("mongod"):
        return Path(path)
    # Locate the namespace package without importing it: the import would do more.
    spec = importlib.util.find_spec("fiftyone")
    for root in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(root, "db", "bin", "mongod.exe" if sys.platform == "win32" else "mongod")
        if binary.is_file():
            return binary
    raise GadgetError(
        ErrorCode.STORE_UNAVAILABLE,
        "There is no MongoDB: set GADGET_MONGODB_URL to a server of yours, or put mongod on PATH, "
        "or install the one we bring with `pip install 'gadget-code[local]'`.",
    )


@asynccontextmanager
async def private_mongod(data_dir: Path, database: str) -> AsyncIterator[str]:
    """Runs the private server while the context is open. Gives the URL, with password, of the user that may use
    `database`. Raises GadgetError when the server cannot run."""
    binary = find_mongod()
    data = data_dir / "mongodb"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    run = _socket_dir(data_dir)
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    if run.stat().st_uid != os.getuid():
        raise GadgetError(ErrorCode.STORE_UNAVAILABLE, f"The folder {run} belongs to somebody else; remove it.")
    run.chmod(0o700)
    _key(data_dir)
    server = _Mongod(binary, data, run, database)
    try:
        await server.start()
        keeper = asyncio.create_task(server.keep_running(), name="mongod keeper")
        try:
            yield _user_url(data_dir)
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
    finally:
        await server.stop()


def running_mongod(data_dir: Path) -> str | None:
    """Returns the URL that `private_mongod` gives, when another process runs it on this data directory; else None."""
    return _user_url(data_dir) if _is_listening(_socket_dir(data_dir) / _SOCKET_NAME) else None


def system_url(data_dir: Path) -> str:
    """Returns the URL, with password, of the built-in user that may do everything: for setup and tests."""
    return _url(data_dir, _SYSTEM, _key(data_dir), "local")


def _user_url(data_dir: Path) -> str:
    return _url(data_dir, _USER, _password(data_dir), "admin")


def _url(data_dir: Path, user: str, password: str, source: str) -> str:
    socket_path = quote(str(_socket_dir(data_dir) / _SOCKET_NAME), safe="")
    options = f"directConnection=true&authSource={source}&authMechanism=SCRAM-SHA-256"
    return f"mongodb://{user}:{password}@{socket_path}/?{options}"


def _password(data_dir: Path) -> str:
    return hmac.digest(bytes.fromhex(_key(data_dir)), _USER.encode(), "sha256").hex()


def _key(data_dir: Path) -> str:
    """Raises GadgetError."""
    path = data_dir / _KEY_NAME
    try:
        key = secret_in(path)
        path.chmod(0o600)  # mongod refuses a key that others can read, such as a copy from a backup
    except (OSError, ValueError) as exc:
        raise GadgetError(
            ErrorCode.STORE_UNAVAILABLE,
            f"The key of the private MongoDB, {path}, cannot be used ({exc}); remove it, and a new one is made.",
        ) from exc
    return key


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _socket_dir(data_dir: Path) -> Path:
    """Returns the folder of the socket, whose path must be short."""
    run = data_dir / "run"
    if len(str(run / _SOCKET_NAME)) <= _MAX_SOCKET_PATH:
        return run
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"gadget-{os.getuid()}-{digest}")


class _Mongod:
    def __init__(self, binary: Path, data: Path, run: Path, database: str) -> None:
        self._binary = binary
        self._data = data
        self._run = run
        self._database = database
        self._log = data.parent / "mongod.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process and waits until it takes writes."""
        try:
            async with asyncio.timeout(_FREE_S), self._turn_at_the_data() as held:
                self._process = await self._spawn(held)
            async with asyncio.timeout(_START_S):
                if await _exits_before(self._process, self._set_up()):
                    raise ChildProcessError(f"it ended with status {self._process.returncode}")
        except (TimeoutError, OSError, PyMongoError) as exc:
            log.debug("mongod did not start: %s", exc)
            last_words = self._last_words()
            await self.stop()
            raise GadgetError(
                ErrorCode.STORE_UNAVAILABLE, f"MongoDB did not start; its log is {self._log}: {last_words}"
            ) from None

    async def keep_running(self) -> None:
        while True:
            assert self._process is not None
            status = await self._process.wait()
            log.error("mongod ended with status %s and is started again", status)
            try:
                await self.start()
            except GadgetError as exc:
                log.error("%s", exc.message)
                await asyncio.sleep(5)

    async def stop(self) -> None:
        if self._process is not None:
            await stop_child(self._process, within_s=_STOP_S)

    @asynccontextmanager
    async def _turn_at_the_data(self) -> AsyncIterator[int]:
        """Gives a locked file's descriptor for the process to inherit: the lock is released when that process ends.

        An orphaned server may still be shutting down. It releases the data first and removes the socket last, by name,
        even when the name belongs to a new server by then.
        """
        with (self._run / "mongod.held").open("ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.02)
            yield file.fileno()

    async def _set_up(self) -> None:
        """Waits until the server is a primary, and sets the password and roles of the service's user."""
        socket_path = self._run / _SOCKET_NAME
        # PyMongo would retry only every half second. The socket exists 0.2 s before the server listens on it.
        while not _is_listening(socket_path):  # noqa: ASYNC110  (another process does)
            await asyncio.sleep(0.01)
        data_dir = self._data.parent
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(system_url(data_dir), serverSelectionTimeoutMS=1000)
        async with client:
            await _make_primary(client, str(socket_path))
            await _give_password(client, _password(data_dir), self._database)

    async def _spawn(self, held: int) -> asyncio.subprocess.Process:
        socket_path = self._run / _SOCKET_NAME
        socket_path.unlink(missing_ok=True)
        if self._log.exists() and self._log.stat().st_size > 10_000_000:
            self._log.replace(self._log.with_suffix(".log.1"))
        return await start_child(
            str(self._binary),
            *("--dbpath", str(self._data), "--replSet", REPLICA_SET, "--oplogSize", "64"),
            *("--bind_ip", str(socket_path), "--unixSocketPrefix", str(self._run)),
            *("--keyFile", str(self._data.parent / _KEY_NAME)),
            # Without this, any local client can create the first user of a server without users.
            *("--setParameter", "enableLocalhostAuthBypass=false"),
            # CVE-2025-14847: a zlib message exposes the server's memory to strangers.
            *("--networkMessageCompressors", "disabled"),
            *("--wiredTigerCacheSizeGB", "0.25", "--quiet", "--logpath", str(self._log), "--logappend"),
            # mongod would log slow commands whole, with users' text in them.
            *("--slowms", str(2**31 - 1)),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # Journal files of 32 MB, created when needed, instead of 100 MB, created ahead: a start writes one, which
            # took 0.4 of its 0.7 s, and three of them were 300 MB of an empty store.
            *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=[held],
        )

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - 600))
                return file.read().decode(errors="replace").strip().splitlines()[-1]
        except (OSError, IndexError):
            return "it wrote nothing"


async def _exits_before(process: asyncio.subprocess.Process, ready: Awaitable[None]) -> bool:
    """Returns whether `process` ended before `ready` was done."""
    waiting: asyncio.Future[None] = asyncio.ensure_future(ready)
    ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait((ended, waiting), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        return not waiting.done()
    finally:
        for waiter in (ended, waiting):
            waiter.cancel()
            with suppress(asyncio.CancelledError):
                await waiter


async def _make_primary(client: AsyncMongoClient[dict[str, Any]], host: str) -> None:
    while True:
        try:
            if (await client.admin.command("hello")).get("isWritablePrimary"):
                return
            members = [{"_id": 0, "host": host}]
            await client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
        except OperationFailure as exc:
            if exc.code != _ALREADY_INITIATED:
                raise
            await _follow_the_socket(client, host)
        except PyMongoError as exc:
            log.debug("mongod is not ready: %s", exc)
        await asyncio.sleep(0.02)


async def _give_password(client: AsyncMongoClient[dict[str, Any]], password: str, database: str) -> None:
    account: dict[str, Any] = {
        "pwd": password,
        "roles": [{"role": role, "db": database} for role in ("readWrite", "dbAdmin")],
        "mechanisms": ["SCRAM-SHA-256"],
    }
    try:
        await client.admin.command("updateUser", _USER, **account)
    except OperationFailure as exc:
        if exc.code != _USER_NOT_FOUND:
            raise
        await client.admin.command("createUser", _USER, **account)


async def _follow_the_socket(client: AsyncMongoClient[dict[str, Any]], host: str) -> None:
    """Updates the replica set of a data directory that was moved: it would look for its primary at its old socket."""
    config = (await client.admin.command("replSetGetConfig"))["config"]
    if config["members"][0]["host"] != host:
        config["members"][0]["host"] = host
        config["version"] += 1
        await client.admin.command("replSetReconfig", config, force=True)
