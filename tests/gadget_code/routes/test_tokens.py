"""The tokens of an account: listed without what they open, named, and ended."""

from typing import Any

import httpx

from gadget_api.ids import new_id
from tests.gadget_code.peers import PlayedDrone, RawSocket, problem
from tests.harness import User, Web

CLOSES_S = 5.0


async def signed_in_again(user: User, agent: str = "Elsewhere/1.0") -> User:
    async with httpx.AsyncClient(base_url=f"{user.url}/api/v1", headers={"User-Agent": agent}, timeout=30) as http:
        answer = await http.post("/auth/login", json={"email": user.email, "password": user.password})
    return User(user.url, user.email, user.password, answer.json()["token"], user.document)


async def listed(user: User) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await user.get("/tokens"))["items"]
    return items


async def test_a_list_of_tokens_never_contains_a_token(user: User, drone: PlayedDrone) -> None:
    async with await signed_in_again(user, "Mozilla/5.0 \x7f(X11) " + "x" * 300) as elsewhere:
        await user.post("/drones/tokens", {"name": "For the cellar"})
        answer = await user.http.get("/tokens")
        assert not any(token in answer.text for token in (user.token, elsewhere.token, drone.token))
        cellar, other, of_drone, own = answer.json()["items"]
    assert (cellar["kind"], cellar["name"], cellar["drone"]) == ("drone", "For the cellar", None)
    assert (of_drone["kind"], of_drone["drone"]) == ("drone", drone.id) or other["drone"] == drone.id
    assert own["isCurrent"]
    assert [item["isCurrent"] for item in (cellar, other, of_drone)] == [False] * 3
    browser = next(item for item in (other, of_drone) if item["kind"] == "ide")
    assert browser["client"].startswith("Mozilla/5.0 (X11) x")
    assert len(browser["client"]) == 200
    assert all(len(item["_id"]) == 24 for item in answer.json()["items"])


async def test_a_token_is_named_and_revoked_and_its_socket_closes(user: User) -> None:
    async with await signed_in_again(user) as elsewhere, RawSocket(user.url) as socket:
        assert (await socket.sign_in({"token": elsewhere.token})).startswith("40")
        [other] = [item for item in await listed(user) if not item["isCurrent"]]
        path = f"/tokens/{other['_id']}"
        assert (await user.http.patch(path, json={"name": "Kitchen"})).json()["name"] == "Kitchen"
        assert (await user.http.patch(path, json={"name": None})).json()["name"] is None
        assert (await user.http.delete(path)).status_code == 204
        problem(await elsewhere.http.get("/users/me"), 401, "notAuthenticated")
        await socket.until_closed(CLOSES_S)
        problem(await user.http.delete(path), 404, "notFound")
    assert [item["isCurrent"] for item in await listed(user)] == [True]


async def test_signing_out_everywhere_else_leaves_this_one_and_the_drones(user: User, drone: PlayedDrone) -> None:
    async with await signed_in_again(user) as one, await signed_in_again(user) as two:
        assert (await user.http.delete("/tokens")).status_code == 204
        for gone in (one, two):
            problem(await gone.http.get("/users/me"), 401, "notAuthenticated")
    assert {(item["kind"], item["isCurrent"]) for item in await listed(user)} == {("drone", False), ("ide", True)}
    await drone.report("available")


async def test_another_users_token_and_a_partial_id_are_not_found(web: Web, user: User) -> None:
    [own] = await listed(user)
    async with await web.user("eve") as eve:
        problem(await eve.http.delete(f"/tokens/{own['_id']}"), 404, "notFound")
        problem(await eve.http.patch(f"/tokens/{own['_id']}", json={"name": "x"}), 404, "notFound")
    for wrong in (own["_id"][:23], own["_id"][:12], new_id(), "~" * 24, "x"):
        problem(await user.http.delete(f"/tokens/{wrong}"), 404, "notFound")
    assert await listed(user) != []


async def test_a_drone_may_not_list_tokens(user: User, drone: PlayedDrone) -> None:
    headers = {"Authorization": f"Bearer {drone.token}"}
    problem(await user.http.get("/tokens", headers=headers), 403, "notAllowed")
