"""Where providers may be, what becomes of their keys, and what they may answer."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from gadget_ai.testing.script import Script
from gadget_ai.testing.server import ScriptedServer
from gadget_api.errors import GadgetError, InvalidInput
from gadget_api.providers import NewProvider, ProviderChanges
from gadget_code.providers.addresses import check_address
from gadget_code.store.database import MongoStore, open_store
from gadget_code.store.vault import Vault
from tests.gadget_code.peers import a_web, problem
from tests.harness import User, Web

KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def strict_web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A service that does not allow private addresses, as `serve` is by default."""
    with a_web(tmp_path_factory.mktemp("strict"), mongodb_url, GADGET_ALLOW_PRIVATE_URLS="false") as web:
        yield web


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
    ],
)
async def test_an_address_that_is_not_the_internets_is_refused(strict_web: Web, host: str) -> None:
    with pytest.raises(InvalidInput, match="private address"):
        await check_address(f"http://{host}:8080/v1", allow_private=False)
    assert await check_address(f"http://{host}:8080/v1", allow_private=True)


async def test_the_service_refuses_private_addresses_when_made_and_when_changed(strict_web: Web) -> None:
    async with await strict_web.user() as user:
        new = {"name": "n", "apiType": "openai", "baseUrl": "http://169.254.169.254/latest", "apiKey": KEY}
        refused = problem(await user.http.post("/providers", json=new), 422, "urlNotAllowed")
        assert "GADGET_ALLOW_PRIVATE_URLS" in refused["detail"]
        made = await user.post("/providers", {**new, "baseUrl": "https://1.1.1.1/v1"})
        moved = {"baseUrl": "http://2130706433"}
        problem(await user.http.patch(f"/providers/{made['_id']}", json=moved), 422, "urlNotAllowed")
        assert await user.get(f"/providers/{made['_id']}") == made


async def test_a_provider_that_was_made_private_later_is_not_asked(mongodb_url: str, strict_web: Web, web: Web) -> None:
    """The address is looked at when it is asked, too: a name may lead elsewhere by then."""
    async with await strict_web.user() as user:
        made = await user.provider("https://1.1.1.1/v1")
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongodb_url)
        async with client:
            records = client[strict_web.env["GADGET_DATABASE"]].providers
            await records.update_one({"_id": made["_id"]}, {"$set": {"baseUrl": "http://127.0.0.1:1"}})
        problem(await user.http.get(f"/providers/{made['_id']}/models"), 422, "urlNotAllowed")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org",
        "file:///etc/passwd",
        "http://",
        "http://user:pass@example.org",
        "http://example.org/?q=1",
        "http://example.org/#f",
        "http://example.org:99999",
        "http://exa\u0000mple.org",
        "http://exa mple.org",
        "http://example.org/\n",
        "gopher://x",
        "//example.org",
        "http://[::1",
    ],
)
async def test_a_base_url_that_is_none_is_refused(user: User, url: str) -> None:
    new = {"name": "n", "apiType": "openai", "baseUrl": url}
    problem(await user.http.post("/providers", json=new), 422, "invalidRequest")


async def test_a_key_is_answered_as_its_end_alone(user: User) -> None:
    made = await user.provider("http://127.0.0.1:9", key=KEY)
    assert made["apiKeyHint"] == "6789"
    answers = [made, await user.get("/providers"), await user.get(f"/providers/{made['_id']}")]
    assert KEY not in json.dumps(answers)
    assert "apiKey" not in made
    short = await user.provider("http://127.0.0.1:9", key="abcd")
    assert short["apiKeyHint"] == "····"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"name": "New"}, "6789"),
        ({"baseUrl": "http://127.0.0.1:9/"}, "6789"),  # the same URL
        ({"baseUrl": "http://127.0.0.1:10"}, None),
        ({"baseUrl": "http://127.0.0.1:10", "apiKey": "sk-another-000000abcd"}, "abcd"),
        ({"apiKey": None}, None),
        ({"apiKey": ""}, None),
        ({"apiKey": "sk-another-000000abcd"}, "abcd"),
    ],
)
async def test_a_key_goes_with_its_url(user: User, change: dict[str, Any], hint: str | None) -> None:
    made = await user.provider("http://127.0.0.1:9", key=KEY)
    changed = await user.http.patch(f"/providers/{made['_id']}", json=change)
    assert changed.json()["apiKeyHint"] == hint


async def test_a_key_is_encrypted_and_bound_to_its_record(store: MongoStore) -> None:
    new = NewProvider.model_validate({"name": "n", "apiType": "openai", "baseUrl": "http://h/v1", "apiKey": KEY})
    provider = await store.providers.create("u", new)
    assert await store.providers.key_of(provider) == KEY
    for name in await store.database.list_collection_names():
        assert KEY.encode() not in b"".join([str(d).encode() async for d in store.database[name].find({})]), name
    for other in ({"id": "other"}, {"user": "other"}, {"base_url": "http://evil/v1"}):
        moved = provider.replace(**other)
        await store.database.provider_keys.update_one({}, {"$set": {}})
        if "id" in other:
            sealed: Any = await store.database.provider_keys.find_one({"_id": provider.id})
            await store.database.provider_keys.insert_one({**sealed, "_id": "other"})
        with pytest.raises(GadgetError, match="cannot be decrypted; enter it again"):
            await store.providers.key_of(moved)
    dropped = await store.providers.edit("u", provider.id, ProviderChanges(base_url="http://h/v2"))
    assert (dropped.api_key_hint, await store.providers.key_of(dropped)) == (None, None)


