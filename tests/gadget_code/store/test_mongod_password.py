"""The private MongoDB answers nobody without its password, at no moment, and every start puts it right."""

import asyncio
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import bson
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from gadget_api.errors import GadgetError
from gadget_code.settings import Settings
from gadget_code.store.database import open_store
from gadget_code.store.mongod import find_mongod, private_mongod, running_mongod, system_url
from tests.gadget_code.store.test_mongod import mongods
from tests.harness import START_S, Process, Web, clean_environment, until, wait_for_sync

Client = AsyncMongoClient[dict[str, Any]]


def without_password(url: str) -> Client:
    """A client that found the socket and nothing else."""
    bare = re.sub(r"//.*@", "//", url).partition("?")[0]
    return AsyncMongoClient(f"{bare}?directConnection=true", serverSelectionTimeoutMS=500)


def socket_path(url: str) -> str:
    return unquote(re.sub(r".*@|/\?.*", "", url))


def attempts(client: Client) -> list[Callable[[], Any]]:
    """What a stranger wants: data, an account, power over the server."""
    return [
        lambda: client.test.things.find_one(),
        lambda: client.test.things.insert_one({"a": 2}),
        lambda: client.list_database_names(),
        lambda: client.admin.command("createUser", "eve", pwd="eve", roles=["root"]),
        lambda: client.test.command("createUser", "eve", pwd="eve", roles=[]),
        lambda: client.admin.command("usersInfo", 1),
        lambda: client.admin.command("getLog", "global"),
        lambda: client.admin.command("serverStatus"),
        lambda: client.admin.command("replSetGetConfig"),
        lambda: client.admin.command("setParameter", 1, logLevel=5),
        lambda: client.admin.command("shutdown", force=True),
    ]


