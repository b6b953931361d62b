"""Whatever else the store holds, a question looks at what it answers, and at little more.

Counted by MongoDB's own profiler: the documents and keys that it looked at, in a store with hundreds of each kind that
are not asked for.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from gadget_api.ids import new_id
from gadget_api.inquiries import Inquiry
from gadget_api.model import WireModel, utc_now
from gadget_api.providers import Provider
from gadget_api.tokens import TokenKind
from gadget_api.turns import TurnStats
from gadget_api.usage import UsageBy
from gadget_api.users import User
from gadget_code.store.database import MongoStore
from gadget_code.store.queue import queue, reorder
from gadget_code.store.records import stamped
from gadget_code.store.tokens import Caller
from gadget_code.store.usage import usage
from tests.gadget_code.peers import an_inquiry
from tests.gadget_code.store.test_records import drone, project, session
from tests.gadget_code.store.test_turns import turn

LARGE = 400
ROOM = 12
"""What may be looked at and not be answered."""

Ask = Callable[[MongoStore], Awaitable[object]]


async def put(store: MongoStore, collection: str, records: Sequence[WireModel], **kept: Any) -> None:
    await store.database[collection].insert_many([stamped(record.model_dump(), **kept) for record in records])


@asynccontextmanager
async def looked_at(store: MongoStore) -> AsyncIterator[list[dict[str, Any]]]:
    """Fills in what the profiler says of each command."""
    entries: list[dict[str, Any]] = []
    database = store.database
    await database.command("profile", 0)
    await database.drop_collection("system.profile")
    await database.command("profile", 2)
    try:
        yield entries
    finally:
        await database.command("profile", 0)
    entries += await database["system.profile"].find({"ns": {"$ne": f"{database.name}.system.profile"}}).to_list()


async def check(store: MongoStore, ask: Ask, room: int = ROOM) -> None:
    for _ in range(2):  # the second time with the plan that MongoDB has kept
        async with looked_at(store) as entries:
            await ask(store)
        assert entries
        looked = max(sum(entry.get(of, 0) for entry in entries) for of in ("docsExamined", "keysExamined"))
        assert looked <= room, [(entry.get("planSummary"), entry["command"]) for entry in entries]


def over(**fields: Any) -> Any:
    stats = TurnStats(step_count=1, input_tokens=1)
    return turn(**{"status": "finished", "ended_at": utc_now(), "last_seq": 3, "stats": stats, **fields})


async def _page(store: MongoStore, **which: Any) -> object:
    given = {"project": None, "archived": False, "pinned": False, **which}
    return await store.sessions.listed("u", **given, limit=5, cursor=None)


SESSIONS: dict[str, Ask] = {
    "current": lambda store: _page(store),
    "archived": lambda store: _page(store, archived=True),
    "pinned": lambda store: _page(store, pinned=True),
    "of a project": lambda store: _page(store, project="few"),
    "archived, of a project": lambda store: _page(store, project="few", archived=True),
    "of a project, whichever": lambda store: store.sessions.find({"user": "u", "project": "none"}),
    "of a provider": lambda store: store.sessions.find({"user": "u", "provider": "none"}),
}


@pytest.mark.parametrize("which", SESSIONS)
async def test_listing_sessions_reads_no_other_sessions(store: MongoStore, which: str) -> None:
    few = [session(project="few"), session(project="few", archived_at=utc_now())]
    many = [session(archived_at=utc_now()) for _ in range(LARGE)] if which != "archived" else []
    await put(store, "sessions", [*few, *many, *(session() for _ in range(2 if which == "current" else LARGE))])
    await check(store, SESSIONS[which])


UNFINISHED: dict[str, Ask] = {
    "count": lambda store: store.turns.count_queued("u", "s"),
    "queue": lambda store: queue(store.turns, "u", "s"),
    "order": lambda store: reorder(store.turns, "u", "s", ["one"]),
    "of a session": lambda store: store.turns.unfinished({"user": "u", "session": "s"}),
    "of a drone": lambda store: store.turns.running_on(drone(id="d")),
    "of a user": lambda store: store.turns.unfinished({"user": "u"}),
}


@pytest.mark.parametrize("which", UNFINISHED)
async def test_other_users_unfinished_turns_are_not_read(store: MongoStore, which: str) -> None:
    ours = [turn(prompt_id="one"), turn(session="t", status="processing", drone="d")]
    done = [over() for _ in range(LARGE)]
    theirs = [
        turn(user="v", session=new_id(), status=status) for status in ("queued", "processing") for _ in range(LARGE)
    ]
    await put(store, "turns", [*done, *ours, *theirs])
    await check(store, UNFINISHED[which])


TURNS: dict[str, Ask] = {
    "newest": lambda store: store.turns.newest("s"),
    "before": lambda store: store.turns.previous_and_trace(over(id="~")),
    "usual": lambda store: store.turns.usual_usage(over(id="~")),
    "spent": lambda store: store.turns.spent_before(over(id="~")),
    "in order": lambda store: store.turns.in_order("s", after=None, up_to="~", limit=100),
    "all": lambda store: store.turns.from_turn("s", "0"),
    "usage": lambda store: usage(
        store.turns, "u", UsageBy.DAY, utc_now() - timedelta(days=1), utc_now() + timedelta(days=1)
    ),
}


@pytest.mark.parametrize("which", TURNS)
async def test_a_small_sessions_turns_are_found_without_reading_others(store: MongoStore, which: str) -> None:
    theirs = [over(user="v", session="t") for _ in range(LARGE)]
    await put(store, "turns", theirs[: LARGE // 2])
    await put(store, "turns", [over() for _ in range(3)])
    await put(store, "turns", theirs[LARGE // 2 :])
    await check(store, TURNS[which])


async def test_a_budgets_sum_reads_only_the_sessions_turns(store: MongoStore) -> None:
    """The index over all ids would do as well, as long as the session's turns are the first of all."""
    await put(store, "turns", [over() for _ in range(LARGE)])
    await put(store, "turns", [over(user="v", session="t") for _ in range(4 * LARGE)])
    await check(store, lambda store: store.turns.spent_before(over(id="~")), LARGE + ROOM)


