"""A MongoDB of our own: a child process behind a Unix socket, for installs that have no server.

Data under the data directory, no TCP port, a replica set of one (so that majority writes, retryable writes and
transactions hold), started and waited for, started again when it dies, stopped with the service. See docs/adr/0002.
"""

import asyncio
import fcntl
import hashlib
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
from gadget_code.children import start_child, stop_child

log = logging.getLogger(__name__)

REPLICA_SET = "gadget"
_START_S = 60.0  # a server that has to replay its journal after a crash takes longer than the usual 0.6 s
_FREE_S = 20.0  # until one that nobody needs any more has let go of the data
_STOP_S = 15.0
_SOCKET_NAME = "mongodb-27017.sock"  # what mongod calls it under --unixSocketPrefix
_MAX_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes on Linux, 104 on macOS
_ALREADY_INITIATED = 23


def find_mongod() -> Path:
    """The server's binary: on PATH, else in the wheel of the `local` extra. Raises GadgetError naming the ways out."""
    if found := shutil.which("mongod"):
        return Path(found)
    # The wheel is a namespace package whose import would do more than locate the file.
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
async def private_mongod(data_dir: Path) -> AsyncIterator[str]:
    """Runs the private server while the context is open, and gives its URL. Raises GadgetError when it cannot."""
    binary = find_mongod()
    data = data_dir / "mongodb"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    run = _socket_dir(data_dir)
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    if run.stat().st_uid != os.getuid():
        raise GadgetError(ErrorCode.STORE_UNAVAILABLE, f"The folder {run} belongs to somebody else; remove it.")
    run.chmod(0o700)
    server = _Mongod(binary, data, run)
    url = _url(run)
    try:
        await server.start(url)
        keeper = asyncio.create_task(server.keep_running(url), name="mongod keeper")
        try:
            yield url
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
    finally:
        await server.stop()


def running_mongod(data_dir: Path) -> str | None:
    """The URL of the private server that another process of ours runs on this data directory, or None."""
    run = _socket_dir(data_dir)
    return _url(run) if _is_listening(run / _SOCKET_NAME) else None


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _url(run: Path) -> str:
    return f"mongodb://{quote(str(run / _SOCKET_NAME), safe='')}/?directConnection=true"


def _socket_dir(data_dir: Path) -> Path:
    """The folder of the socket, whose path must be short."""
    run = data_dir / "run"
    if len(str(run / _SOCKET_NAME)) <= _MAX_SOCKET_PATH:
        return run
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"gadget-{os.getuid()}-{digest}")


class _Mongod:
    def __init__(self, binary: Path, data: Path, run: Path) -> None:
        self._binary = binary
        self._data = data
        self._run = run
        self._log = data.parent / "mongod.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, url: str) -> None:
        """Starts the process and waits until it takes writes."""
        try:
            async with asyncio.timeout(_FREE_S), self._turn_at_the_data() as held:
                self._process = await self._spawn(held)
            async with asyncio.timeout(_START_S):
                if await _exits_before(self._process, _make_primary(url, self._run / _SOCKET_NAME)):
                    raise ChildProcessError(f"it ended with status {self._process.returncode}")
        except (TimeoutError, OSError, PyMongoError) as exc:
            log.debug("mongod did not start: %s", exc)
            last_words = self._last_words()
            await self.stop()
            raise GadgetError(
                ErrorCode.STORE_UNAVAILABLE, f"MongoDB did not start; its log is {self._log}: {last_words}"
            ) from None

    async def keep_running(self, url: str) -> None:
        while True:
            assert self._process is not None
            status = await self._process.wait()
            log.error("mongod ended with status %s and is started again", status)
            try:
                await self.start(url)
            except GadgetError as exc:
                log.error("%s", exc.message)
                await asyncio.sleep(5)

    async def stop(self) -> None:
        if self._process is not None:
            await stop_child(self._process, within_s=_STOP_S)

    @asynccontextmanager
    async def _turn_at_the_data(self) -> AsyncIterator[int]:
        """A locked file's descriptor for the process to inherit: it is free again when that process is gone.

        One before us, orphaned by a kill, may still be shutting down. It lets go of the data first and takes the socket
        away last, by its name, even when that has become ours.
        """
        with (self._run / "mongod.held").open("ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.02)
            yield file.fileno()

    async def _spawn(self, held: int) -> asyncio.subprocess.Process:
        socket_path = self._run / _SOCKET_NAME
        socket_path.unlink(missing_ok=True)
        if self._log.exists() and self._log.stat().st_size > 10_000_000:
            self._log.replace(self._log.with_suffix(".log.1"))
        return await start_child(
            str(self._binary),
            *("--dbpath", str(self._data), "--replSet", REPLICA_SET, "--oplogSize", "64"),
            *("--bind_ip", str(socket_path), "--unixSocketPrefix", str(self._run)),
            *("--wiredTigerCacheSizeGB", "0.25", "--quiet", "--logpath", str(self._log), "--logappend"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # The journal in files of 32 MB, made when they are needed, and not of 100 MB, made ahead: a start writes
            # one, which took 0.4 of its 0.7 s, and three of them were 300 MB of an empty store.
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
    """Whether `process` ended before `ready` was done."""
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


async def _make_primary(url: str, socket_path: Path) -> None:
    # PyMongo would look again only every half second. The socket is there 0.2 s before anyone listens on it.
    while not _is_listening(socket_path):  # noqa: ASYNC110  (another process does)
        await asyncio.sleep(0.01)
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url, serverSelectionTimeoutMS=1000)
    try:
        while True:
            try:
                if (await client.admin.command("hello")).get("isWritablePrimary"):
                    return
                members = [{"_id": 0, "host": str(socket_path)}]
                await client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
            except OperationFailure as exc:
                if exc.code != _ALREADY_INITIATED:
                    raise
                await _follow_the_socket(client, str(socket_path))
            except PyMongoError as exc:
                log.debug("mongod is not ready: %s", exc)
            await asyncio.sleep(0.02)
    finally:
        await client.close()


async def _follow_the_socket(client: AsyncMongoClient[dict[str, Any]], host: str) -> None:
    """A data directory that was moved knows itself by its old socket, and would look for its primary there for ever."""
    config = (await client.admin.command("replSetGetConfig"))["config"]
    if config["members"][0]["host"] != host:
        config["members"][0]["host"] = host
        config["version"] += 1
        await client.admin.command("replSetReconfig", config, force=True)
