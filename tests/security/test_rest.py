"""REST against whoever has no token, the wrong token, another's ids, or a body that is none."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gadget_api.ids import new_id
from gadget_code.app import create_api
from tests.gadget_code.peers import Played, PlayedDrone, a_session, a_turn, a_web, an_inquiry, problem, raw_http
from tests.harness import Ide, User, Web, until

OPEN = {
    ("POST", "/api/v1/auth/login"),
    ("POST", "/api/v1/auth/link"),
    ("POST", "/api/v1/auth/register"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
}
"""The routes that need no token: this list is the whole of it."""
FOR_DRONES = {
    ("GET", "/api/v1/drones/me"),
    ("GET", "/api/v1/sessions/{session_id}/context"),
    ("PUT", "/api/v1/turns/{turn_id}/blobs/{blob_id}"),
}
FOR_BOTH = {
    ("POST", "/api/v1/drones/registrations"),
    ("POST", "/api/v1/images"),
    ("GET", "/api/v1/images/{image_id}"),
    ("GET", "/api/v1/version"),
}


def routes() -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, item in create_api().openapi()["paths"].items() for method in item}


def filled(path: str) -> str:
    for name in ("project", "provider", "session", "turn", "blob", "drone", "inquiry", "image", "token", "user"):
        path = path.replace(f"{{{name}_id}}", "x" * 24)
    assert "{" not in path
    return path


@pytest.fixture
async def http(web: Web) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=web.url, timeout=30) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), sorted(routes() - OPEN))
async def test_no_token_opens_nothing(http: httpx.AsyncClient, method: str, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp4"}, {"Cookie": "gadget_session=x"}):
        body: dict[str, Any] | None = {} if method in ("POST", "PATCH") else None
        answer = await http.request(method, filled(path), json=body, headers=headers)
        problem(answer, 401, "notAuthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_drones_token_opens_drone_routes_and_an_ides_none_of_these(http: httpx.AsyncClient, user: User) -> None:
    bearer = "Bearer "
    async with PlayedDrone(user) as drone:
        for method, path in sorted(routes() - OPEN - FOR_BOTH):
            token = user.token if (method, path) in FOR_DRONES else drone.token
            body: dict[str, Any] | None = {} if method in ("POST", "PATCH") else None
            headers = {"Authorization": bearer + token}
            answer = await http.request(method, filled(path), json=body, headers=headers)
            problem(answer, 403, "notAllowed")
        # One that is bound to no workspace is no drone's yet.
        headers = {"Authorization": bearer + await user.drone_token()}
        for method, path in FOR_DRONES | {route for route in FOR_BOTH if "/images" in route[1]}:
            problem(await http.request(method, filled(path), headers=headers), 403, "notAllowed")


async def _is_offline(user: User, drone: PlayedDrone) -> bool | None:
    items = (await user.get("/drones"))["items"]
    return True if any(item["_id"] == drone.id and item["status"] == "offline" for item in items) else None


async def test_a_drone_sees_only_the_turn_and_the_session_it_works_on(http: httpx.AsyncClient, user: User) -> None:
    async with PlayedDrone(user) as drone:
        session = await a_session(user)
        turn = await a_turn(user, session)
        await drone.order(turn["_id"])
        async with PlayedDrone(user, "other") as other:
            for token, status in ((drone.token, 200), (other.token, 404)):
                headers = {"Authorization": f"Bearer {token}"}
                answer = await http.get(f"/api/v1/sessions/{session['_id']}/context", headers=headers)
                assert answer.status_code == status
            for token, status in ((other.token, 404), (drone.token, 204)):
                headers = {"Authorization": f"Bearer {token}"}
                answer = await http.put(f"/api/v1/turns/{turn['_id']}/blobs/b1", content=b"hello", headers=headers)
                assert answer.status_code == status
            assert (await user.http.get(f"/turns/{turn['_id']}/blobs/b1")).content == b"hello"
            # Its token registers its own workspace again, and no other.
            headers = {"Authorization": f"Bearer {drone.token}"}
            body = {"hostname": "here", "workspaceDir": "/played", "workspaceId": drone.workspace_id}
            again = await http.post("/api/v1/drones/registrations", json=body, headers=headers)
            assert again.json()["registration"]["_id"] == drone.id
            assert (await http.get("/api/v1/drones/me", headers=headers)).json()["workspaceId"] == drone.workspace_id
            copied = {**body, "workspaceDir": "/copy"}
            answer = await http.post("/api/v1/drones/registrations", json=copied, headers=headers)
            problem(answer, 409, "workspaceInUse")
            # Nor when it is away for a moment, or for long with a turn that is not over.
            await drone.disconnect()
            await until(lambda: _is_offline(user, drone))
            answer = await http.post("/api/v1/drones/registrations", json=copied, headers=headers)
            problem(answer, 409, "workspaceInUse")
            assert turn["_id"] in answer.json()["detail"]
            stolen = {**body, "workspaceId": other.workspace_id}
            answer = await http.post("/api/v1/drones/registrations", json=stolen, headers=headers)
            problem(answer, 403, "workspaceMismatch")


async def test_another_users_inquiry_is_not_there_and_no_drone_answers_one(
    http: httpx.AsyncClient, user: User, web: Web
) -> None:
    async with PlayedDrone(user) as drone, await web.user("eve") as eve, PlayedDrone(eve, "hers") as hers:
        turn = await a_turn(user, await a_session(user))
        await drone.order(turn["_id"])
        inquiry = an_inquiry(turn)
        await drone.send(Played(turn).event("inquiryAsked", inquiry=inquiry))
        await drone.acked(turn["_id"], 1)
        path = f"/inquiries/{inquiry['_id']}"
        problem(await eve.http.get(path), 404, "notFound")
        problem(await eve.http.post(f"{path}/answer", json={"choice": "once"}), 404, "notFound")
        for query in ({}, {"session": turn["session"]}, {"status": "pending"}):
            assert (await eve.get("/inquiries", **query))["items"] == []
        for token in (drone.token, hers.token):
            headers = {"Authorization": f"Bearer {token}"}
            answer = await http.post(f"/api/v1{path}/answer", json={"choice": "once"}, headers=headers)
            problem(answer, 403, "notAllowed")
        # Nor does a drone speak for a turn that is not its own.
        await hers.send(Played(turn, seq=1).event("inquiryAnswered", answer=_answer(inquiry)))
        await hers.until("turnRevoked")
        async with Ide(eve) as ide:
            reply = await ide.call("answerInquiry", {"inquiryId": inquiry["_id"], "choice": "once"})
            assert (reply["ok"], reply["error"]["code"]) == (False, "notFound")
        assert (await user.get(path))["status"] == "pending"
        # An inquiry of hers cannot take the place of another's.
        own = await a_turn(eve, await a_session(eve))
        await hers.order(own["_id"])
        stolen = an_inquiry(own, _id=inquiry["_id"], title="Hers")
        await hers.send(Played(own).event("inquiryAsked", inquiry=stolen))
        await hers.acked(own["_id"], 1)
        assert (await user.get(path))["title"] == inquiry["title"]
        problem(await eve.http.get(path), 404, "notFound")
        await hers.send(Played(own, seq=1).event("inquiryAnswered", answer=_answer(inquiry)))
        await hers.acked(own["_id"], 2)
        assert (await user.get(path))["status"] == "pending"


def _answer(inquiry: dict[str, Any]) -> dict[str, Any]:
    return {"inquiryId": inquiry["_id"], "status": "answered", "answer": {"choice": "once"}}


async def test_figures_are_for_administrators(user: User, web: Web, http: httpx.AsyncClient) -> None:
    problem(await http.get("/metrics", headers={"Authorization": f"Bearer {user.token}"}), 403, "notAllowed")
    assert (await http.get("/health/live")).json() == (await http.get("/health/ready")).json() == {"status": "ok"}


async def test_every_error_is_a_problem_document(user: User, http: httpx.AsyncClient) -> None:
    headers = {"Authorization": f"Bearer {user.token}", "Content-Type": "application/json"}
    problem(await http.get("/api/v1/nothing"), 404, "notFound")
    problem(await http.get("/nothing.html"), 404, "notFound")
    problem(await http.delete("/api/v1/projects", headers=headers), 405, "methodNotAllowed")
    for body in (b"{", b"", b"null", b"[]", b'"x"', b"\xff", b'{"a":' * 100_000, b"[" * 500_000, b'{"name": NaN}'):
        answer = await http.post("/api/v1/projects", content=body, headers=headers)
        assert answer.status_code in (400, 422), body[:20]
        problem(answer, answer.status_code, "invalidRequest")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        valid = json.dumps({"name": "n", "slug": "s", "gitUrl": "https://example.org/a"})
        answer = await http.post("/api/v1/projects", content=valid, headers={**headers, "Content-Type": kind})
        problem(answer, 422, "invalidRequest")


async def test_a_body_past_the_limit_is_refused_by_its_header_and_by_its_length(web: Web, user: User) -> None:
    head = f"POST /api/v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {user.token}\r\n"
    head += "Content-Type: application/json\r\nConnection: close\r\n"
    declared = await raw_http(web.url, (head + "Content-Length: 99999999\r\n\r\n{").encode())
    assert declared.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"tooLarge"' in declared
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    chunked = await raw_http(web.url, (head + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunk * 40)
    # The answer may be cut off by our own sending; the service has to stay whole.
    assert chunked == b"" or chunked.startswith(b"HTTP/1.1 413 ")
    async with PlayedDrone(user) as drone:
        turn = await a_turn(user, await a_session(user))
        await drone.order(turn["_id"])
        head = f"PUT /api/v1/turns/{turn['_id']}/blobs/b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Authorization: Bearer {drone.token}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        answer = await raw_http(web.url, head.encode() + chunk * 600)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")
    assert (await user.http.get("/users/me")).status_code == 200


async def test_a_request_that_is_left_in_the_middle_harms_nothing(web: Web, user: User) -> None:
    head = f"POST /api/v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {user.token}\r\n"
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", int(web.url.rpartition(":")[2]))
        writer.write((head + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{").encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await user.http.get("/users/me")).status_code == 200


@pytest.mark.parametrize("id", ["x", "%00", "%24ne", "..%2f..", "%F0%9F%98%80", "x" * 5000, '%7B"%24gt"%3A""%7D'])
async def test_an_id_that_is_none_is_not_found(user: User, id: str) -> None:
    for kind in ("projects", "providers", "sessions", "turns", "drones", "inquiries", "images"):
        problem(await user.http.get(f"/{kind}/{id}"), 404, "notFound")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=-1", "limit=x", f"limit={10**30}"],
)
async def test_a_lists_limit_has_bounds(user: User, query: str) -> None:
    for kind in ("projects", "providers", "sessions", "drones", "inquiries"):
        problem(await user.http.get(f"/{kind}?{query}"), 422, "invalidRequest")


async def test_lists_go_through_pages(user: User) -> None:
    made = [(await user.project("https://example.org/a.git", f"p{n}"))["_id"] for n in range(5)]
    seen, cursor = [], None
    while True:
        page = await user.get("/projects", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [item["_id"] for item in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert seen == made[::-1]
    assert (await user.get("/projects", cursor="$ne\0"))["items"] == []
    assert len((await user.get("/projects", limit=200))["items"]) == 5


async def test_numbers_past_what_the_store_holds_are_refused(user: User) -> None:
    turn = await a_turn(user, await a_session(user))
    for path in (f"/turns/{turn['_id']}/steps?cursor={2**64}", f"/turns/{turn['_id']}/events?afterSeq={10**30}"):
        problem(await user.http.get(path), 422, "invalidRequest")
    for field, value in (("contextWindow", 2**63), ("contextWindow", 1e400), ("contextWindow", -1)):
        model = {"id": "m", "name": "m", field: value}
        body = json.dumps(
            {"name": "n", "apiType": "openai", "baseUrl": "http://127.0.0.1:9", "models": [model]}
        ).replace("Infinity", "1e400")
        headers = {"Content-Type": "application/json"}
        problem(await user.http.post("/providers", content=body, headers=headers), 422, "invalidRequest")


async def test_errors_do_not_say_what_was_sent(http: httpx.AsyncClient, user: User) -> None:
    secret = "hunter2-hunter2"
    for path, body in (
        ("/auth/login", {"email": ["x"], "password": {"p": secret}}),
        ("/auth/login", {"email": "a@b", "password": secret * 100}),
        ("/auth/register", {"email": secret, "password": "short"}),
        ("/auth/register", {"email": "a@b", "password": secret, "extra": secret}),
        ("/auth/link", {"token": secret * 50}),
        ("/providers", {"name": "n", "apiType": secret, "baseUrl": "ftp://" + secret, "apiKey": [secret]}),
        ("/providers", {"name": "n", "apiType": "openai", "baseUrl": f"http://u:{secret}@h/", "apiKey": secret}),
        ("/projects", {"name": "n", "slug": secret.upper(), "gitUrl": f"https://u:{secret}@host/x"}),
    ):
        headers = {"Authorization": f"Bearer {user.token}"}
        answer = await http.post("/api/v1" + path, json=body, headers=headers)
        assert secret not in json.dumps(problem(answer, 422, "invalidRequest"))


async def test_what_is_in_use_is_not_deleted(user: User) -> None:
    session = await a_session(user)
    turn = await a_turn(user, session)
    for path in (f"/projects/{session['project']}", f"/providers/{session['provider']}"):
        problem(await user.http.delete(path), 409, "alreadyExists")
    problem(await user.http.delete(f"/sessions/{session['_id']}"), 409, "turnNotRunning")
    await user.post(f"/turns/{turn['_id']}/cancel", {})
    assert (await user.http.delete(f"/sessions/{session['_id']}")).status_code == 204
    for path in (f"/sessions/{session['_id']}", f"/turns/{turn['_id']}", f"/turns/{turn['_id']}/events"):
        problem(await user.http.get(path), 404, "notFound")
    for path in (f"/projects/{session['project']}", f"/providers/{session['provider']}"):
        assert (await user.http.delete(path)).status_code == 204
        problem(await user.http.delete(path), 404, "notFound")


async def test_a_change_changes_what_it_names_and_a_null_breaks_nothing(user: User) -> None:
    project = await user.project("https://example.org/a.git")
    other = await user.project("https://example.org/a.git", "other")
    changed = await user.http.patch(f"/projects/{project['_id']}", json={"name": "New", "slug": None})
    assert changed.json() == {**project, "name": "New"}
    problem(await user.http.patch(f"/projects/{other['_id']}", json={"slug": "project"}), 409, "alreadyExists")
    for bad in ({"_id": "x"}, {"user": "x"}, {"slug": "../x"}, {"slug": ".git"}, {"gitUrl": "ext::sh -c x"}):
        problem(await user.http.patch(f"/projects/{project['_id']}", json=bad), 422, "invalidRequest")
    provider = await user.provider("http://127.0.0.1:9", key="sk-0123456789abcdef")
    nulls = {"name": None, "apiType": None, "baseUrl": None, "models": None}
    changed = await user.http.patch(f"/providers/{provider['_id']}", json=nulls)
    assert changed.json() == provider
    assert (await user.get("/providers"))["items"] == [provider]
    me = await user.http.patch("/users/me", json={"displayName": "Ada L."})
    assert me.json() == {**user.document, "displayName": "Ada L."}
    for forbidden in ({"isAdmin": True}, {"email": "x@y"}):
        problem(await user.http.patch("/users/me", json=forbidden), 422, "invalidRequest")


async def test_the_same_prompt_is_one_turn_whichever_way_and_however_often_it_comes(user: User) -> None:
    session = await a_session(user)
    body = {"content": "Go on.", "promptId": new_id()}
    turns = await asyncio.gather(*(user.post(f"/sessions/{session['_id']}/turns", body) for _ in range(8)))
    assert len({turn["_id"] for turn in turns}) == 1
    assert len((await user.get(f"/sessions/{session['_id']}/turns"))["items"]) == 1
    for content, status, code in (("", 422, "invalidRequest"), (" \n", 422, "invalidRequest")):
        wrong = {"content": content, "promptId": new_id()}
        problem(await user.http.post(f"/sessions/{session['_id']}/turns", json=wrong), status, code)
    long = {"content": "x" * 900_001, "promptId": new_id()}
    problem(await user.http.post(f"/sessions/{session['_id']}/turns", json=long), 413, "tooLarge")


async def test_cross_site_requests_are_refused(http: httpx.AsyncClient, user: User) -> None:
    half, key = user.token.split(".")
    cookie = {"Cookie": f"gadget_session={half}", "X-Gadget-Page": key}
    body = {"name": "n", "slug": "s", "gitUrl": "https://example.org/a"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = await http.post("/api/v1/projects", json=body, headers={**cookie, **headers})
        problem(answer, 403, "originNotAllowed")
    assert (await http.post("/api/v1/projects", json=body, headers=cookie)).status_code == 201


async def test_the_page_comes_with_its_policy(http: httpx.AsyncClient) -> None:
    page = await http.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    for rule in ("default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'"):
        assert rule in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in ("/../pyproject.toml", "/%2e%2e/app.py", "/..%2fapp.py", "/.env"):
        assert (await http.get(path)).status_code == 404


async def test_another_users_are_not_found_and_ones_own_are(web: Web, user: User) -> None:
    session = await a_session(user)
    async with await web.user("eve") as eve:
        for kind, id in (("sessions", session["_id"]), ("projects", session["project"])):
            problem(await eve.http.get(f"/{kind}/{id}"), 404, "notFound")
            problem(await eve.http.patch(f"/{kind}/{id}", json={"name": "x"}), 404, "notFound")
            assert (await user.http.get(f"/{kind}/{id}")).status_code == 200
        body: dict[str, Any] = {"drone": "x" * 24}
        problem(await user.http.patch(f"/sessions/{session['_id']}", json=body), 404, "notFound")


async def test_a_further_origin_may_be_allowed(mongodb_url: str, tmp_path: Path) -> None:
    with a_web(tmp_path, mongodb_url, GADGET_ALLOWED_ORIGINS="https://ide.example.org/") as web:
        async with await web.user() as user:
            body = {"name": "n", "slug": "s", "gitUrl": "https://example.org/a"}
            headers = {"Origin": "https://ide.example.org"}
            assert (await user.http.post("/projects", json=body, headers=headers)).status_code == 201