async def test_finding_the_first_checkpoint_reads_only_turns_with_one(store: MongoStore) -> None:
    await put(store, "turns", [over() for _ in range(LARGE)])
    await check(store, lambda store: store.turns.first_with_checkpoint("s"))
    await put(store, "turns", [over(checkpoint="a" * 40)])
    await check(store, lambda store: store.turns.first_with_checkpoint("s"))
    assert await store.turns.first_with_checkpoint("s") is not None


async def test_a_redo_reads_no_turns_before_the_reverted_ones(store: MongoStore) -> None:
    await put(store, "turns", [over() for _ in range(LARGE)])
    taken = over()
    await put(store, "turns", [taken])
    at = utc_now()
    await store.turns.mark_reverted([taken.id], at)
    await check(store, lambda store: store.turns.unmark_reverted("s", taken.id, at))
    assert not (await store.turns.owned("u", taken.id)).reverted


async def test_counting_turns_by_status_reads_no_finished_turns(store: MongoStore) -> None:
    await put(store, "turns", [*(over() for _ in range(LARGE)), turn(), turn(status="processing")])
    await check(store, lambda store: store.turns.count_by_status())
    assert await store.turns.count_by_status() == {"queued": 1, "processing": 1, "over": LARGE}


def _inquiry(of: str, session: str, user: str = "u") -> Inquiry:
    return Inquiry.model_validate(an_inquiry({"_id": of, "session": session, "user": user}))


@pytest.mark.parametrize("query", [{"status": "pending"}, {"session": "few"}, {"status": "pending", "session": "few"}])
async def test_open_inquiries_are_found_without_reading_closed_ones(store: MongoStore, query: dict[str, str]) -> None:
    answered = [_inquiry("t", "s").replace(status="answered") for _ in range(LARGE)]
    await put(store, "inquiries", [_inquiry("t", "few"), *answered], taken=True)
    await put(store, "inquiries", [_inquiry("t", "s", "v") for _ in range(LARGE)], taken=False)
    await check(store, lambda store: store.inquiries.page({"user": "u", **query}, limit=5, cursor=None))


async def test_a_turns_newest_inquiries_are_found_without_reading_the_rest(store: MongoStore) -> None:
    for of in ("t", "another"):
        await put(store, "inquiries", [_inquiry(of, "s") for _ in range(LARGE)], taken=True)
    await check(store, lambda store: store.inquiries.newest(turn(id="t")), 100 + ROOM)
    await check(store, lambda store: store.inquiries.undelivered_to(turn(id="t")))


async def test_an_accounts_newest_tokens_are_found_without_reading_the_rest(store: MongoStore) -> None:
    tokens = [{"user": "u", "kind": "drone", "createdAt": utc_now(), "usedAt": utc_now()} for _ in range(LARGE)]
    expires = {"expiresAt": utc_now() + timedelta(days=1), "schemaVersion": 1}
    await store.database.tokens.insert_many([{**token, **expires, "_id": new_id()} for token in tokens])
    await check(store, lambda store: store.tokens.infos(Caller("u", TokenKind.IDE, "x")), 200 + ROOM)


async def test_administrators_are_found_without_reading_other_users(store: MongoStore) -> None:
    root, other = [await store.users.create(f"{name}@example.org", None, display_name=name) for name in ("a", "b")]
    await store.users.set_admin(root.id, True)
    many = [User(id=new_id(), created_at=utc_now(), email=f"{n}@e.org", display_name="") for n in range(LARGE)]
    await put(store, "users", many)

    async def change(store: MongoStore) -> None:
        await store.users.set_admin(other.id, True)
        await store.users.set_admin(other.id, False)

    await check(store, change, 2 * ROOM)


@pytest.mark.parametrize("kind", ["projects", "providers"])
async def test_a_page_of_a_users_records_reads_no_other_users(store: MongoStore, kind: str) -> None:
    def one(user: str) -> WireModel:
        if kind == "projects":
            return project(user, new_id())
        base = {"id": new_id(), "created_at": utc_now(), "user": user, "name": new_id()}
        return Provider(**base, api_type="openai", base_url="https://example.org/v1")

    first = [one("u") for _ in range(LARGE)]
    await put(store, kind, [*first, *(one("v") for _ in range(LARGE))])
    hint = {"projects": "user", "providers": "newest"}[kind]
    await check(store, lambda store: getattr(store, kind).page({"user": "u"}, limit=5, cursor=None, hint=hint))
