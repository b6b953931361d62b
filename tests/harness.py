"""The real thing, started for tests: MongoDB, web service, drone, and an IDE client that speaks the contract.

Everything is on loopback, on free ports, bounded in time, and ended by process id.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import socketio
from pymongo import AsyncMongoClient

from gadget_api.events import EVENT_TYPES
from gadget_api.ids import new_id
from gadget_api.protocol import PROTOCOL_VERSION
from gadget_code.store.mongod import private_mongod, system_url
from tests.ports import held_port
from tests.wire_json import WireJson

START_S = 60.0
DEMO_S = 120.0
"""A whole demo: MongoDB, the service, a drone, and its turn."""
STOP_S = 30.0
WAIT_S = 30.0


@contextmanager
def mongodb() -> Iterator[str]:
    """A private MongoDB for as long as the context is open; the URL of a user that may use every database."""
    ready: threading.Event = threading.Event()
    url: list[str] = []
    failed: list[BaseException] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def host(directory: Path) -> None:
        async with private_mongod(directory, "unused") as found:
            url.append(await _user_of_all_databases(directory, found))
            event = asyncio.Event()
            stop.append((asyncio.get_running_loop(), event))
            ready.set()
            await event.wait()

    def run(directory: Path) -> None:
        try:
            asyncio.run(host(directory))
        except BaseException as exc:  # noqa: BLE001  (raised again by the thread that waits)
            failed.append(exc)
            ready.set()

    with tempfile.TemporaryDirectory(prefix="gadget-test-") as directory:
        thread = threading.Thread(target=run, args=(Path(directory),))
        thread.start()
        assert ready.wait(START_S), "MongoDB did not start"
        if failed:
            raise failed[0]
        try:
            yield url[0]
        finally:
            loop, event = stop[0]
            loop.call_soon_threadsafe(event.set)
            thread.join(STOP_S)


async def _user_of_all_databases(data_dir: Path, url: str) -> str:
    """Makes the user; `url`, as that user."""
    roles = ["readWriteAnyDatabase", "dbAdminAnyDatabase"]
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(system_url(data_dir))
    async with client:
        await client.admin.command("createUser", "tests", pwd="tests", roles=roles)
    return re.sub("//.*@", "//tests:tests@", url)


@dataclass
class Process:
    """A program under test, its output in files."""

    command: list[str]
    env: dict[str, str]
    log: Path
    cwd: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=self.env, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = STOP_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_S)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process.returncode

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


def clean_environment(**settings: str) -> dict[str, str]:
    """Ours without anything that would steer the product, and `settings`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("GADGET_", "OTEL_", "OPENAI_", "OLLAMA_", "XDG_", "http", "HTTP", "all_proxy", "ALL_PROXY")
        )
    }
    return {**kept, "PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1,localhost", **settings}


class Web(Process):
    """`gadget-code serve`, on a port of its own that survives a restart."""

    url: str = ""

    @classmethod
    def at(cls, directory: Path, mongodb_url: str | None = None, **settings: str) -> "Web":
        """Started, and ready."""
        directory.mkdir(parents=True, exist_ok=True)
        defaults = {
            "GADGET_DATA_DIR": str(directory / "data"),
            "GADGET_OPEN_REGISTRATION": "true",
            "GADGET_ALLOW_PRIVATE_URLS": "true",
            "GADGET_DATABASE": f"t{new_id()}",
            **({"GADGET_MONGODB_URL": mongodb_url} if mongodb_url is not None else {}),
        }
        env = clean_environment(**{**defaults, **settings})
        web = cls(
            [sys.executable, "-m", "gadget_code", "serve", "--port", str(held_port())], env, directory / "web.log"
        )
        return web.start()

    def start(self) -> Self:
        begin = len(self.output) if self.log.exists() else 0
        super().start()
        try:
            found = wait_for_sync(
                lambda: re.search(r"ready at (http://\S+)\n", self.output[begin:]), lambda: self.has_ended, self.log
            )
        except AssertionError:
            self.stop()
            raise
        self.url = found[1]
        return self

    async def user(self, name: str = "ada") -> "User":
        """A fresh account, signed in."""
        email = f"{name}-{new_id()}@example.org"
        async with httpx.AsyncClient(base_url=f"{self.url}/api/v1", timeout=30) as http:
            answer = await http.post("/auth/register", json={"email": email, "password": "correct horse battery"})
        assert answer.status_code == 201, answer.text
        return User(self.url, email, "correct horse battery", answer.json()["token"], answer.json()["user"])


