"""Files of a session over REST: a real service, a real drone, real files."""

import asyncio
import hashlib
import io
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image

from gadget_ai.testing.script import Call, Reply, Script, Text
from tests.gadget_code.peers import problem
from tests.harness import WAIT_S, Drone, User, Web, git, repository

FILES = {
    "README.md": "# A project\n",
    "src/app.py": "print(1)\n",
    "src/apple/pie.txt": "pie\n",
    ".gitignore": "*.log\n",
}


class Place:
    """A session's files, and where they are on disk."""

    def __init__(self, user: User, session: str, checkout: Path) -> None:
        self.user, self.checkout = user, checkout
        self.url = f"/sessions/{session}/files"

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.user.http.get(f"{self.url}/content", params={"path": path, **params})

    async def version(self, path: str) -> str:
        return (await self.get(path)).headers["etag"]

    async def put(self, path: str, content: bytes, **headers: str) -> httpx.Response:
        params, named = {"path": path}, {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.user.http.put(f"{self.url}/content", params=params, content=content, headers=named)

    async def delete(self, path: str, **params: Any) -> httpx.Response:
        return await self.user.http.delete(self.url, params={"path": path, **params})

    async def rename(self, path: str, to: str) -> httpx.Response:
        return await self.user.http.post(f"{self.url}/rename", json={"path": path, "to": to})


@pytest.fixture
async def place(user: User, tmp_path: Path) -> AsyncIterator[Place]:
    """A session without a turn, whose project its user's only drone has."""
    origin = repository(tmp_path / "origin", FILES)
    drone = await Drone.at(tmp_path, user)
    try:
        git(drone.workspace, "clone", "--quiet", str(origin), "project")
        session = await user.session(await user.project(str(origin)), await user.provider("http://127.0.0.1:9/v1"))
        yield Place(user, session["_id"], drone.workspace / "project")
    finally:
        assert drone.stop() == 0, drone.output
    assert "Traceback" not in drone.output, drone.output


async def test_a_file_is_found_read_saved_moved_and_deleted(place: Place) -> None:
    user = place.user
    listed = await user.get(place.url)
    assert [entry["name"] for entry in listed["entries"]] == ["src", ".gitignore", "README.md"]
    assert (await user.get(f"{place.url}/find", q="app", limit=1)) == {"paths": ["src/app.py"], "truncated": True}
    read = await place.get("src/app.py")
    assert (read.content, read.headers["content-type"]) == (b"print(1)\n", "text/plain; charset=utf-8")
    etag = read.headers["etag"]
    assert etag == f'"{hashlib.sha256(read.content).hexdigest()}"'
    saved = await place.put("src/app.py", b"print(2)\n", If_Match=etag)
    assert saved.json() == {"path": "src/app.py", "version": saved.headers["etag"].strip('"'), "sizeBytes": 9}
    assert (place.checkout / "src/app.py").read_bytes() == b"print(2)\n"
    problem(await place.put("src/app.py", b"print(3)\n", If_Match=etag), 409, "fileChanged")
    problem(await place.put("src/app.py", b"print(3)\n", If_None_Match="*"), 409, "alreadyExists")
    assert (await place.put("new/ä b.txt", b"new", If_None_Match="*")).status_code == 200
    assert (await user.http.get(f"{place.url}?path=new")).json()["entries"][0]["path"] == "new/ä b.txt"
    assert (await place.rename("new/ä b.txt", "newer.txt")).status_code == 204
    problem(await place.rename("newer.txt", "README.md"), 409, "alreadyExists")
    problem(await place.delete("newer.txt", version="0" * 64), 409, "fileChanged")
    assert (await place.delete("newer.txt")).json() == {"path": "newer.txt", "fileCount": 1}
    problem(await place.delete("src"), 422, "invalidRequest")
    assert (await place.delete("src", recursive=True)).json() == {"path": "src", "fileCount": 2}
    problem(await place.get("src/app.py"), 404, "notFound")
    assert git(place.checkout, "status", "--porcelain").splitlines() == [" D src/app.py", " D src/apple/pie.txt"]


async def test_a_version_that_is_known_is_not_sent_again(place: Place) -> None:
    etag = await place.version("README.md")
    http, url = place.user.http, f"{place.url}/content?path=README.md"
    for known in (etag, f'W/{etag}, "{"0" * 64}"', f'"{"0" * 64}",{etag}', "*"):
        answer = await http.get(url, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert (await http.get(url, headers={"If-None-Match": f'"{"0" * 64}"'})).content == b"# A project\n"
    head = await http.head(url)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    assert (head.headers["content-length"], head.headers["content-type"]) == ("12", "text/plain; charset=utf-8")
    (place.checkout / "README.md").write_text("# Another\n")
    assert (await http.get(url, headers={"If-None-Match": etag})).content == b"# Another\n"


def picture() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 3), "teal").save(stream, "PNG")
    return stream.getvalue()


