"""Guessing passwords from real addresses: who guesses is stopped, who knows the password is not."""

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.harness import User, Web

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="one machine has many addresses there")


@pytest.fixture
def own_web(mongodb_url: str, tmp_path: Path) -> Iterator[Web]:
    """A service of its own: the limits of an address would catch the other tests."""
    web = Web.at(tmp_path, mongodb_url)
    yield web
    web.stop()


@pytest.fixture
def behind_proxy(mongodb_url: str, tmp_path: Path) -> Iterator[Web]:
    web = Web.at(tmp_path, mongodb_url, GADGET_TRUSTED_PROXIES="127.0.6.0/24, ::1")
    yield web
    web.stop()


@asynccontextmanager
async def at(web: Web, address: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.AsyncHTTPTransport(local_address=address)
    async with httpx.AsyncClient(base_url=f"{web.url}/api/v1", transport=transport, timeout=60) as http:
        yield http


async def status(http: httpx.AsyncClient, user: User, password: str, forwarded: str | None = None) -> int:
    headers = [("X-Forwarded-For", line) for line in (forwarded or "").split("; ") if line]
    body = {"email": user.email, "password": password}
    return (await http.post("/auth/login", json=body, headers=headers)).status_code


async def test_wrong_guesses_from_one_address_lock_out_nobody_else(own_web: Web) -> None:
    async with await own_web.user() as user, at(own_web, "127.0.5.1") as guesser, at(own_web, "127.0.5.2") as ada:
        assert [await status(guesser, user, f"guess {n}") for n in range(12)] == [401] * 10 + [429] * 2
        assert await status(ada, user, user.password) == 200
        assert await status(guesser, user, user.password) == 429  # not even with the right one


async def test_an_address_that_anyone_may_claim_is_not_believed(own_web: Web) -> None:
    async with await own_web.user() as user, at(own_web, "127.0.0.1") as guesser:
        claims = [f"203.0.113.{n}" for n in range(12)]
        answers = [await status(guesser, user, "a guess", claim) for claim in claims]
        assert answers == [401] * 10 + [429] * 2
        header = {"Forwarded": "for=203.0.113.99", "X-Real-IP": "203.0.113.99"}
        body = {"email": user.email, "password": "a guess"}
        assert (await guesser.post("/auth/login", json=body, headers=header)).status_code == 429


async def test_a_trusted_proxy_says_who_asks_and_what_the_client_wrote_before_is_ignored(behind_proxy: Web) -> None:
    async with await behind_proxy.user() as user, at(behind_proxy, "127.0.6.1") as proxy:
        claims = [f"198.51.100.{n}, 203.0.113.5" for n in range(6)]
        claims += [f"198.51.100.{n}; 203.0.113.5" for n in range(4)]  # as two header lines
        claims += ["127.0.6.9, 203.0.113.5, 127.0.6.2", "203.0.113.5"]  # a second proxy behind the first
        assert [await status(proxy, user, "a guess", claim) for claim in claims] == [401] * 10 + [429] * 2
        assert await status(proxy, user, user.password, "203.0.113.6") == 200
        # Another address of this machine is no proxy, whatever it says.
        async with at(behind_proxy, "127.0.7.1") as other:
            answers = [await status(other, user, "a guess", f"203.0.113.{n}") for n in range(20, 32)]
            assert answers == [401] * 10 + [429] * 2


async def test_a_crowd_that_guesses_slows_itself_and_not_whoever_signed_in_before(own_web: Web) -> None:
    async with await own_web.user() as user:
        async with at(own_web, "127.0.5.3") as ada:
            assert await status(ada, user, user.password) == 200
        for n in range(52):
            async with at(own_web, f"127.0.8.{n}") as guesser:
                answer = await status(guesser, user, "a guess")
                if answer == 429:
                    break
        begun = time.monotonic()
        async with at(own_web, "127.0.5.3") as ada:
            assert await status(ada, user, user.password) == 200
        assert time.monotonic() - begun < 2
        async with at(own_web, "127.0.5.4") as ada:  # from elsewhere it takes its turn
            assert await status(ada, user, user.password) == 200
