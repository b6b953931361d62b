"""Who is asking: passwords, tokens, and the limits on guessing them."""

import asyncio
import hashlib
from datetime import timedelta
from typing import Any, Literal

import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters

from gadget_api.errors import Conflict, TooMany
from gadget_api.model import utc_now
from gadget_api.tokens import TokenKind
from gadget_code.auth.login_limits import LoginLimits
from gadget_code.auth.passwords import Passwords
from gadget_code.store.database import MongoStore
from gadget_code.store.tokens import IDE_IDLE, IDE_LIFE
from gadget_code.store.users import OWNER_ID


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_password_is_argon2id_and_matches_itself_only() -> None:
    passwords = Passwords()
    hashed = await passwords.hash("correct horse")
    assert hashed.startswith("$argon2id$")
    assert await passwords.matches("correct horse", hashed)
    assert not await passwords.matches("correct horsE", hashed)
    assert not await passwords.matches("correct horse", "no hash")
    assert await passwords.hash("correct horse") != hashed


class WatchedHasher(PasswordHasher):
    """Notes of each hash that it checks a password against what that costs: memory, rounds, threads."""

    def __init__(self) -> None:
        super().__init__()
        self.verified: list[Parameters] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.verified.append(extract_parameters(str(hash)))
        return super().verify(hash, password)


async def test_an_unknown_user_takes_as_long_as_a_wrong_password() -> None:
    passwords = Passwords()
    passwords._hasher = hasher = WatchedHasher()
    hashed = await passwords.hash("correct horse")
    assert not await passwords.matches("nobody has this password", None)
    assert not await passwords.matches("wrong", hashed)
    unknown, known = hasher.verified
    assert unknown == known


