"""What a prompt, a step, a page and a watcher cost the store does not grow with what is in it.

Counted by MongoDB's own profiler: commands, and the documents they looked at. A session of five turns is held against
one of hundreds, in a store that is full of others.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient

from gadget_api.ids import new_id
from tests.gadget_code.peers import Played, PlayedDrone, a_finished_turn, a_session, a_turn, a_web
from tests.harness import Ide, User, Web, until

Document = dict[str, Any]
LARGE = 400
_TURNS = 5
_QUIET_S = 0.3
_COMMANDS = 45
"""Of a turn of one step, from the prompt to the drone that waits again."""


@pytest.fixture
def own_web(tmp_path: Path, mongodb_url: str) -> Iterator[Web]:
    with a_web(tmp_path, mongodb_url) as web:
        yield web


class MongoStore:
    """The service's database, as its administrator sees it."""

    def __init__(self, client: MongoClient[Document], name: str) -> None:
        self.database = client[name]

    def multiply_sessions(self, session: str, times: int) -> None:
        """Makes many sessions of one, of the same user."""
        model = self.database.sessions.find_one({"_id": session})
        assert model is not None
        self.database.sessions.insert_many([{**model, "_id": f"00{new_id()[2:]}"} for _ in range(times)])

    def multiply(self, session: str, turn: str, times: int) -> None:
        """Makes many turns of one that is over, all of them older than it."""
        turns, events = self.database.turns, self.database.events
        model = turns.find_one({"_id": turn})
        assert model is not None
        said = list(events.find({"turn": turn}))
        ids = sorted(new_id() for _ in range(times))
        earlier = ids if session != model["session"] else [f"00{id[2:]}" for id in ids]
        turns.insert_many([{**model, "_id": id, "session": session, "promptId": new_id()} for id in earlier])
        events.insert_many(
            [{**event, "_id": f"{id}:{event['seq']:010d}", "turn": id} for id in earlier for event in said]
        )

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Fills in how many commands there were meanwhile, and how many documents and keys they looked at.

        What looks through all of a user's, as the dispatcher does, is not among the commands: how often it looks is the
        clock's. What it looked at is counted.
        """
        cost: dict[str, int] = {}
        with self.profiled() as profiled:
            yield cost
        entries = [entry for entry in profiled if not _is_housekeeping(entry)]
        cost["commands"] = sum(bool({"_id", "session", "turn"} & _named(entry.get("command", {}))) for entry in entries)
        cost["documents"] = sum(entry.get("docsExamined", 0) for entry in entries)
        cost["keys"] = sum(entry.get("keysExamined", 0) for entry in entries)

    async def reads(self, collection: str) -> None:
        """Waits until it was looked into."""

        async def was_read() -> bool | None:
            read = {"ns": f"{self.database.name}.{collection}", "op": "query"}
            return True if self.database["system.profile"].count_documents(read) else None

        await until(was_read)

    async def quiet(self) -> None:
        """Waits until nothing that was asked goes on in the background."""
        seen, since = -1, 0.0
        async with asyncio.timeout(20):
            while time.monotonic() - since < _QUIET_S:
                count = self.database["system.profile"].count_documents({"ns": {"$not": {"$regex": "system.profile$"}}})
                if count != seen:
                    seen, since = count, time.monotonic()
                await asyncio.sleep(0.05)

    @contextmanager
    def profiled(self) -> Iterator[list[Document]]:
        """Fills in what the profiler says of each command."""
        entries: list[Document] = []
        self.database.command("profile", 0)
        self.database.drop_collection("system.profile")
        self.database.command("profile", 2)
        try:
            yield entries
        finally:
            self.database.command("profile", 0)
        entries += self.database["system.profile"].find({"ns": {"$ne": f"{self.database.name}.system.profile"}})


def _is_housekeeping(entry: Document) -> bool:
    """What the service does now and then, whatever is asked: leases and the sweep."""
    command = entry.get("command", {})
    is_sweep = entry["ns"].endswith((".drones", ".tokens", ".users"))
    return is_sweep or "profile" in command or not {"_id", "session", "turn", "user"} & _named(command)


def _is_of_a_turn(entry: Document) -> bool:
    """Whether a turn caused it: leases, tokens and the sweep, which name nobody, come by the clock."""
    command = entry.get("command", {})
    if entry["op"] == "insert":
        return True
    of_somebody = {"_id", "user", "session", "turn", "drone"} & _named(command)
    return bool(of_somebody) and not entry["ns"].endswith(".tokens") and "profile" not in command


def _named(command: Document) -> set[str]:
    query = command.get("filter") or command.get("q") or command.get("query") or {}
    return set(query) if isinstance(query, dict) else set()


@pytest.fixture
def admin(own_web: Web, mongodb_url: str) -> Iterator[MongoStore]:
    client: MongoClient[Document] = MongoClient(mongodb_url)
    with client:
        yield MongoStore(client, own_web.env["GADGET_DATABASE"])


async def _cost(admin: MongoStore, ask: Callable[[Document], Awaitable[object]], session: Document) -> dict[str, int]:
    """The least of each in three rounds: what happens by the clock is not in all of them."""
    rounds: list[dict[str, int]] = []
    for _ in range(3):
        with admin.counted() as cost:
            await ask(session)
            await admin.quiet()
        rounds.append(cost)
    return {name: min(cost[name] for cost in rounds) for name in rounds[0]}


async def test_a_large_session_costs_no_more_than_a_small_one(own_web: Web, admin: MongoStore) -> None:
    async with await own_web.user() as user, PlayedDrone(user) as drone, Ide(user) as page_beside:
        small, large = await a_session(user), await a_session(user)
        for session in (small, large):
            for _ in range(5):
                await a_finished_turn(user, drone, session)

        async def page(session: Document) -> None:
            await user.get(f"/sessions/{session['_id']}/turns", limit=5)

        async def watch(session: Document) -> None:
            async with Ide(user) as ide:
                await ide.select(session["_id"])
                await admin.reads("events")  # the replay has reached the end

        async def turn(session: Document) -> None:
            done = await a_finished_turn(user, drone, session, "Go on.", {"type": "response", "content": "hm"})
            assert done["status"] == "finished"
            await _is_told_over(page_beside, done["_id"])

        async def context(session: Document) -> None:
            await _is_told_over(page_beside, await _context(user, drone, session))

        asks = ((page, 0), (watch, 20), (turn, 10), (context, 0))
        of_small_one = [await _cost(admin, ask, small) for ask, _ in asks]

        newest = (await user.get(f"/sessions/{large['_id']}/turns", limit=1))["items"][0]["_id"]
        admin.multiply(large["_id"], newest, LARGE)
        other = await a_session(user, name="another")
        admin.multiply(other["_id"], newest, LARGE)
        admin.multiply_sessions(other["_id"], LARGE)
        assert len((await user.get(f"/sessions/{large['_id']}/turns", limit=200))["items"]) == 200

        for (ask, room), of_small in zip(asks, of_small_one, strict=True):
            of_large = await _cost(admin, ask, large)
            assert of_small["commands"] > 0
            # `watch` answers the latest 20 turns, `turn` looks at the latest 10 for what is usual. The small session
            # has fewer.
            assert of_large["commands"] <= of_small["commands"] + 1, (ask.__name__, of_small, of_large)
            assert of_large["documents"] <= of_small["documents"] + room + 2, (ask.__name__, of_small, of_large)
            assert of_large["keys"] <= of_small["keys"] + room + 4, (ask.__name__, of_small, of_large)


async def _is_told_over(ide: Ide, turn: str) -> None:
    """What a turn's end says last."""
    await ide.until(lambda name, p: name == "turnStatus" and p["turn"]["_id"] == turn and p["turn"]["endedAt"])