TYPES = (
    ("page.html", b"<script>alert(1)</script>", "text/plain; charset=utf-8"),
    ("image.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "text/plain; charset=utf-8"),
    ("empty", b"", "text/plain; charset=utf-8"),
    ("latin.txt", "für".encode("latin-1"), "application/octet-stream"),
    ("binary.html", b"<html>\0", "application/octet-stream"),
    ("no-name", picture(), "image/png"),
    ("lies.png", b"<script>", "text/plain; charset=utf-8"),
    ("half.txt", ("ü" * 300_000).encode(), "text/plain; charset=utf-8"),
)


async def test_a_type_is_what_the_bytes_are_and_nothing_that_runs(place: Place) -> None:
    for name, content, kind in TYPES:
        (place.checkout / name).write_bytes(content)
        read = await place.get(name)
        assert (read.content, read.headers["content-type"]) == (content, kind), name
        assert read.headers["x-content-type-options"] == "nosniff"
        assert read.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert "no-cache" in read.headers["cache-control"]
        assert "content-disposition" not in read.headers
        kept = (await place.get(name, download=True)).headers["content-disposition"]
        assert kept == f"attachment; filename*=UTF-8''{name}"


async def test_large_files_are_whole_or_refused(place: Place) -> None:
    content = bytes(range(256)) * 4 * 1024 * 30
    (place.checkout / "large").write_bytes(content)
    read = await place.get("large")
    assert hashlib.sha256(read.content).hexdigest() == hashlib.sha256(content).hexdigest()
    (place.checkout / "larger").write_bytes(b"x" * 50 * 1024 * 1024)
    problem(await place.get("larger"), 413, "tooLarge")
    two = 2 * 1024 * 1024
    assert (await place.put("two", b"x" * two, If_None_Match="*")).json()["sizeBytes"] == two
    problem(await place.put("three", b"x" * (two + 1), If_None_Match="*"), 413, "tooLarge")
    assert not (place.checkout / "three").exists()
    # The connection has borne all of it.
    assert (await place.get("README.md")).content == b"# A project\n"


REFUSED = (
    ("path=../secret.txt", 422, "invalidRequest"),
    ("path=/etc/hostname", 422, "invalidRequest"),
    ("path=dir_out/secret.txt", 403, "notAllowed"),
    ("path=.git/config", 403, "notAllowed"),
    ("path=a%00b", 422, "invalidRequest"),
    ("path=caf%E9", 422, "invalidRequest"),
    ("path=%ED%A0%80", 422, "invalidRequest"),
    ("path=%FF&path=README.md", 422, "invalidRequest"),
    ("path=", 422, "invalidRequest"),
    ("", 422, "invalidRequest"),
    ("path=" + "x" * 5000, 422, "invalidRequest"),
    ("path=" + "x" * 4000, 422, "invalidRequest"),
    ("path=nothing", 404, "notFound"),
)


async def test_what_is_no_file_of_the_project_is_a_clear_refusal(place: Place) -> None:
    (place.checkout.parent / "secret.txt").write_text("outside")
    (place.checkout / "dir_out").symlink_to("..")
    http = place.user.http
    for query, status, code in REFUSED:
        problem(await http.get(f"{place.url}/content?{query}"), status, code)
        version = {"If-Match": f'"{"0" * 64}"'}
        put = await http.put(f"{place.url}/content?{query}", content=b"x", headers=version)
        assert put.status_code == (409 if code == "notFound" else status), query
        problem(await http.delete(f"{place.url}?{query}&recursive=true"), status, code)
    assert (place.checkout.parent / "secret.txt").read_text() == "outside"


async def test_a_save_says_what_it_replaces(place: Place) -> None:
    etag = await place.version("README.md")
    for headers in (
        {},
        {"If_Match": "*"},
        {"If_Match": "x"},
        {"If_Match": f"W/{etag}"},
        {"If_None_Match": etag},
        {"If_Match": etag, "If_None_Match": "*"},
    ):
        problem(await place.put("README.md", b"x", **headers), 422, "invalidRequest")
    assert await place.version("README.md") == etag


async def test_of_two_saves_at_once_one_wins_and_the_other_is_told(place: Place) -> None:
    etag = await place.version("README.md")
    contents = [bytes([65 + n]) * 1_000_000 for n in range(4)]
    answers = await asyncio.gather(*(place.put("README.md", each, If_Match=etag) for each in contents))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    won = contents[[answer.status_code for answer in answers].index(200)]
    assert (place.checkout / "README.md").read_bytes() == won
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"fileChanged"}


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """A file of one letter, which is another one all the time."""
    end = threading.Event()

    def write() -> None:
        for n in range(1_000_000):
            with path.open("r+b") as file:
                file.write(b"abcdef"[n % 6 : n % 6 + 1] * 3_000_000)
            if end.wait(0.03):
                return

    path.write_bytes(b"a" * 3_000_000)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()


