"""Accounts, drones, sessions and watchers in numbers, and the workers that play them."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

import httpx
import orjson

from benchmarks.load.report import Report, latencies
from benchmarks.proc import cpu_s, end, memory, tree
from benchmarks.stage import Stage
from gadget_api.ids import new_id
from tests.harness import User, clean_environment

_DRONES_A_USER = 10
_AT_ONCE = 8
_ANSWER_S = 120.0
_END_S = 20.0


class _Worker:
    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.load.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=512 * 1024 * 1024,
            env=clean_environment(),
            cwd=os.getcwd(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._process, _END_S)

    async def ask(self, name: str, given: Any, timeout: float = _ANSWER_S) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(orjson.dumps({name: given}) + b"\n")
        await self._process.stdin.drain()
        async with asyncio.timeout(timeout):
            line = await self._process.stdout.readline()
        if not line:
            raise ChildProcessError("a worker of the load generator has ended; its errors are above")
        answer: dict[str, Any] = orjson.loads(line)
        return answer


@dataclass(frozen=True)
class _Pair:
    user: User
    drone_token: str
    session: str


class Crowd:
    """`async with Crowd(stage) as crowd`; `grow` adds drones, each with a session of its own, and watchers; `run` has
    some of them stream. Drones are played by the workers in turn, a watcher by another worker than its drone."""

    def __init__(self, stage: Stage, *, workers: int = 2) -> None:
        self._stage = stage
        self._count = workers
        self._stack = AsyncExitStack()
        self._pairs: list[_Pair] = []
        self._users: list[tuple[User, dict[str, Any], dict[str, Any]]] = []
        self._watchers: list[int] = []
        """Of each session."""

    async def __aenter__(self) -> Self:
        try:
            self._workers = [await self._stack.enter_async_context(_Worker()) for _ in range(self._count)]
            self._admin = await self._stack.enter_async_context(await _admin(self._stage))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def __len__(self) -> int:
        return len(self._pairs)

    async def grow(self, drones: int, *, watchers: int | None = None) -> None:
        """Adds as many drones, and as many watchers (by default one each) spread over their sessions."""
        before = len(self._pairs)
        while len(self._users) * _DRONES_A_USER < before + drones:
            self._users.append(await self._new_user())
        slots = asyncio.Semaphore(_AT_ONCE)

        async def make(number: int) -> _Pair:
            async with slots:
                return await self._new_pair(number)

        fresh = list(await asyncio.gather(*(make(number) for number in range(before, before + drones))))
        self._pairs += fresh
        self._watchers += [0] * drones
        asks: list[dict[str, Any]] = [{"url": self._stage.web.url, "drones": [], "watchers": []} for _ in self._workers]
        for number, pair in enumerate(fresh, before):
            asks[number % self._count]["drones"].append({"token": pair.drone_token})
        for number in range(drones if watchers is None else watchers):
            at = before + number % drones
            pair = self._pairs[at]
            self._watchers[at] += 1
            asks[(at + 1) % self._count]["watchers"].append({"token": pair.user.token, "session": pair.session})
        await asyncio.gather(*(worker.ask("open", ask) for worker, ask in zip(self._workers, asks, strict=True)))

    async def run(self, turns: int, *, rate: float, seconds: float) -> Report:
        """The first `turns` drones work on a turn each, and send so many deltas a second for so long."""
        active = self._pairs[:turns]
        slots = asyncio.Semaphore(_AT_ONCE)

        async def submit(pair: _Pair) -> None:
            async with slots:
                body = {"content": "Go on.", "promptId": new_id()}
                await pair.user.post(f"/sessions/{pair.session}/turns", body)

        await asyncio.gather(*map(submit, active))
        shares = [len(range(number, turns, self._count)) for number in range(self._count)]
        await asyncio.gather(*(w.ask("take", share) for w, share in zip(self._workers, shares, strict=True)))
        web, database = self._stage.web.pid, tree(self._stage.web.pid)[1:]
        lag, web_cpu, database_cpu = await self._lag(), cpu_s(web), cpu_s(*database)
        ask = {"rate": rate, "seconds": seconds}
        found = await asyncio.gather(*(w.ask("send", ask, _ANSWER_S + 2 * seconds) for w in self._workers))
        web_cpu, database_cpu = cpu_s(web) - web_cpu, cpu_s(*database) - database_cpu
        after = await self._lag()
        took = max(part["tookS"] for part in found)
        seen = [(at, late) for part in found for at, late in part["seen"]]
        in_time = sum(at <= took * 1e6 for at, _ in seen)
        sent = sum(part["sent"] for part in found)
        return Report(
            turns=turns,
            watchers=sum(self._watchers[:turns]),
            rate=rate,
            seconds=took,
            sent=sent,
            seen=in_time,
            expected=sent * sum(self._watchers[:turns]) // turns,
            **latencies(seen, took),
            late_s=max(part["lateS"] for part in found),
            unacked=sum(part["unacked"] for part in found),
            failures=sum(part["failures"] for part in found),
            web_cpu_s=web_cpu,
            database_cpu_s=database_cpu,
            generator_cpu=max(part["cpuShare"] for part in found),
            web_rss_mb=memory(web).rss_mb,
            lag_ms=_worst_lag_ms(lag, after),
        )

    async def _new_user(self) -> tuple[User, dict[str, Any], dict[str, Any]]:
        user = await self._stack.enter_async_context(await self._stage.web.user("load"))
        project = await user.project("https://example.org/project.git")
        provider = await user.provider(f"{self._stage.model.url}/v1", model="bench")
        return user, project, provider

    async def _new_pair(self, number: int) -> _Pair:
        user, project, provider = self._users[number // _DRONES_A_USER]
        place = {"hostname": "load", "workspaceDir": f"/load/{number}", "workspaceId": new_id(), "name": f"d{number}"}
        made = await user.post("/drones/registrations", place)
        session = await user.session(project, provider, drone=made["registration"]["_id"])
        return _Pair(user, made["token"], session["_id"])

    async def _lag(self) -> dict[str, int]:
        """How often the service's event loop was late, by the upper edge in seconds; each includes those below."""
        answer = await self._admin.http.get(f"{self._stage.web.url}/metrics")
        assert answer.is_success, answer.text
        found = {}
        for line in answer.text.splitlines():
            if line.startswith("gadget_event_loop_lag_seconds_bucket"):
                found[line.split('"')[1]] = int(line.rpartition(" ")[2])
        return found


def _worst_lag_ms(before: dict[str, int], after: dict[str, int]) -> float | None:
    counted = {edge: count - before.get(edge, 0) for edge, count in after.items()}
    total = max(counted.values(), default=0)
    if not total:
        return None
    return 1000 * next(float(edge) for edge, count in counted.items() if count == total)


async def _admin(stage: Stage) -> User:
    """An administrator, who may read /metrics."""
    email, password = f"admin-{new_id()}@example.org", "correct horse battery"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gadget_code", "user", "add", email, "--admin", "--password-stdin"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env=stage.web.env,
    )
    await process.communicate(f"{password}\n".encode())
    assert process.returncode == 0, "no administrator was made"
    async with httpx.AsyncClient(base_url=f"{stage.web.url}/api/v1", timeout=_END_S) as http:
        answer = await http.post("/auth/login", json={"email": email, "password": password})
    assert answer.is_success, answer.text
    signed_in = answer.json()
    return User(stage.web.url, email, password, signed_in["token"], signed_in["user"])