class Pauses:
    """Notes what was slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_ten_failures_lock_the_address_for_this_account_only() -> None:
    clock = Clock()
    limits = LoginLimits(clock)
    for _ in range(10):
        await limits.attempt("ada", "192.0.2.1")
    with pytest.raises(TooMany) as refused:
        await limits.attempt("ada", "192.0.2.1")
    assert refused.value.retry_after_s == 15 * 60 + 1
    await limits.attempt("ada", "192.0.2.2")
    await limits.attempt("grace", "192.0.2.1")
    clock.now += 15 * 60
    await limits.attempt("ada", "192.0.2.1")


async def test_addresses_of_one_ipv6_network_count_together() -> None:
    limits = LoginLimits(Clock())
    for n in range(10):
        await limits.attempt("ada", f"2001:db8:0:1::{n:x}")
    with pytest.raises(TooMany):
        await limits.attempt("ada", "2001:db8:0:1:ffff::1")
    await limits.attempt("ada", "2001:db8:0:2::1")


async def test_fifty_failures_lock_the_address_for_every_account() -> None:
    limits = LoginLimits(Clock())
    limits.signed_in("grace", "192.0.2.1")
    for n in range(50):
        await limits.attempt(f"user {n}", "192.0.2.1")
    with pytest.raises(TooMany):
        await limits.attempt("another", "192.0.2.1")
    await limits.attempt("another", "192.0.2.2")
    await limits.attempt("grace", "192.0.2.1")  # who has signed in from there before goes on


async def test_guesses_from_many_addresses_are_delayed_not_refused() -> None:
    clock, pauses = Clock(), Pauses()
    limits = LoginLimits(clock, pauses)
    limits.signed_in("ada", "192.0.2.1")
    for n in range(50):
        await limits.attempt("ada", f"198.51.100.{n}")
    assert pauses.slept == []
    for n in range(5):
        await limits.attempt("ada", f"203.0.113.{n}")
    assert pauses.slept == [2, 4, 6, 8, 10]
    with pytest.raises(TooMany, match="try again in a few seconds"):
        await limits.attempt("ada", "203.0.113.9")
    await limits.attempt("ada", "192.0.2.1")
    await limits.attempt("grace", "203.0.113.9")
    clock.now += 10
    await limits.attempt("ada", "203.0.113.9")
    assert pauses.slept[5:] == [2]


async def test_successful_sign_ins_are_not_counted() -> None:
    limits = LoginLimits(Clock())
    for n in range(200):
        await limits.attempt(f"user {n % 20}", "office")
        limits.succeeded(f"user {n % 20}", "office")


async def test_the_number_of_remembered_failures_is_limited() -> None:
    limits = LoginLimits(Clock())
    for n in range(12_000):
        await limits.attempt(f"user {n}", f"address {n}")
        limits.signed_in(f"user {n}", f"address {n}")
    assert len(limits._failures) == len(limits._known) == 10_000


async def test_only_the_hash_of_a_token_is_stored(store: MongoStore) -> None:
    token, expires_at = await store.tokens.issue("u", TokenKind.IDE)
    [document] = await store.tokens.collection.find({}).to_list()
    assert document["_id"] == hashlib.sha256(token.encode()).hexdigest()
    assert token not in str(document)
    assert expires_at - utc_now() > IDE_LIFE - timedelta(minutes=1)
    identity = await store.tokens.identify(token)
    assert identity is not None
    assert (identity.user, identity.kind, identity.drone) == ("u", TokenKind.IDE, None)
    for other in ("", token[:-1], document["_id"], token + "x"):
        assert await store.tokens.identify(other) is None


@pytest.mark.parametrize(
    ("kind", "field", "age", "stands"),
    [
        (TokenKind.IDE, "expiresAt", timedelta(seconds=1), False),
        (TokenKind.IDE, "usedAt", IDE_IDLE + timedelta(seconds=1), False),
        (TokenKind.IDE, "usedAt", IDE_IDLE - timedelta(minutes=1), True),
        (TokenKind.DRONE, "usedAt", timedelta(days=300), True),
        (TokenKind.DRONE, "expiresAt", timedelta(seconds=1), False),
    ],
)
async def test_a_token_expires_by_age_or_by_disuse(
    store: MongoStore, kind: TokenKind, field: str, age: timedelta, stands: bool
) -> None:
    token, _ = await store.tokens.issue("u", kind)
    await store.tokens.collection.update_one({"user": "u"}, {"$set": {field: utc_now() - age}})
    hashed = hashlib.sha256(token.encode()).hexdigest()
    assert await store.tokens.live({hashed}) == ({hashed} if stands else set())
    assert (await store.tokens.identify(token) is not None) is stands


async def test_using_a_token_keeps_it(store: MongoStore) -> None:
    token, _ = await store.tokens.issue("u", TokenKind.IDE)
    await store.tokens.collection.update_one({}, {"$set": {"usedAt": utc_now() - timedelta(hours=11)}})
    assert await store.tokens.identify(token) is not None
    document: Any = await store.tokens.collection.find_one({})
    assert utc_now() - document["usedAt"] < timedelta(minutes=1)


async def test_a_sign_in_link_works_once_under_concurrent_use(store: MongoStore) -> None:
    token, _ = await store.tokens.issue("u", TokenKind.SIGN_IN)
    taken = await asyncio.gather(*(store.tokens.take_sign_in(token) for _ in range(10)))
    assert sorted(filter(None, taken)) == ["u"]
    ide, _ = await store.tokens.issue("u", TokenKind.IDE)
    assert await store.tokens.take_sign_in(ide) is None
    late, _ = await store.tokens.issue("u", TokenKind.SIGN_IN)
    await store.tokens.collection.update_one({"kind": "signIn"}, {"$set": {"expiresAt": utc_now()}})
    assert await store.tokens.take_sign_in(late) is None


async def test_a_drone_token_belongs_to_the_workspace_that_used_it_first(store: MongoStore) -> None:
    token, _ = await store.tokens.issue("u", TokenKind.DRONE)
    hashed = hashlib.sha256(token.encode()).hexdigest()
    bound = await asyncio.gather(*(store.tokens.bind_drone(hashed, f"d{n}") for n in range(5)))
    assert sum(bound) == 1
    identity = await store.tokens.identify(token)
    assert identity is not None
    assert identity.drone == f"d{bound.index(True)}"
    assert await store.tokens.bind_drone(hashed, identity.drone)


async def test_the_owner_is_created_once_under_concurrent_starts(store: MongoStore) -> None:
    async def bootstrap(n: int) -> bool:
        try:
            await store.users.create(f"owner{n}@localhost", None, display_name="Owner", user_id=OWNER_ID)
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(bootstrap(n) for n in range(10)))) == 1
    assert len(await store.users.all({})) == 1
