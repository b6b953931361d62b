"""Signing in and out, over REST and for live sockets."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from gadget_api.ids import new_id
from gadget_code.server.listening import bind
from gadget_code.server.web_server import web_server
from gadget_code.store.database import open_store
from tests.gadget_code.peers import PlayedDrone, RawSocket, a_web, problem
from tests.harness import Ide, User, Web

CLOSES_S = 5.0


def client(web: Web, token: str | None = None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(base_url=f"{web.url}/api/v1", headers=headers, timeout=30)


async def test_a_password_signs_in_and_the_token_grants_access_to_the_users_data(web: Web, user: User) -> None:
    async with client(web) as http:
        body = {"email": f"  {user.email.upper()} ", "password": user.password}
        answer = await http.post("/auth/login", json=body)
        assert answer.status_code == 200
        assert answer.json()["user"]["email"] == user.email
        assert answer.json().keys() == {"token", "user"}
        assert answer.headers["cache-control"] == "no-store"
        cookie = answer.headers["set-cookie"]
        half, key = answer.json()["token"].split(".")
        assert cookie.startswith(f"gadget_session={half};")
        assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
            "httponly",
            "max-age=604800",
            "path=/",
            "samesite=strict",
        }
        # The cookie, which `http` sends by itself, opens something with the page's key, and alone nothing.
        problem(await http.get("/users/me"), 401, "notAuthenticated")
        assert (await http.get("/users/me", headers={"X-Gadget-Page": key})).json()["email"] == user.email
        http.cookies.clear()
        problem(await http.get("/users/me", headers={"X-Gadget-Page": key}), 401, "notAuthenticated")
        for alone in (half, key, f"{key}.{half}", f"{half}.", f".{key}"):
            problem(await http.get("/users/me", headers={"Authorization": f"Bearer {alone}"}), 401, "notAuthenticated")


async def test_behind_https_the_cookie_is_secure(settings_for: Any) -> None:
    settings = settings_for(public_url="https://gadget.example.org", open_registration=True, port=0)
    listener, settings = bind(settings)
    async with open_store(settings) as store, web_server(settings, store, listener):
        headers = {"Host": "gadget.example.org"}
        url = f"http://127.0.0.1:{settings.port}"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
            body = {"email": "ada@example.org", "password": "correct horse"}
            answer = await http.post("/api/v1/auth/register", json=body)
            assert answer.status_code == 201
            assert "; Secure" in answer.headers["set-cookie"]
        await store.database.client.drop_database(store.database.name)


async def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(web: Web, user: User) -> None:
    async with client(web) as http:
        wrong = await http.post("/auth/login", json={"email": user.email, "password": "wrong horse"})
        unknown = await http.post("/auth/login", json={"email": f"{new_id()}@x.org", "password": "wrong horse"})
        assert problem(wrong, 401, "badCredentials") == problem(unknown, 401, "badCredentials")
        assert "wrong horse" not in wrong.text


async def test_guessing_is_stopped_even_when_all_guesses_come_at_once(mongodb_url: str, tmp_path: Path) -> None:
    # Its own service: the limit on the address would catch the other tests.
    with a_web(tmp_path, mongodb_url) as web:
        async with await web.user() as user, client(web) as http:

            async def guess(n: int) -> httpx.Response:
                return await http.post("/auth/login", json={"email": user.email, "password": f"guess {n}"})

            answers = await asyncio.gather(*(guess(n) for n in range(30)))
            assert [answer.status_code for answer in answers].count(401) == 10
            refused = await http.post("/auth/login", json={"email": user.email, "password": user.password})
            problem(refused, 429, "rateLimited")
            assert 800 < int(refused.headers["retry-after"]) <= 901
            # A password change is no way around, and another account is not held up.
            body = {"currentPassword": "guess", "newPassword": "correct horse 2"}
            problem(await user.http.post("/users/me/password", json=body), 429, "rateLimited")
            async with await web.user("grace") as grace:
                login = {"email": grace.email, "password": grace.password}
                assert (await http.post("/auth/login", json=login)).status_code == 200


async def test_signing_out_ends_the_token_and_its_sockets(web: Web, user: User) -> None:
    async with RawSocket(web.url) as raw, client(web, user.token) as http:
        assert (await raw.sign_in({"token": user.token})).startswith("40")
        answer = await http.post("/auth/logout")
        assert answer.status_code == 204
        assert 'gadget_session=""' in answer.headers["set-cookie"]
        problem(await http.get("/users/me"), 401, "notAuthenticated")
        await raw.until_closed(CLOSES_S)


async def test_a_new_password_ends_every_other_session_and_drone(web: Web, user: User) -> None:
    async with client(web) as http:
        login = {"email": user.email, "password": user.password}
        other = (await http.post("/auth/login", json=login)).json()["token"]
        async with RawSocket(web.url) as mine, RawSocket(web.url) as theirs, PlayedDrone(user) as drone:
            await mine.sign_in({"token": user.token})
            await theirs.sign_in({"token": other})
            wrong = {"currentPassword": "not this", "newPassword": "a new password"}
            problem(await user.http.post("/users/me/password", json=wrong), 401, "badCredentials")
            short = {"currentPassword": user.password, "newPassword": "a new"}
            assert "a new" not in problem(await user.http.post("/users/me/password", json=short), 422, "invalidRequest")
            right = {"currentPassword": user.password, "newPassword": "a new password"}
            assert (await user.http.post("/users/me/password", json=right)).status_code == 204
            await theirs.until_closed(CLOSES_S)
            await drone.until_closed(CLOSES_S)
            assert not mine.closed.is_set()
        for ended in (other, drone.token):
            async with client(web, ended) as theirs_now:
                problem(await theirs_now.get("/users/me"), 401, "notAuthenticated")
        assert (await user.http.get("/users/me")).status_code == 200
        problem(await http.post("/auth/login", json=login), 401, "badCredentials")
        assert (await http.post("/auth/login", json={**login, "password": "a new password"})).status_code == 200


async def test_a_removed_drone_is_disconnected(web: Web, user: User) -> None:
    async with PlayedDrone(user) as drone, Ide(user) as ide:
        assert (await user.http.delete(f"/drones/{drone.id}")).status_code == 204
        await drone.until_closed(CLOSES_S)
        assert (await user.get("/drones"))["items"] == []
        assert ide.user is user
    async with RawSocket(web.url, origin=None) as raw:
        assert "notAuthenticated" in await raw.sign_in({"token": drone.token})


async def test_registration_is_closed_unless_the_owner_opens_it(mongodb_url: str, tmp_path: Path) -> None:
    with a_web(tmp_path, mongodb_url, GADGET_OPEN_REGISTRATION="false") as web:
        async with client(web) as http:
            body: dict[str, Any] = {"email": "eve@example.org", "password": "correct horse"}
            problem(await http.post("/auth/register", json=body), 403, "registrationClosed")


async def test_an_account_is_made_once(web: Web, user: User) -> None:
    async with client(web) as http:
        body = {"email": user.email.upper(), "password": "another password"}
        problem(await http.post("/auth/register", json=body), 409, "alreadyExists")
        for bad in (
            {"email": "no address", "password": "correct horse"},
            {"email": "a@b", "password": "short-1"},
            {"email": "a@b", "password": "x" * 1025},
            {"email": "a@b", "password": "correct horse", "isAdmin": True},
        ):
            problem(await http.post("/auth/register", json=bad), 422, "invalidRequest")


async def test_an_unknown_sign_in_link_is_refused(web: Web, user: User) -> None:
    async with client(web) as http:
        for token in ("x", user.token, await user.drone_token()):
            problem(await http.post("/auth/link", json={"token": token}), 401, "notAuthenticated")
