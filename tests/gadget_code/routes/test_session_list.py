"""The list of sessions: where each stands, with it; those that are kept on top; and what it costs the database."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.session_list import LatestTurn
from gadget_api.sessions import ChatSession
from gadget_api.tokens import TokenKind
from gadget_api.turns import ChatTurnStatus
from gadget_code.server.listening import bind
from gadget_code.server.web_server import web_server
from gadget_code.store.database import MongoStore
from gadget_code.store.latest_turns import latest_turns
from gadget_code.store.vault import Vault
from tests.gadget_code.peers import PlayedDrone, a_finished_turn, a_session, a_turn, is_processing
from tests.gadget_code.store.test_turns import turn
from tests.harness import User


class Commands(CommandListener):
    """What a client asks its database about somebody, by name. The sweep, which comes by the clock, names nobody."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        pipeline = event.command.get("pipeline") or [{}]
        query = event.command.get("filter") or pipeline[0].get("$match") or {}
        whom = [query[name] for name in ("_id", "user", "session") if name in query]
        if any(one != {"$in": []} for one in whom):
            self.names.append(event.command_name)

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...


@pytest.fixture
async def watched(settings_for: Any, mongodb_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, MongoStore, Commands]]:
    """A signed-in client of a service whose commands are counted."""
    commands = Commands()
    listener, settings = bind(settings_for(port=0))
    async with AsyncMongoClient[Any](mongodb_url, tz_aware=True, event_listeners=[commands]) as mongo:
        store = MongoStore(mongo[settings.database], Vault.open(settings.key_file), None, 2**30)
        await store.make_indexes()
        ada = await store.users.create("ada@example.org", None, display_name="Ada", user_id="u")
        token, _ = await store.tokens.issue(ada.id, TokenKind.IDE)
        async with (
            web_server(settings, store, listener),
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{settings.port}/api/v1",
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
            ) as http,
        ):
            yield http, store, commands
        await mongo.drop_database(settings.database)


async def with_turns(store: MongoStore, statuses: tuple[str, ...]) -> str:
    session = ChatSession(
        id=new_id(), created_at=utc_now(), user="u", name="n", project="p", provider="v", selected_model="m"
    )
    await store.sessions.insert(session)
    for status in statuses:
        ended = None if status in ("queued", "processing") else utc_now()
        await store.turns.insert(turn(session=session.id, status=status, ended_at=ended))
    return session.id


async def test_listing_two_hundred_sessions_needs_as_many_commands_as_two(
    watched: tuple[httpx.AsyncClient, MongoStore, Commands],
) -> None:
    http, store, commands = watched
    for _ in range(2):
        await with_turns(store, ("finished", "processing"))

    async def asked() -> tuple[list[str], int]:
        commands.names.clear()
        items = (await http.get("/sessions", params={"limit": 200})).json()["items"]
        assert all(item["latestTurn"]["status"] == "processing" for item in items)
        return sorted(commands.names), len(items)

    few, count = await asked()
    assert count == 2
    for _ in range(198):
        await with_turns(store, ("finished", "processing"))
    many, count = await asked()
    assert count == 200
    assert many == few


async def test_a_session_shows_its_oldest_unfinished_turn_or_its_newest(store: MongoStore) -> None:
    cases = {
        ("finished", "error"): (1, ChatTurnStatus.ERROR),
        ("finished", "processing", "queued"): (1, ChatTurnStatus.PROCESSING),
        ("queued", "queued", "cancelled"): (0, ChatTurnStatus.QUEUED),
        ("finished",): (0, ChatTurnStatus.FINISHED),
    }
    sessions = {statuses: await with_turns(store, statuses) for statuses in cases}
    nothing = await with_turns(store, ())
    latest = await latest_turns(store.turns, "u", [*sessions.values(), nothing])
    assert nothing not in latest
    for statuses, (place, status) in cases.items():
        found: LatestTurn = latest[sessions[statuses]]
        turns = await store.turns.all({"session": sessions[statuses]})
        assert (found.id, found.status) == (turns[place].id, status), statuses
        assert (found.ended_at is not None) is status.is_over


async def test_only_one_turn_of_a_long_session_is_read(store: MongoStore) -> None:
    session = await with_turns(store, ("finished",) * 300)
    explained = await store.database.command(
        "explain",
        {
            "aggregate": "turns",
            "pipeline": [
                {"$match": {"session": {"$in": [session]}}},
                {"$sort": {"session": 1, "_id": -1}},
                {"$group": {"_id": "$session", "turn": {"$first": "$_id"}, "status": {"$first": "$status"}}},
            ],
            "cursor": {},
        },
        verbosity="executionStats",
    )
    stats = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
    assert stats["totalDocsExamined"] <= 2, stats


async def test_running_and_finished_turns_are_shown_in_the_list(user: User, drone: PlayedDrone) -> None:
    session = await a_session(user)
    assert [item["latestTurn"] for item in (await user.get("/sessions"))["items"]] == [None]
    done = await a_finished_turn(user, drone, session)
    [listed] = (await user.get("/sessions"))["items"]
    assert listed["latestTurn"]["_id"] == done["_id"]
    assert listed["latestTurn"]["status"] == "finished"
    assert listed["latestTurn"]["endedAt"] == done["endedAt"] is not None
    running = await a_turn(user, session)
    await drone.order(running["_id"])
    await is_processing(user, running["_id"])
    await a_turn(user, session, "Then this.")
    [listed] = (await user.get("/sessions"))["items"]
    assert (listed["latestTurn"]["_id"], listed["latestTurn"]["endedAt"]) == (running["_id"], None)


async def test_a_session_is_pinned_until_it_is_unpinned(user: User) -> None:
    session, other = await a_session(user), await a_session(user)
    path = f"/sessions/{session['_id']}"
    pinned = (await user.http.patch(path, json={"pinned": True})).json()
    assert pinned["pinnedAt"] is not None
    again = (await user.http.patch(path, json={"pinned": True})).json()
    assert again["pinnedAt"] == pinned["pinnedAt"]
    assert [item["_id"] for item in (await user.get("/sessions", pinned="true"))["items"]] == [session["_id"]]
    assert {item["_id"] for item in (await user.get("/sessions"))["items"]} == {session["_id"], other["_id"]}
    assert (await user.http.patch(path, json={"pinned": False})).json()["pinnedAt"] is None
    assert (await user.get("/sessions", pinned="true"))["items"] == []