async def _context(user: User, drone: PlayedDrone, session: Document) -> str:
    """A drone that has worked for the session before fetches what it lacks: the turn before. The turn it does so for,
    which is over then."""
    before = (await user.get(f"/sessions/{session['_id']}/turns", limit=2))["items"][1]["_id"]
    turn = await a_turn(user, session, "More.")
    order = await drone.order(turn["_id"])
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {drone.token}"}, trust_env=False, timeout=30
    ) as http:
        url = f"{user.url}/api/v1/sessions/{session['_id']}/context?afterTurn={before}"
        answer = await http.get(url)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) <= 2
    await drone.send(Played(turn, epoch=order["epoch"]).complete())
    await drone.acked(turn["_id"], 1)
    await drone.report("available")
    return str(turn["_id"])


async def test_a_simple_turn_is_a_few_dozen_commands(own_web: Web, admin: MongoStore) -> None:
    async with await own_web.user() as user, PlayedDrone(user) as drone:
        session = await a_session(user)

        async def turn() -> None:
            submitted = await a_turn(user, session)
            order = await drone.order(submitted["_id"])
            begin = {"turnId": submitted["_id"], "epoch": order["epoch"]}
            assert (await drone.call("beginTurn", begin))["ok"]
            played = Played(submitted, epoch=order["epoch"])
            for event in (played.response(), played.step(), played.complete()):
                await drone.send(event)
            await drone.acked(submitted["_id"], played.seq)
            assert (await drone.call("requestWorkspaceMode", {"mode": "idle"}))["ok"]
            await drone.report("available")

        await turn()  # what is read once is read
        with admin.profiled() as profiled:
            for _ in range(_TURNS):
                await turn()
        commands = Counter(
            f"{entry['op']} {entry['ns'].partition('.')[2]}" for entry in profiled if _is_of_a_turn(entry)
        )
        assert commands["insert turns"] == _TURNS
        assert commands.total() <= _COMMANDS * _TURNS, sorted(commands.items())


async def test_a_late_step_of_a_turn_costs_as_much_as_an_early_one(own_web: Web, admin: MongoStore) -> None:
    async with await own_web.user() as user, PlayedDrone(user) as drone:
        session = await a_session(user)
        turn = await user.post(f"/sessions/{session['_id']}/turns", {"content": "Go.", "promptId": new_id()})
        order = await drone.order(turn["_id"])
        head = {"turnId": turn["_id"], "chatSessionId": session["_id"], "epoch": order["epoch"]}
        seq = 0

        async def steps(count: int) -> None:
            nonlocal seq
            for index in range(count):
                message = {"thinking": "", "content": "x" * 50, "toolCalls": []}
                said = {"index": seq + 1, "message": message, "usage": {}, "finishReason": "stop", "model": "m"}
                seq += 1
                await drone.send({"type": "step", **head, "seq": seq, "at": turn["createdAt"], **said})
                if index % 10 == 9:  # as many groups early as late
                    await drone.acked(turn["_id"], seq)

        with admin.counted() as early:
            await steps(20)
        await steps(1000)
        with admin.counted() as late:
            await steps(20)
        assert late["documents"] <= early["documents"] + 10, (early, late)
        assert late["keys"] <= early["keys"] + 10, (early, late)
