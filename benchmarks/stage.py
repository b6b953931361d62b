"""What a bench runs on: the scripted model and the floor's service in processes of their own, the real web service
with its private MongoDB, real drones, and watchers. All on loopback, ended by process id."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import orjson

from benchmarks.proc import end
from benchmarks.wire import Wire
from gadget_api.ids import new_id
from gadget_api.protocol import PROTOCOL_VERSION
from tests.harness import Drone, Process, User, Web, clean_environment, repository

TURN_S = 300.0
_END_S = 10.0
CONTEXT_TOKENS = 50_000_000
"""Of the model: no bench but that of compaction is to compact."""


@dataclass
class Helper:
    """A program of the benches that prints one line, {"url"}, and ends with its stdin."""

    module: str
    url: str = ""
    _process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        # Not in our environment alone: what steers proxies would steer the floor's client, too.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self.module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=clean_environment(),
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(_END_S):
            line = await self._process.stdout.readline()
        self.url = orjson.loads(line)["url"]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        await end(self._process, _END_S)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


class Model(Helper):
    def __init__(self) -> None:
        super().__init__("benchmarks.model")

    async def notes(self, tag: str, *, until: Callable[[list[dict[str, int]]], bool] = bool) -> list[dict[str, int]]:
        """What it noted of the requests with this tag, in nanoseconds of `time.perf_counter_ns`."""
        async with httpx.AsyncClient() as http, asyncio.timeout(_END_S):
            while True:
                found: list[dict[str, int]] = (await http.get(f"{self.url}/notes?{tag}")).json()
                if until(found):
                    return found
                await asyncio.sleep(0.02)


def new_tag() -> str:
    return new_id()[-12:]


def plan(tag: str, **wishes: float | str) -> str:
    """A prompt that tells the scripted model what to do; see `benchmarks.model`."""
    return "bench:" + ";".join([f"tag={tag}", *(f"{name}={wish}" for name, wish in wishes.items())])


class Watcher:
    """An IDE that watches one session: what it gets, with the nanosecond it came."""

    def __init__(self, wire: Wire, session: str) -> None:
        self.wire = wire
        self.session = session
        self.text: list[tuple[int, str]] = []
        """Deltas of answers: when they came, and what they said."""
        self.ended: dict[str, int] = {}
        """By turn: when its `workOrderComplete` came."""
        self.drone_is_free = True
        """What the drone that last changed has said; there is one, where this is looked at."""
        self.failures: list[str] = []
        """What turns said that ended by an error: a bench does not measure those."""
        self._changed = asyncio.Event()
        wire.on_event = self._take

    def _take(self, name: str, payload: Any) -> None:
        now = time.perf_counter_ns()
        if name == "response":
            self.text.append((now, payload["content"]))
        elif name == "workOrderComplete":
            self.ended[payload["turnId"]] = now
            if payload["status"] == "error":
                self.failures.append(payload["message"])
        elif name == "droneStatus":
            self.drone_is_free = payload["drone"]["status"] == "available"
        elif name == "done":  # the floor's
            self.ended["done"] = now
        self._changed.set()

    async def until(self, wanted: Callable[[], bool], timeout: float = TURN_S) -> None:
        async with asyncio.timeout(timeout):
            while not wanted():
                self._changed.clear()
                await self._changed.wait()
        if self.failures:
            raise RuntimeError(f"a turn failed: {self.failures[0]}")

    async def until_ended(self, turn: str) -> int:
        """The nanosecond at which its end came."""
        await self.until(lambda: turn in self.ended)
        return self.ended[turn]

    async def submit(self, content: str) -> str:
        """The turn's id."""
        ask = {"chatSessionId": self.session, "content": content, "promptId": new_id()}
        return str((await self.wire.call("submitPrompt", ask))["turn"]["_id"])

    async def run(self, content: str) -> str:
        """A whole turn; its id."""
        turn = await self.submit(content)
        await self.until_ended(turn)
        return turn


@asynccontextmanager
async def watching(user: User, session: str, after: dict[str, Any] | None = None) -> AsyncIterator[Watcher]:
    auth = {"token": user.token, "protocolVersion": PROTOCOL_VERSION}
    async with Wire(user.url, auth, origin=user.url) as wire:
        watcher = Watcher(wire, session)
        await wire.call("selectSession", {"chatSessionId": session, "after": after})
        yield watcher


@asynccontextmanager
async def watching_floor(floor: Helper, room: str) -> AsyncIterator[Watcher]:
    async with Wire(floor.url) as wire:
        watcher = Watcher(wire, room)
        await wire.call("watch", {"room": room})
        yield watcher


@dataclass
class Stage:
    """`async with Stage() as stage`: an account, a project, the services; `drone()` starts one more drone."""

    drones: list[Drone] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        try:
            self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gadget-bench-")))
            self.model = await self._stack.enter_async_context(Model())
            self.floor = await self._stack.enter_async_context(Helper("benchmarks.floors.relay"))
            self.web = await asyncio.to_thread(
                Web.at,
                self.directory / "web",
                None,
                GADGET_DATABASE="gadget",
                GADGET_LOG_LEVEL="warning",
                GADGET_TRUSTED_PROXIES="127.0.0.1",  # so that one address may have thousands of connections
            )
            self._ended_with(self.web)
            self.user = await self._stack.enter_async_context(await self.web.user())
            files = {"README.md": "# A project\n", "app.py": "def answer():\n    return 41\n"}
            origin = await asyncio.to_thread(repository, self.directory / "origin", files)
            self.project = await self.user.project(str(origin))
            self.provider = await self.user.provider(
                f"{self.model.url}/v1", model="bench", contextWindow=CONTEXT_TOKENS
            )
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _ended_with(self, process: Process) -> None:
        async def stop() -> None:
            await asyncio.to_thread(process.stop)

        self._stack.push_async_callback(stop)

    async def drone(self, **settings: str) -> Drone:
        """A real one, available."""
        drone = await self.start_drone(**settings)
        await drone.until_available()
        return drone

    async def start_drone(self, **settings: str) -> Drone:
        """Only started, in a workspace of its own. Its log is as quiet as in use."""
        number = len(self.drones)
        workspace = self.directory / f"workspace{number}"
        workspace.mkdir()
        env = clean_environment(
            GADGET_SERVER_URL=self.user.url,
            GADGET_DRONE_TOKEN=await self.user.drone_token(),
            GADGET_ALLOW_LOCAL_GIT="true",
            **settings,
        )
        command = [sys.executable, "-P", "-m", "gadget_drone"]
        drone = Drone(command, env, self.directory / f"drone{number}.log", cwd=workspace)
        drone.workspace, drone.user = workspace, self.user
        drone.start()
        self.drones.append(drone)
        self._ended_with(drone)
        return drone

    async def session(self, **fields: Any) -> str:
        """Its id."""
        return str((await self.user.session(self.project, self.provider, **fields))["_id"])

    @property
    def database_url(self) -> str:
        """Of the web service's private MongoDB, as the user that may use every database."""
        from gadget_code.store.mongod import system_url

        return system_url(self.directory / "web/data")


async def run_floor(*arguments: str) -> None:
    """The floor's loop as a process of its own, to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.floors.loop", *arguments, env=clean_environment(), cwd=os.getcwd()
    )
    async with asyncio.timeout(TURN_S):
        assert await process.wait() == 0, "the floor's loop failed"
