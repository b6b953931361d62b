"""Accounts are the administrators' to make, to change and to remove."""

import asyncio
from typing import Any

import httpx
import pytest

from gadget_api.errors import Conflict
from gadget_api.ids import new_id
from gadget_code.store.database import MongoStore
from tests.gadget_code.peers import PlayedDrone, RawSocket, a_session, a_turn, is_processing, problem
from tests.harness import User, Web

CLOSES_S = 5.0


def address() -> str:
    return f"new-{new_id()}@example.org"


async def by_link(admin: User, url: str) -> httpx.Response:
    origin, _, token = url.partition("/#sign-in=")
    assert origin == admin.url
    async with httpx.AsyncClient(base_url=f"{origin}/api/v1", timeout=30) as http:
        return await http.post("/auth/link", json={"token": token})


async def test_only_an_administrator_sees_and_changes_accounts(user: User) -> None:
    own = f"/users/{user.document['_id']}"
    for answer in (
        await user.http.get("/users"),
        await user.http.post("/users", json={"email": address()}),
        await user.http.patch(own, json={"isAdmin": True}),
        await user.http.delete(own),
        await user.http.post(f"{own}/sign-in-link"),
    ):
        problem(answer, 403, "notAllowed")
    assert (await user.get("/users/me"))["isAdmin"] is False


async def test_a_new_account_is_signed_in_to_by_its_link_once_and_sets_its_own_password(admin: User, web: Web) -> None:
    email = address()
    answer = await admin.http.post("/users", json={"email": email.upper(), "displayName": "New One"})
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    made = answer.json()
    assert (made["user"]["email"], made["user"]["displayName"], made["user"]["isAdmin"]) == (email, "New One", False)
    signed_in = await by_link(admin, made["link"]["url"])
    token = signed_in.json()["token"]
    problem(await by_link(admin, made["link"]["url"]), 401, "notAuthenticated")
    async with User(admin.url, email, "a fresh password", token, made["user"]) as fresh:
        body = {"currentPassword": "", "newPassword": fresh.password}
        assert (await fresh.http.post("/users/me/password", json=body)).status_code == 204
        login = await fresh.http.post("/auth/login", json={"email": email, "password": fresh.password})
        assert login.status_code == 200
    problem(await admin.http.post("/users", json={"email": email}), 409, "alreadyExists")
    problem(await admin.http.post("/users", json={"email": "nobody"}), 422, "invalidRequest")
    assert f"made the account {email}" in web.output
    assert made["link"]["url"].partition("=")[2] not in web.output


async def test_an_existing_account_can_get_another_link(admin: User, user: User) -> None:
    link = await admin.post(f"/users/{user.document['_id']}/sign-in-link", {})
    assert (await by_link(admin, link["url"])).json()["user"]["_id"] == user.document["_id"]
    problem(await admin.http.post(f"/users/{new_id()}/sign-in-link"), 404, "notFound")


async def test_removing_an_account_ends_its_sign_ins_and_turns_at_once(admin: User, web: Web) -> None:
    async with await web.user("mallory") as gone, PlayedDrone(gone) as drone, RawSocket(gone.url) as socket:
        assert (await socket.sign_in({"token": gone.token})).startswith("40")
        turn = await a_turn(gone, await a_session(gone))
        await drone.order(turn["_id"])
        await is_processing(gone, turn["_id"])
        assert (await admin.http.delete(f"/users/{gone.document['_id']}")).status_code == 204
        problem(await gone.http.get("/sessions"), 401, "notAuthenticated")
        assert (await drone.until("cancelTurn"))["turnId"] == turn["_id"]
        await socket.until_closed(CLOSES_S)
        await drone.until_closed(CLOSES_S)
        login = {"email": gone.email, "password": gone.password}
        problem(await admin.http.post("/auth/login", json=login), 401, "badCredentials")
        problem(await admin.http.delete(f"/users/{gone.document['_id']}"), 404, "notFound")


async def test_each_drone_of_a_removed_account_gets_the_cancellation(admin: User, web: Web) -> None:
    async with (
        await web.user("mallory") as gone,
        PlayedDrone(gone, "one") as one,
        PlayedDrone(gone, "two") as two,
    ):
        both_heard = asyncio.Event()
        for drone in (one, two):
            turn = await a_turn(gone, await a_session(gone))
            await is_processing(gone, turn["_id"])
            drone.holds["cancelTurn"] = both_heard
        removed = asyncio.create_task(admin.http.delete(f"/users/{gone.document['_id']}"))
        for drone in (one, two):
            await drone.until("cancelTurn")
        both_heard.set()
        assert (await removed).status_code == 204
        for drone in (one, two):
            await drone.until_closed()


async def test_an_administrator_cannot_remove_the_own_account(admin: User) -> None:
    problem(await admin.http.delete(f"/users/{admin.document['_id']}"), 409, "notAllowed")


async def test_administrator_rights_are_granted_and_revoked(admin: User, user: User) -> None:
    path = f"/users/{user.document['_id']}"
    assert (await admin.http.patch(path, json={"isAdmin": True})).json()["isAdmin"] is True
    assert (await user.http.get("/users")).status_code == 200
    assert (await admin.http.patch(path, json={"isAdmin": False})).json()["isAdmin"] is False
    problem(await user.http.get("/users"), 403, "notAllowed")
    problem(await admin.http.patch(f"/users/{new_id()}", json={"isAdmin": True}), 404, "notFound")


async def admins(store: MongoStore, count: int) -> list[str]:
    made = [await store.users.create(f"{n}@example.org", None, display_name="n", is_admin=True) for n in range(count)]
    return [user.id for user in made]


async def test_one_administrator_remains_when_all_give_up_their_rights_at_once(store: MongoStore) -> None:
    for _ in range(5):
        await store.users.collection.delete_many({})
        ids = await admins(store, 4)
        done: list[Any] = await asyncio.gather(
            *(store.users.set_admin(user, is_admin=False) for user in ids), return_exceptions=True
        )
        left = await store.users.all({"isAdmin": True})
        assert len(left) >= 1, done
        assert any(isinstance(result, Exception) for result in done)


async def test_the_last_administrator_is_not_removed_while_there_are_others(store: MongoStore) -> None:
    [only] = await admins(store, 1)
    other = await store.users.create("x@example.org", None, display_name="x")
    with pytest.raises(Conflict, match="only administrator"):
        await store.users.remove(only)
    with pytest.raises(Conflict, match="only administrator"):
        await store.users.set_admin(only, is_admin=False)
    await store.users.remove(other.id)
    await store.users.remove(only)
    assert await store.users.all({}) == []