def wait_for_sync(found: Callable[[], Any], has_ended: Callable[[], bool], log: Path, most_s: float = START_S) -> Any:
    pause = threading.Event()
    for _ in range(int(most_s / 0.02)):
        if (value := found()) is not None:
            return value
        if has_ended():
            break
        pause.wait(0.02)
    raise AssertionError(f"it did not get ready:\n{log.read_text(errors='replace')[-4000:]}")


@dataclass
class User:
    """An account and its REST client."""

    url: str
    email: str
    password: str
    token: str
    document: dict[str, Any]
    http: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.http = httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        answer = await self.http.get(path, params=params)
        assert answer.is_success, answer.text
        return answer.json()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        answer = await self.http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def project(self, git_url: str, slug: str = "project") -> dict[str, Any]:
        made: dict[str, Any] = await self.post("/projects", {"name": slug, "slug": slug, "gitUrl": git_url})
        return made

    async def provider(
        self,
        base_url: str,
        *,
        api: str = "openai",
        model: str = "scripted",
        key: str | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        made: dict[str, Any] = await self.post(
            "/providers",
            {
                "name": "scripted",
                "apiType": api,
                "baseUrl": base_url,
                "apiKey": key,
                "models": [{"id": model, "name": model, **fields}],
            },
        )
        return made

    async def session(self, project: dict[str, Any], provider: dict[str, Any], **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = await self.post(
            "/sessions",
            {
                "name": "a session",
                "project": project["_id"],
                "provider": provider["_id"],
                "selectedModel": provider["models"][0]["id"],
                **fields,
            },
        )
        return made

    async def drone_token(self) -> str:
        return str((await self.post("/drones/tokens", {}))["token"])

    async def events(self, turn: str) -> list[dict[str, Any]]:
        """All events of a turn as they are stored."""
        items: list[dict[str, Any]] = []
        after = "0"
        while True:
            page = await self.get(f"/turns/{turn}/events", afterSeq=after)
            items += page["items"]
            if page["nextCursor"] is None:
                return items
            after = page["nextCursor"]

    async def until_over(self, turn: str, timeout: float = WAIT_S) -> dict[str, Any]:
        async def over() -> dict[str, Any] | None:
            document: dict[str, Any] = await self.get(f"/turns/{turn}")
            return document if document["status"] in ("finished", "error", "cancelled") else None

        found: dict[str, Any] = await until(over, timeout)
        return found


class Drone(Process):
    """`gadget-drone` in a workspace directory."""

    workspace: Path = Path()
    user: "User"

    @classmethod
    async def at(cls, directory: Path, user: User, token: str | None = None, **settings: str) -> "Drone":
        """Started, and available."""
        token = token or await user.drone_token()
        env = clean_environment(
            GADGET_SERVER_URL=user.url,
            GADGET_DRONE_TOKEN=token,
            GADGET_ALLOW_LOCAL_GIT="true",
            GADGET_LOG_LEVEL="debug",
            **settings,
        )
        workspace = directory / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        drone = cls([sys.executable, "-P", "-m", "gadget_drone"], env, directory / "drone.log", cwd=workspace)
        drone.workspace, drone.user = workspace, user
        drone.start()
        await drone.until_available()
        return drone

    @property
    def gadget(self) -> Path:
        return self.workspace / ".gadget"

    async def registration(self) -> dict[str, Any] | None:
        items = (await self.user.get("/drones"))["items"]
        return next((item for item in items if item["workspaceDir"] == str(self.workspace.resolve())), None)

    async def until_available(self) -> dict[str, Any]:
        async def available() -> dict[str, Any] | None:
            assert not self.has_ended, self.output
            found = await self.registration()
            return found if found is not None and found["status"] == "available" else None

        try:
            found: dict[str, Any] = await until(available, START_S)
        except TimeoutError:
            raise AssertionError(self.output) from None
        return found


async def until(condition: Callable[[], Any], timeout: float = WAIT_S) -> Any:
    """What `condition` (awaited) answers when that is not None. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while (value := await condition()) is None:  # noqa: ASYNC110  (what is waited for is another process's)
            await asyncio.sleep(0.02)
        return value


class Ide:
    """An IDE's socket. Everything it was sent is in `received`, as (event, payload)."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.received: list[tuple[str, dict[str, Any]]] = []
        self._arrived = asyncio.Event()
        self._socket = socketio.AsyncClient(reconnection=False, handle_sigint=False, json=WireJson)
        self._socket.on("*", self._receive)

    async def __aenter__(self) -> Self:
        await self._socket.connect(
            self.user.url,
            auth={"token": self.user.token, "protocolVersion": PROTOCOL_VERSION},
            headers={"Origin": self.user.url},
            transports=["websocket"],
            wait_timeout=10,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.disconnect()

    async def call(self, event: str, payload: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self._socket.call(event, payload, timeout=WAIT_S)
        return reply

    async def select(self, session: str, after: tuple[str, int] | None = None) -> dict[str, Any]:
        cursor = {"turnId": after[0], "seq": after[1]} if after is not None else None
        reply = await self.call("selectSession", {"chatSessionId": session, "after": cursor})
        assert reply["ok"], reply
        return reply

    async def submit(self, session: str, content: str, prompt_id: str | None = None) -> dict[str, Any]:
        body = {"chatSessionId": session, "content": content, "promptId": prompt_id or new_id()}
        reply = await self.call("submitPrompt", body)
        assert reply["ok"], reply
        turn: dict[str, Any] = reply["turn"]
        return turn

    def events(self, turn: str) -> list[dict[str, Any]]:
        """The turn's events, as they came."""
        return [p for name, p in self.received if name in EVENT_TYPES and p["turnId"] == turn]

    async def until(
        self, wanted: Callable[[str, dict[str, Any]], bool], timeout: float = WAIT_S
    ) -> tuple[str, dict[str, Any]]:
        """The first thing received, ever, that is wanted."""
        looked = 0
        async with asyncio.timeout(timeout):
            while True:
                for name, payload in self.received[looked:]:
                    if wanted(name, payload):
                        return name, payload
                looked = len(self.received)
                self._arrived.clear()
                if looked == len(self.received):
                    await self._arrived.wait()

    async def until_complete(self, turn: str, timeout: float = WAIT_S) -> dict[str, Any]:
        """The turn's `workOrderComplete`."""
        _, payload = await self.until(lambda name, p: name == "workOrderComplete" and p["turnId"] == turn, timeout)
        return payload

    async def _receive(self, event: str, payload: Any = None) -> None:
        self.received.append((event, payload))
        self._arrived.set()


def while_there(name: str) -> str:
    """A shell command that runs until the file `name` is gone: that can be had on a full disk, too. It ends by itself
    after two minutes, so that a lost one is not for ever."""
    return f"n=0; while [ -e {name} ] && [ $n -lt 2400 ]; do n=$((n+1)); sleep 0.05; done"


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(directory), *identity, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def repository(directory: Path, files: Mapping[str, str]) -> Path:
    """A git repository with one commit of `files`."""
    directory.mkdir(parents=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git(directory, "init", "--quiet", "--initial-branch=main")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "first")
    return directory


@contextmanager
def stopped_at_end(*processes: Process) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                process.stop()
