"""One user's whole system, every part of which can be killed, frozen or cut off, and brought back."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from gadget_ai.testing.script import Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from gadget_api.ids import new_id
from gadget_api.turns import ChatTurnStatus
from tests.faults.mongo import Mongo
from tests.faults.proxy import Proxy
from tests.faults.story import Book, Step, always
from tests.faults.watcher import Watcher
from tests.harness import START_S, Drone, User, Web, clean_environment, repository, until

KEY = "sk-faults-0123456789abcdef"
"""The provider's key; nothing that is kept may hold it."""
FILES = {"README.md": "# A project\n"}
ORPHANS_S = 5.0
_PATIENCE_S = 60.0
"""Once everything is healed."""
_PERSISTENCE_S = 150.0
"""Of a client that asks again while nobody answers: longer than anything is away."""
_LOOK_S = 0.05


@dataclass
class Stage:
    directory: Path
    mongo: Mongo
    web: Web
    user: User
    book: Book
    model: ScriptedServer
    drone: Drone
    drone_link: Proxy
    ide_link: Proxy
    model_link: Proxy
    session: dict[str, Any]
    watcher: Watcher
    slug: str
    web_log_begin: int
    prompts: dict[str, str] = field(default_factory=dict)
    """By turn."""
    drone_deaths: int = 0
    lost_answers: int = 0
    """How many answers of the model may have been lost on their way, whole."""
    frozen: set[int] = field(default_factory=set)
    """Process ids."""

    @property
    def checkout(self) -> Path:
        return self.drone.workspace / self.slug

    @property
    def links(self) -> tuple[Proxy, Proxy, Proxy]:
        return self.drone_link, self.ide_link, self.model_link

    @property
    def calls(self) -> list[str]:
        """Ids of the tool calls that ran, in the order they began."""
        log = self.checkout / "calls.log"
        return log.read_text().split() if log.exists() else []

    # Turns

    async def prompt(self, content: str, steps: Sequence[Step]) -> str:
        """Sends a prompt until it is accepted, as a client does that is not sure; the turn's id."""
        self.book.plans[content] = steps
        body = {"content": content, "promptId": new_id()}
        turn = (await self.rest("POST", f"/sessions/{self.session['_id']}/turns", body))["_id"]
        self.prompts[turn] = content
        return str(turn)

    async def turn(self, turn: str) -> dict[str, Any]:
        return await self.rest("GET", f"/turns/{turn}")

    async def until_over(self, turn: str, timeout: float = _PATIENCE_S) -> dict[str, Any]:
        async def over() -> dict[str, Any] | None:
            document = await self.turn(turn)
            return document if ChatTurnStatus(document["status"]).is_over else None

        try:
            found: dict[str, Any] = await until(over, timeout)
        except TimeoutError:
            raise AssertionError(f"not over after {timeout:g} s: {await self.turn(turn)}\n{self.logs()}") from None
        return found

    async def until_turn(self, turn: str, wanted: Callable[[dict[str, Any]], bool], timeout: float = 30) -> None:
        async def found() -> bool | None:
            return True if wanted(await self.turn(turn)) else None

        await until(found, timeout)

    async def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request that is made again while nobody answers, or says that it may be."""
        said = "nobody answers"
        with suppress(TimeoutError):
            async with asyncio.timeout(_PERSISTENCE_S):
                while True:
                    with suppress(httpx.TransportError):
                        answer = await self.user.http.request(method, path, json=body)
                        if answer.is_success:
                            document: dict[str, Any] = answer.json() if answer.content else {}
                            return document
                        said = answer.text
                        assert answer.status_code in (502, 503, 504), f"{method} {path}: {answer.status_code} {said}"
                    await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"{method} {path} is not answered: {said}")

    async def next_prompt_works(self) -> None:
        content = f"And now? {new_id()}"
        turn = await self.prompt(content, [always(lambda: Reply(Text("Here I am.")))])
        document = await self.until_over(turn)
        assert (document["status"], document["response"]) == ("finished", "Here I am."), document

    # Faults, and what mends them

    async def kill_drone(self) -> None:
        """SIGKILL. What its tools started is gone soon after (oracle O8)."""
        self.drone_deaths += 1
        self.drone.kill()
        await self.until_no_orphans()

    async def start_drone(self) -> None:
        """Not waited for: it may have a turn to go on with. One that runs is left alone."""
        if self.drone.has_ended:
            self.drone.start()

    def freeze(self, process: Drone | Web | Mongo) -> None:
        process.signal(signal.SIGSTOP)
        self.frozen.add(process.pid)

    def thaw(self, process: Drone | Web | Mongo) -> None:
        if process.pid in self.frozen:
            self.frozen.discard(process.pid)
            process.signal(signal.SIGCONT)

    async def start_web(self) -> None:
        if self.web.has_ended:
            await asyncio.to_thread(self.web.start)

    async def start_mongo(self) -> None:
        if self.mongo.has_ended:
            await self.mongo.start_again()

    async def heal(self) -> None:
        """Everything runs, and every link passes."""
        for process in (self.drone, self.web, self.mongo):
            if not process.has_ended:
                self.thaw(process)
        for link in self.links:
            await link.calm()
        await self.start_mongo()
        await self.start_web()
        await self.start_drone()

    # What can be seen

    def processes(self) -> list[int]:
        """Those that work in the workspace, the daemon and the dead excepted."""
        workspace, found = str(self.drone.workspace.resolve()), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.drone.pid:
                with suppress(OSError):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state not in "ZX" and str((entry / "cwd").readlink()).startswith(workspace):
                        found.append(int(entry.name))
        return found

    async def until_no_orphans(self) -> None:
        async def none() -> bool | None:
            return None if self.processes() else True

        try:
            await until(none, ORPHANS_S)
        except TimeoutError:
            found = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in self.processes()}
            raise AssertionError(f"O8: processes of the drone's tools outlive it: {found}") from None

    def journal(self, turn: str) -> str:
        path = self.drone.gadget / "journal" / f"{turn}.ndjson"
        return path.read_text(errors="replace") if path.exists() else ""

    def web_log(self) -> str:
        return self.web.output[self.web_log_begin :]

    def logs(self) -> str:
        return f"drone:\n{self.drone.output[-4000:]}\nweb:\n{self.web_log()[-3000:]}"


@asynccontextmanager
async def staged(directory: Path, mongo: Mongo, web: Web, user: User | None = None) -> AsyncIterator[Stage]:
    """A fresh session and workspace; a fresh user, too, unless one is given. `mongo` and `web` must run, and do so
    at the end."""
    book = Book()
    async with AsyncExitStack() as stack:
        if user is None:
            user = await stack.enter_async_context(await web.user())
        model = await stack.enter_async_context(ScriptedServer(Script(book)))
        port = int(web.url.rpartition(":")[2])
        drone_link, ide_link = [await stack.enter_async_context(Proxy(port)) for _ in range(2)]
        model_port = int(model.root_url.rpartition(":")[2])
        model_link = await stack.enter_async_context(Proxy(model_port))
        provider = await user.provider(f"{model_link.url}/v1", key=KEY)
        slug = f"p{new_id()}"
        project = await user.project(str(repository(directory / "origin", FILES)), slug)
        session = await user.session(project, provider)
        log_begin = len(web.output)
        drone = await drone_at(directory, user, drone_link.url)
        stack.callback(_end, drone)
        watcher = await stack.enter_async_context(Watcher(user, ide_link.url, session["_id"]))
        stage = Stage(
            *(directory, mongo, web, user, book, model, drone),
            *(drone_link, ide_link, model_link, session, watcher, slug, log_begin),
        )
        await watcher.until_connected()
        try:
            yield stage
        finally:
            await stage.heal()


async def drone_at(directory: Path, user: User, url: str, command: Sequence[str] = (), **settings: str) -> Drone:
    """A drone that reaches the web service by `url`; available when this returns."""
    workspace = directory / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    env = clean_environment(
        GADGET_SERVER_URL=url,
        GADGET_DRONE_TOKEN=await user.drone_token(),
        GADGET_ALLOW_LOCAL_GIT="true",
        GADGET_LOG_LEVEL="debug",
        **settings,
    )
    drone = Drone([*command, sys.executable, "-P", "-m", "gadget_drone"], env, directory / "drone.log", cwd=workspace)
    drone.workspace, drone.user = workspace, user
    drone.start()
    try:
        async with asyncio.timeout(START_S):
            await drone.until_available()
    except BaseException:
        _end(drone)
        raise
    return drone


def _end(drone: Drone) -> None:
    if not drone.has_ended:
        with suppress(ProcessLookupError):
            drone.signal(signal.SIGCONT)
        drone.kill()
