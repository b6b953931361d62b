"""Records: pages, owners, changes, and what two at once may do."""

import asyncio
from typing import Any

import pytest

from gadget_api.drones import DroneRegistration, DroneStatus
from gadget_api.errors import Conflict, InvalidInput, NotFound
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.projects import Project, ProjectChanges
from gadget_api.sessions import ChatSession, SessionChanges
from gadget_api.turns import ChatTurn, Prompts
from gadget_api.workspace import WorkspaceMode
from gadget_code.store.database import INDEXES, MongoStore, open_store


def project(user: str, slug: str) -> Project:
    return Project(
        id=new_id(), created_at=utc_now(), user=user, name=slug, slug=slug, git_url="https://example.org/x.git"
    )


def session(**fields: Any) -> ChatSession:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "name": "n", "project": "p", "provider": "v"}
    return ChatSession(**{**base, "selected_model": "m", **fields})


def turn(**fields: Any) -> ChatTurn:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "session": "s", "project": "p", "provider": "v"}
    more = {"llm": "m", "mode": "build", "status": "queued", "prompt_id": "one", "prompts": Prompts(user="Go on.")}
    return ChatTurn.model_validate({**base, **more, **fields})


def drone(**fields: Any) -> DroneRegistration:
    base = {"id": new_id(), "created_at": utc_now(), "user": "u", "name": "d", "hostname": "h", "workspace_dir": "/w"}
    more = {"workspace_id": new_id(), "status": "offline", "workspace_mode": "idle", "last_seen_at": utc_now()}
    return DroneRegistration.model_validate({**base, **more, **fields})


async def test_pages_are_newest_first_and_each_record_is_on_one_of_them(store: MongoStore) -> None:
    made = [await store.projects.insert(project("u", f"p{n}")) for n in range(7)]
    await store.projects.insert(project("other", "p0"))
    seen: list[str] = []
    cursor = None
    sizes = []
    while True:
        page = await store.projects.page({"user": "u"}, limit=3, cursor=cursor)
        seen += [item.id for item in page.items]
        sizes.append(len(page.items))
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [item.id for item in reversed(made)]
    assert sizes == [3, 3, 1]


async def test_an_exactly_full_page_is_the_last(store: MongoStore) -> None:
    for n in range(3):
        await store.projects.insert(project("u", f"p{n}"))
    page = await store.projects.page({"user": "u"}, limit=3, cursor=None)
    assert (len(page.items), page.next_cursor) == (3, None)


async def test_another_users_record_and_an_unknown_one_are_not_found(store: MongoStore) -> None:
    theirs = await store.projects.insert(project("other", "p"))
    messages = set()
    for id in (theirs.id, new_id(), "", "x\0y", '{"$ne": null}'):
        with pytest.raises(NotFound) as refused:
            await store.projects.owned("u", id)
        messages.add(refused.value.message)
        with pytest.raises(NotFound):
            await store.projects.delete("u", id)
    assert messages == {"There is no such project."}
    assert await store.projects.owned("other", theirs.id) == theirs


async def test_a_null_clears_only_nullable_fields(store: MongoStore) -> None:
    made = await store.sessions.insert(session(drone="d", workspace_id="w"))
    changes = SessionChanges.model_validate({"drone": None, "name": None, "mode": "plan"})
    changed = await store.sessions.change({"_id": made.id}, changes)
    assert changed == made.replace(drone=None, mode="plan")
    assert await store.sessions.change({"_id": made.id}, SessionChanges()) == changed
    with pytest.raises(NotFound):
        await store.sessions.change({"_id": "none"}, changes)


async def test_a_slug_is_unique_per_user(store: MongoStore) -> None:
    await store.projects.insert(project("u", "p"))
    await store.projects.insert(project("other", "p"))
    second = await store.projects.insert(project("u", "q"))
    with pytest.raises(Conflict):
        await store.projects.insert(project("u", "p"))
    with pytest.raises(Conflict):
        await store.projects.change({"_id": second.id}, ProjectChanges(slug="p"))


async def test_data_that_mongodb_cannot_store_is_the_callers_error(store: MongoStore) -> None:
    with pytest.raises(InvalidInput, match="too large to be stored"):
        await store.projects.update({"_id": "x"}, {"name": 2**64})


async def test_the_indexes_exist_and_can_be_created_again(store: MongoStore) -> None:
    await store.make_indexes()
    for name, indexes in INDEXES.items():
        present = await store.database[name].index_information()
        assert {index.document["name"] for index in indexes} <= present.keys(), name


async def test_a_prompt_submitted_many_times_at_once_is_one_turn(store: MongoStore) -> None:
    answers = await asyncio.gather(*(store.turns.submit(turn(), None) for _ in range(20)))
    assert len({made.id for made, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1
    other, is_new = await store.turns.submit(turn(session="another"), None)
    assert is_new
    assert other.id not in {made.id for made, _ in answers}


async def test_a_drone_is_claimed_by_one_turn_only(store: MongoStore) -> None:
    made = await store.drones.insert(drone())
    await store.drones.connected(made.id, "socket")
    assert await store.drones.claim(made.id, "t") is None  # it has not said that it is available
    await store.drones.report(made.id, {"status": DroneStatus.AVAILABLE})
    claims = await asyncio.gather(*(store.drones.claim(made.id, f"t{n}") for n in range(20)))
    [claimed] = [claim for claim in claims if claim is not None]
    assert claimed.status is DroneStatus.BUSY
    assert claimed.turn is not None
    assert await store.drones.release(made.id, "another") is None
    assert (await store.drones.release(made.id, claimed.turn)) is not None


async def test_a_drone_with_an_expired_lease_is_offline_and_not_claimed(store: MongoStore) -> None:
    made = await store.drones.insert(drone(workspace_mode=WorkspaceMode.USER))
    await store.drones.connected(made.id, "socket")
    await store.drones.report(made.id, {"status": DroneStatus.AVAILABLE})
    assert (await store.drones.owned("u", made.id)).status is DroneStatus.AVAILABLE
    await store.drones.collection.update_one({"_id": made.id}, {"$set": {"store.leaseUntil": utc_now()}})
    assert (await store.drones.owned("u", made.id)).status is DroneStatus.OFFLINE
    assert await store.drones.claim(made.id, "t") is None
    await store.drones.renew(["socket"])
    assert (await store.drones.owned("u", made.id)).status is DroneStatus.AVAILABLE


async def test_the_end_of_an_old_connection_does_not_affect_the_new_one(store: MongoStore) -> None:
    made = await store.drones.insert(drone())
    await store.drones.connected(made.id, "old")
    await store.drones.connected(made.id, "new")
    assert await store.drones.disconnected(made.id, "old") is None
    ended = await store.drones.disconnected(made.id, "new")
    assert ended is not None
    assert ended.status is DroneStatus.OFFLINE


async def test_two_processes_can_open_a_new_database_at_once(settings_for: Any) -> None:
    settings = settings_for()

    async def use(name: str) -> None:
        async with open_store(settings) as opened:
            await opened.users.create(f"{name}@example.org", None, display_name=name)

    await asyncio.gather(use("a"), use("b"))
    async with open_store(settings) as opened:
        assert len(await opened.users.all({})) == 2
        await opened.database.client.drop_database(opened.database.name)