async def test_without_the_password_every_command_is_refused(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as url:
        owner: Client = AsyncMongoClient(url)
        async with owner, without_password(url) as stranger:
            await owner.test.things.insert_one({"a": 1})
            for attempt in attempts(stranger):
                with pytest.raises(OperationFailure, match="requires authentication"):
                    await attempt()
            for password in ("gadget-code", "0" * 64):
                guess: Client = AsyncMongoClient(re.sub(":[^:@]*@", f":{password}@", url), serverSelectionTimeoutMS=500)
                async with guess:
                    with pytest.raises(OperationFailure, match="Authentication failed"):
                        await guess.test.things.find_one()
            assert await owner.test.things.count_documents({}) == 1


async def test_nobody_can_create_the_first_user_during_the_start(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as url:
        pass
    (data_dir / "mongodb.key").unlink()
    shutil.rmtree(data_dir / "mongodb")  # a first start again, on a path that the attacker knows
    tried: list[str] = []
    is_enough = asyncio.Event()

    async def attack() -> None:
        while not is_enough.is_set():
            async with without_password(url) as stranger:  # a new one each time: an old one waits before it looks again
                try:
                    await stranger.admin.command("createUser", "eve", pwd="eve", roles=["root"])
                    tried.append("made")
                except PyMongoError as exc:
                    tried.append(str(exc))

    async def refused() -> bool | None:
        return any("requires authentication" in answer for answer in tried) or None

    attacker = asyncio.create_task(attack())
    async with private_mongod(data_dir, "test"):
        await until(refused, START_S)
        is_enough.set()
        await attacker
        owner: Client = AsyncMongoClient(system_url(data_dir))
        async with owner:
            users = (await owner.admin.command("usersInfo", 1))["users"]
    assert "made" not in tried
    assert [user["user"] for user in users] == ["gadget-code"]


async def test_the_services_user_may_use_one_database_only(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as url:
        service: Client = AsyncMongoClient(url)
        async with service:
            await service.test.things.insert_one({"a": 1})
            await service.test.things.create_index("a")
            for attempt in (
                lambda: service.other.things.insert_one({"a": 1}),
                lambda: service.admin.command("createUser", "eve", pwd="eve", roles=["root"]),
                lambda: service.admin.command("grantRolesToUser", "gadget-code", roles=["root"]),
                lambda: service.local["oplog.rs"].find_one(),
                lambda: service.admin.command("shutdown", force=True),
            ):
                with pytest.raises(OperationFailure, match="not authorized"):
                    await attempt()


@asynccontextmanager
async def old_mongod(data_dir: Path) -> AsyncIterator[str]:
    """As it was started before it had a password."""
    (data_dir / "mongodb").mkdir(parents=True)
    (data_dir / "run").mkdir(mode=0o700)
    path = data_dir / "run" / "mongodb-27017.sock"
    command = [
        str(find_mongod()),
        *("--dbpath", str(data_dir / "mongodb"), "--replSet", "gadget", "--oplogSize", "64"),
        *("--bind_ip", str(path), "--unixSocketPrefix", str(path.parent)),
        *("--wiredTigerCacheSizeGB", "0.25", "--quiet"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
    ]
    process = Process(command, clean_environment(), data_dir / "old.log").start()
    url = f"mongodb://{str(path).replace('/', '%2F')}/?directConnection=true"
    client: Client = AsyncMongoClient(url, serverSelectionTimeoutMS=500)
    initiated = False

    async def primary() -> bool | None:
        nonlocal initiated
        try:
            if not initiated:
                members = [{"_id": 0, "host": str(path)}]
                await client.admin.command("replSetInitiate", {"_id": "gadget", "members": members})
                initiated = True
            return (await client.admin.command("hello"))["isWritablePrimary"] or None
        except PyMongoError:
            return None

    try:
        async with client:
            await until(primary, START_S)
        yield url
    finally:
        process.stop()


async def test_an_old_data_directory_without_users_is_taken_over_with_its_data(data_dir: Path) -> None:
    async with old_mongod(data_dir) as url, open_store(Settings(mongodb_url=url, data_dir=data_dir)) as store:
        await store.users.create("ada@example.org", None, display_name="Ada")
    async with open_store(Settings(data_dir=data_dir)) as store:
        assert (await store.users.by_email("ada@example.org")) is not None
        async with without_password(str(running_mongod(data_dir))) as stranger:
            with pytest.raises(OperationFailure, match="requires authentication"):
                await stranger.gadget.users.find_one()


async def test_a_lost_key_is_replaced_and_the_old_password_is_refused(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as old_url:
        client: Client = AsyncMongoClient(old_url)
        async with client:
            await client.test.things.insert_one({"a": 1})
    key = data_dir / "mongodb.key"
    key.unlink()
    async with private_mongod(data_dir, "test") as url:
        assert url != old_url
        assert key.stat().st_mode & 0o777 == 0o600
        client = AsyncMongoClient(url)
        old: Client = AsyncMongoClient(old_url)
        async with client, old:
            assert await client.test.things.count_documents({}) == 1
            with pytest.raises(OperationFailure, match="Authentication failed"):
                await old.test.things.count_documents({})
    key.chmod(0o644)  # as a copy from a backup may be
    async with private_mongod(data_dir, "test"):
        assert key.stat().st_mode & 0o777 == 0o600
    key.write_text("")
    with pytest.raises(GadgetError, match=r"mongodb\.key, cannot be used .*; remove it, and a new one is made"):
        async with private_mongod(data_dir, "test"):
            pass


def _log_says(text: str) -> Callable[[Path], bool]:
    def says(data_dir: Path) -> bool:
        log = data_dir / "mongod.log"
        return log.exists() and text in log.read_text(errors="replace")

    return says


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the data directory is there": lambda data_dir: (data_dir / "lock").exists(),
    "the key is there": lambda data_dir: (data_dir / "mongodb.key").exists(),
    "the server listens": lambda data_dir: running_mongod(data_dir) is not None,
    "the replica set is initiated": _log_says("replSetInitiate admin command received"),
    "the server is a primary": _log_says("Transition to primary complete"),
    "the user is being made": _log_says("admin.system.users"),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_start_repairs_a_first_start_that_was_killed(moment: str, data_dir: Path) -> None:
    serve = [sys.executable, "-m", "gadget_code", "serve", "--port", "0"]
    process = Process(serve, clean_environment(GADGET_DATA_DIR=str(data_dir)), data_dir.with_name("killed.log"))
    process.start()
    try:
        wait_for_sync(lambda: MOMENTS[moment](data_dir) or None, lambda: process.has_ended, process.log)
        for pid in mongods(data_dir):  # the server too: a power cut takes both
            os.kill(pid, signal.SIGKILL)
    finally:
        process.kill()

    async def free() -> bool | None:
        """A child that was forked and not yet the server holds the lock until it notices."""
        with (data_dir / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
        return True

    await until(free, START_S)
    async with open_store(Settings(data_dir=data_dir)) as store:
        await store.users.create("ada@example.org", None, display_name="Ada")
        async with without_password(str(running_mongod(data_dir))) as stranger:
            with pytest.raises(OperationFailure, match="requires authentication"):
                await stranger.gadget.users.find_one()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_password_is_in_no_log_no_process_list_no_environment_and_no_other_file(tmp_path: Path) -> None:
    web = Web.at(tmp_path, GADGET_LOG_LEVEL="debug")
    data = tmp_path / "data"
    try:
        async with await web.user() as user:
            await user.get("/users/me")
        key = (data / "mongodb.key").read_text().strip()
        password = re.search("//gadget-code:(.*)@", str(running_mongod(data)))
        assert password is not None
        canaries = [key.encode(), password[1].encode()]
        [mongod] = mongods(data)
        for pid in (web.pid, mongod):
            for name in ("cmdline", "environ"):
                content = Path(f"/proc/{pid}/{name}").read_bytes()
                assert not any(canary in content for canary in canaries), (pid, name)
        os.kill(mongod, signal.SIGKILL)  # what is said when it ends, too

        async def again() -> bool | None:
            return True if mongods(data) not in ([], [mongod]) and running_mongod(data) else None

        await until(again, START_S)
    finally:
        web.stop()
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "mongodb.key":
            content = path.read_bytes()
            assert not any(canary in content for canary in canaries), path


async def test_slow_commands_are_not_logged_with_their_content(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as url:
        client: Client = AsyncMongoClient(url)
        async with client:
            await client.test.things.insert_one({"a": "canary"})
            slow = {"a": "canary", "$where": "sleep(300) || true"}
            assert await client.test.things.find_one(slow) is not None
            await client.test.things.update_one(slow, {"$set": {"b": "canary"}})
    assert "canary" not in (data_dir / "mongod.log").read_text()


def zlib_message(claimed_bytes: int | None = None) -> bytes:
    """`hello` in an OP_COMPRESSED message of zlib; CVE-2025-14847 is to claim more bytes than are in it."""
    body = struct.pack("<IB", 0, 0) + bson.encode({"hello": 1, "$db": "admin"})
    packed = struct.pack("<iiB", 2013, claimed_bytes or len(body), 2) + zlib.compress(body)
    return struct.pack("<iiii", 16 + len(packed), 1, 0, 2012) + packed


@pytest.mark.parametrize("claimed_bytes", [None, 4096])
async def test_compressed_messages_are_refused(data_dir: Path, claimed_bytes: int | None) -> None:
    async with private_mongod(data_dir, "test") as url:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(START_S)
            peer.connect(socket_path(url))
            peer.sendall(zlib_message(claimed_bytes))
            answer = await asyncio.to_thread(peer.recv, 65536)
    assert answer == b""
