"""Random histories: everything a user and fate may do, in any order, and then everything must end well."""

import asyncio
import tempfile
import traceback
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from gadget_ai.testing.script import Reply, Text
from gadget_api.ids import new_id
from tests.faults.mongo import Mongo
from tests.faults.oracles import check_all
from tests.faults.proxy import BLACK_HOLE, Proxy
from tests.faults.stage import staged
from tests.faults.story import Step, always, logged_call
from tests.harness import User, Web

STEPS = 12
"""The most actions in a history: some three faults at once are what mends badly, and more only take time."""
_ACTION_S = 90.0
_REQUEST_S = 60.0
_MAX_TURNS = 3

PLANS: dict[str, list[Step]] = {
    "a word": [always(lambda: Reply(Text("A word.", 2)))],
    "two tools": [
        always(lambda: Reply(Text("I look. "), logged_call(new_id(), "sleep 0.2"), logged_call(new_id()))),
        always(lambda: Reply(Text("And again."), logged_call(new_id()))),
        always(lambda: Reply(Text("Done.", 3))),
    ],
    "a slow answer": [
        always(lambda: Reply(Text("It takes a while to say it all. ", 20, 0.05), logged_call(new_id()))),
        always(lambda: Reply(Text("So it goes.", 5, 0.05))),
    ],
    "a slow tool": [
        always(lambda: Reply(logged_call(new_id(), "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.1; done"))),
        always(lambda: Reply(Text("There."))),
    ],
}


@dataclass
class World:
    """What the histories of one seed share. The first that fails is kept; those after it do nothing."""

    mongo: Mongo
    web: Web
    runner: asyncio.Runner
    user: User
    failure: str | None = None
    number: int = 0

    def run(self, act: Coroutine[Any, Any, None], within_s: float = _ACTION_S) -> None:
        self.runner.run(asyncio.wait_for(act, within_s))


@dataclass
class _Up:
    """What runs, and which links are good, as far as the history has come."""

    drone: bool = True
    frozen: bool = False
    web: bool = True
    mongo: bool = True
    journal: bool = True
    links: set[int] = field(default_factory=lambda: {0, 1, 2})