async def test_the_secret_key_is_the_owners_alone_and_a_broken_one_is_named(tmp_path: Any, settings_for: Any) -> None:
    file = tmp_path / "deep" / "secret.key"
    Vault.open(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(file.read_text().strip())) == 32
    kept = file.read_text()
    Vault.open(file)
    assert file.read_text() == kept
    for broken in ("", "no hex", "abcd"):
        file.write_text(broken)
        with pytest.raises(GadgetError, match="64 hexadecimal digits"):
            async with open_store(settings_for(secret_key_file=file)):
                pass


async def test_of_many_first_starts_at_once_all_have_the_same_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from gadget_code.store.vault import Vault; Vault.open(Path(sys.argv[1]))"
    )
    file = tmp_path / "secret.key"
    starts = [await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(file)) for _ in range(8)]
    assert [await asyncio.wait_for(start.wait(), 60) for start in starts] == [0] * 8
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


async def test_the_models_of_a_provider_are_asked_for(user: User) -> None:
    async with ScriptedServer({"m1": Script([]), "m2": Script([])}) as server:
        for api, url in (("openai", server.openai_url), ("ollama", server.root_url)):
            provider = await user.provider(url, api=api)
            listed = await user.get(f"/providers/{provider['_id']}/models")
            assert [item["id"] for item in listed["items"]] == ["m1", "m2"]
        wrong = await user.provider(server.root_url)  # the version path forgotten
        problem(await user.http.get(f"/providers/{wrong['_id']}/models"), 503, "modelBadResponse")


def answering(response: str) -> AbstractAsyncContextManager[tuple[str, list[bytes]]]:
    """A server that says this to whoever asks, and keeps what it was asked."""

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, list[bytes]]]:
        asked: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(response.encode())
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked

    return serve()


def http_answer(status: str, body: str, headers: str = "") -> str:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body.encode())}\r\n{headers}Connection: close\r\n\r\n{body}"


@pytest.mark.parametrize(
    ("response", "status", "code"),
    [
        (http_answer("200 OK", "<html>Sign in</html>"), 503, "modelBadResponse"),
        (http_answer("200 OK", "[]"), 503, "modelBadResponse"),
        (http_answer("200 OK", '{"data": [1]}'), 503, "modelBadResponse"),
        (http_answer("200 OK", '{"data": [{"id": null}]}'), 503, "modelBadResponse"),
        (http_answer("200 OK", '{"data": [{"id": "m", "context_length": -1e400}]}'), 200, ""),
        (http_answer("200 OK", '{"data":' + "[" * 100_000), 503, "modelBadResponse"),
        (http_answer("200 OK", " " * 5_000_000), 503, "modelUnreachable"),
        (http_answer("401 No", "{}"), 422, "modelAuth"),
        (http_answer("403 No", "{}"), 422, "modelAuth"),
        (http_answer("500 Oh", "{}"), 503, "modelBadResponse"),
        (http_answer("302 Found", "", "Location: http://169.254.169.254/\r\n"), 503, "modelBadResponse"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 503, "modelUnreachable"),
        ("garbage\r\n\r\n", 503, "modelUnreachable"),
        ("", 503, "modelUnreachable"),
    ],
)
async def test_whatever_a_provider_answers_is_said_in_a_sentence(
    user: User, response: str, status: int, code: str
) -> None:
    async with answering(response) as (url, asked):
        provider = await user.provider(url, key=KEY)
        answer = await user.http.get(f"/providers/{provider['_id']}/models")
        if status == 200:
            assert answer.status_code == 200
        else:
            assert KEY not in json.dumps(problem(answer, status, code))
        assert len(asked) == 1
        assert f"authorization: Bearer {KEY}".lower().encode() in asked[0].lower()


async def test_a_provider_that_is_not_there_is_said_so(user: User) -> None:
    for url in ("http://127.0.0.1:1", "http://no-such-host.invalid"):
        provider = await user.provider(url)
        problem(await user.http.get(f"/providers/{provider['_id']}/models"), 503, "modelUnreachable")


async def test_a_key_that_no_header_can_carry_is_said_so(user: User) -> None:
    for key in ("schlüssel→0123456789", "line\nbreak-0123456789"):
        async with answering(http_answer("200 OK", '{"data": []}')) as (url, _):
            provider = await user.provider(url, key=key)
            answer = await user.http.get(f"/providers/{provider['_id']}/models")
            assert answer.status_code in (422, 503)
            assert key not in answer.text