async def test_a_file_that_changes_while_it_is_read_is_never_half_of_each(place: Place) -> None:
    with written_to(place.checkout / "busy"):
        for _ in range(10):
            answer = await place.get("busy")
            if answer.status_code != 200:
                problem(answer, 409, "fileChanged")
                continue
            assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
            assert len(answer.content) == 3_000_000
    assert (await place.get("busy")).status_code == 200


async def test_another_users_session_has_no_files(place: Place, web: Web) -> None:
    async with await web.user("eve") as eve:
        hers = Place(eve, place.url.split("/")[2], place.checkout)
        for answer in (
            await eve.http.get(place.url),
            await eve.http.get(f"{place.url}/find?q=a"),
            await hers.get("README.md"),
            await hers.put("eve.txt", b"x", If_None_Match="*"),
            await hers.rename("README.md", "x"),
            await hers.delete("README.md"),
        ):
            problem(answer, 404, "notFound")
    assert (place.checkout / "README.md").exists()


async def test_while_the_agent_works_files_are_read_only(stage_for: Any) -> None:
    stage = await stage_for(Script([Reply(Call("shell", {"command": "touch at-it; sleep 600"})), Reply(Text("Done."))]))
    place = Place(stage.user, stage.session["_id"], stage.checkout)
    problem(await stage.user.http.get(place.url), 409, "notCloned")
    turn = await stage.ide.submit(stage.session["_id"], "Work.")
    await stage.ide.until(lambda name, p: name == "toolStarted" and p["turnId"] == turn["_id"])
    etag = await place.version("app.py")
    for answer in (
        await place.put("app.py", b"x", If_Match=etag),
        await place.put("new.py", b"x", If_None_Match="*"),
        await place.rename("app.py", "x"),
        await place.delete("app.py"),
    ):
        problem(answer, 409, "workspaceBusy")
    await stage.user.post(f"/turns/{turn['_id']}/cancel", {})
    await stage.ide.until_complete(turn["_id"])
    await stage.drone.until_available()
    assert (await place.put("app.py", b"x", If_Match=etag)).status_code == 200
    # What is deleted now is in a checkpoint.
    assert (await place.delete("app.py")).status_code == 200
    assert "is of the files before app.py was deleted" in stage.drone.output


async def test_those_who_ask_for_large_files_and_do_not_read_them_are_few(place: Place) -> None:
    big = os.urandom(16 * 2**20)
    (place.checkout / "big").write_bytes(big)
    url = urlsplit(place.user.url)
    request = (
        f"GET /api/v1{place.url}/content?path=big HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Authorization: Bearer {place.user.token}\r\n\r\n"
    )
    unread = []
    for _ in range(4):
        reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**16)
        writer.write(request.encode())
        assert b" 200 " in await asyncio.wait_for(reader.readline(), WAIT_S)
        unread.append(writer)
    problem(await place.get("big"), 429, "rateLimited")
    assert (await place.get("README.md")).status_code == 200
    for writer in unread:
        writer.transport.abort()
    again = await place.get("big")
    assert (again.status_code, again.content) == (200, big)
    assert (await place.user.http.head(f"{place.url}/content?path=big")).headers["content-length"] == str(len(big))