class History(RuleBasedStateMachine):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        world.number += 1
        self.log: list[str] = []
        self.up = _Up()
        self.turns: list[str] = []
        self.stack = AsyncExitStack()
        self._do("begin", self._begin)

    async def _begin(self) -> None:
        directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="gadget-history-")))
        world = self.world
        self.stage = await self.stack.enter_async_context(staged(directory, world.mongo, world.web, world.user))

    def _do(self, what: str, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self.world.failure is not None:
            return
        self.log.append(what)
        try:
            self.world.run(act())
        except Exception:  # noqa: BLE001  (told at the end; Hypothesis would play the history again, and it might pass)
            story = "\n  ".join(self.log)
            self.world.failure = f"history {self.world.number}:\n  {story}\n\n{traceback.format_exc()}"

    # What the user does

    @precondition(lambda self: self.up.web and self.up.mongo and len(self.turns) < _MAX_TURNS)
    @rule(plan=st.sampled_from(sorted(PLANS)))
    def send(self, plan: str) -> None:
        async def act() -> None:
            self.turns.append(await self.stage.prompt(f"{plan} {new_id()}", PLANS[plan]))

        self._do(f"send {plan}", act)

    @precondition(lambda self: self.up.web and self.up.mongo and bool(self.turns))
    @rule(turn=st.integers(0, _MAX_TURNS - 1))
    def cancel(self, turn: int) -> None:
        self._do(f"cancel turn {turn}", lambda: self._ask(turn, "cancel", {}))

    @precondition(lambda self: self.up.web and self.up.mongo and bool(self.turns))
    @rule(turn=st.integers(0, _MAX_TURNS - 1))
    def steer(self, turn: int) -> None:
        body = {"content": "In French.", "steerId": new_id()}
        self._do(f"steer turn {turn}", lambda: self._ask(turn, "steer", body))

    async def _ask(self, turn: int, verb: str, body: dict[str, Any]) -> None:
        path = f"/turns/{self.turns[turn % len(self.turns)]}/{verb}"
        with suppress(httpx.TransportError):  # a kept connection may have died with a service before
            answer = await self.stage.user.http.post(path, json=body, timeout=_REQUEST_S)
            assert answer.status_code != 500, answer.text

    @rule()
    def reload(self) -> None:
        async def act() -> None:
            await self.stage.watcher.sleep()
            self.stage.watcher.wake()

        self._do("reload the IDE", act)

    @rule(tenths=st.integers(1, 10))
    def wait(self, tenths: int) -> None:
        async def act() -> None:
            await asyncio.sleep(tenths / 10)

        self._do(f"wait {tenths / 10} s", act)

    # What fate does

    @precondition(lambda self: self.up.drone)
    @rule()
    def kill_drone(self) -> None:
        self.up.drone = self.up.frozen = False
        self._do("kill the drone", lambda: self.stage.kill_drone())

    @precondition(lambda self: not self.up.drone)
    @rule()
    def start_drone(self) -> None:
        self.up.drone = True
        self._do("start the drone", lambda: self.stage.start_drone())

    @precondition(lambda self: self.up.drone)
    @rule()
    def freeze_or_thaw_drone(self) -> None:
        async def act(thaw: bool = self.up.frozen) -> None:
            (self.stage.thaw if thaw else self.stage.freeze)(self.stage.drone)

        self._do("thaw the drone" if self.up.frozen else "freeze the drone", act)
        self.up.frozen = not self.up.frozen

    @precondition(lambda self: bool(self.up.links))
    @rule(
        which=st.integers(0, 2),
        how=st.sampled_from(["reset", "cut", "black hole", "cut after"]),
        count=st.integers(1, 4000),
    )
    def break_link(self, which: int, how: str, count: int) -> None:
        async def act() -> None:
            self.stage.lost_answers += which == 2
            await _break(self.stage.links[which], how, count)

        name = ("drone", "IDE", "model")[which]
        self._do(f"{how} {count if how == 'cut after' else ''} the link of the {name}", act)

    @rule(which=st.integers(0, 2))
    def mend_link(self, which: int) -> None:
        self._do(f"mend link {which}", lambda: self.stage.links[which].calm())

    @precondition(lambda self: self.up.web)
    @rule()
    def kill_web(self) -> None:
        async def act() -> None:
            self.stage.web.kill()

        self.up.web = False
        self._do("kill the web service", act)

    @precondition(lambda self: not self.up.web and self.up.mongo)
    @rule()
    def start_web(self) -> None:
        self.up.web = True
        self._do("start the web service", lambda: self.stage.start_web())

    @precondition(lambda self: self.up.mongo)
    @rule()
    def kill_mongo(self) -> None:
        async def act() -> None:
            self.stage.mongo.kill()

        self.up.mongo = False
        self._do("kill MongoDB", act)

    @precondition(lambda self: not self.up.mongo)
    @rule()
    def start_mongo(self) -> None:
        self.up.mongo = True
        self._do("start MongoDB", lambda: self.stage.start_mongo())

    @precondition(lambda self: not self.up.drone and bool(self.turns))
    @rule(
        # workspace.json has a test of its own (test_damaged_files).
        name=st.sampled_from(["work-order.json", "journal"]),
        how=st.sampled_from(["empty", "cut", "garbage"]),
    )
    def corrupt(self, name: str, how: str) -> None:
        async def act() -> None:
            gadget = self.stage.drone.gadget
            for path in list((gadget / name).iterdir()) if name == "journal" else [gadget / name]:
                if path.exists():
                    _corrupt(path, how)

        self.up.journal = False
        self._do(f"corrupt ({how}) {name}", act)

    def teardown(self) -> None:
        self._do("heal everything, and look", self._end)
        self.world.run(self._close())

    async def _end(self) -> None:
        await self.stage.heal()
        for turn in self.turns:
            await self.stage.until_over(turn)
        await check_all(self.stage, asks_again=not self.up.journal)

    async def _close(self) -> None:
        await self.stack.aclose()


async def _break(link: Proxy, how: str, count: int) -> None:
    match how:
        case "reset":
            link.reset()
        case "cut":
            await link.cut()
        case "cut after":
            link.cut_after(count)
        case "black hole":
            link.weather = BLACK_HOLE


def _corrupt(path: Path, how: str) -> None:
    data = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(data[: len(data) * 2 // 3])
        case "garbage":
            path.write_bytes(data[: len(data) // 2] + b"\x00\xff{]\n" + data[len(data) // 2 :])


def play(number: int, histories: int, mongo: Mongo, web: Web) -> None:
    """The histories of a seed. Raises AssertionError with the first that fails."""
    with asyncio.Runner() as runner:
        world = World(mongo, web, runner, runner.run(web.user()))

        @seed(number)
        def machine() -> History:
            return History(world)

        options = settings(
            max_examples=histories,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        try:
            run_state_machine_as_test(machine, settings=options)  # type: ignore[arg-type]
        finally:
            runner.run(world.user.http.aclose())
        assert world.failure is None, (
            f"scripts/test-faults --seed {number} --histories {histories} replays this.\n{world.failure}"
        )
