"""The private MongoDB: ours alone, on no port, there again when it dies, gone when we are."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from gadget_api.errors import GadgetError
from gadget_code.settings import Settings
from gadget_code.store.database import open_store
from gadget_code.store.mongod import private_mongod, running_mongod
from tests.harness import START_S, Web, clean_environment, until


def mongods(data_dir: Path) -> list[int]:
    """The processes that serve this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(data_dir / "mongodb").encode() in words:
                found.append(int(entry.name))
    return found


def open_files(pid: int) -> list[str]:
    """What the process has open; what it closes meanwhile may be missing."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(os.readlink(link))
    return links


def listening_inodes() -> set[str]:
    """The inodes of all TCP sockets that listen on this machine."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {fields[9] for fields in lines if fields[3] == "0A"}


async def writes(url: str) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url, serverSelectionTimeoutMS=500)
    async with client:
        await client.test.things.insert_one({"a": 1})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_it_listens_on_no_port_and_its_socket_is_in_a_closed_folder(data_dir: Path) -> None:
    async with private_mongod(data_dir, "test") as url:
        await writes(url)
        [pid] = mongods(data_dir)
        links = open_files(pid)
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        assert inodes
        assert not inodes & listening_inodes()
        assert (data_dir / "run").stat().st_mode & 0o777 == 0o700
        assert running_mongod(data_dir) == url
    assert mongods(data_dir) == []
    assert running_mongod(data_dir) is None


async def test_data_survives_a_kill_and_a_move_of_the_directory(
    data_dir: Path,
) -> None:
    async with private_mongod(data_dir, "test") as url:
        await writes(url)
    moved = data_dir.with_name("moved")
    data_dir.rename(moved)
    async with private_mongod(moved, "test") as url:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
        async with client:
            assert await client.test.things.count_documents({}) == 1
        [pid] = mongods(moved)
        os.kill(pid, signal.SIGKILL)

        async def written() -> bool | None:
            try:
                await writes(url)
            except PyMongoError:
                return None
            return True

        await until(written, START_S)
        [again] = mongods(moved)
        assert again != pid


async def test_a_second_user_of_a_data_directory_is_refused_at_once(data_dir: Path) -> None:
    settings = Settings(data_dir=data_dir)
    async with open_store(settings):
        async with asyncio.timeout(2):
            with pytest.raises(GadgetError, match=r"runs with the data directory .* already; stop it"):
                async with open_store(settings):
                    pass
        async with open_store(settings, join=True) as joined:
            await joined.users.create("ada@example.org", None, display_name="Ada")
    assert mongods(data_dir) == []


async def test_it_ends_when_the_service_is_killed_and_the_next_service_starts(tmp_path: Path) -> None:
    web = Web.at(tmp_path)
    data = tmp_path / "data"
    assert len(mongods(data)) == 1
    web.kill()
    web.start()  # on the same data, while the one before may still be shutting down
    try:
        [pid] = mongods(data)
        async with await web.user() as user:
            assert (await user.get("/users/me"))["email"] == user.email
        web.kill()

        async def gone() -> bool | None:
            return None if pid in mongods(data) else True

        await until(gone, START_S)
    finally:
        web.stop()


def test_without_a_mongod_the_error_names_three_alternatives(tmp_path: Path) -> None:
    # An interpreter that sees our packages, and no wheel that brings a mongod.
    hide = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n, *a: n != 'fiftyone' and find(n, *a)"
    run = "import sys; from gadget_code.cli import main; sys.exit(main(['serve', '--port', '0']))"
    (tmp_path / "bin").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", f"{hide}; {run}"],
        env={**clean_environment(GADGET_DATA_DIR=str(tmp_path / "data")), "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    for way in ("GADGET_MONGODB_URL", "PATH", "pip install 'gadget-code[local]'"):
        assert way in line


async def test_an_unusable_data_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(GadgetError, match=r"data directory .* cannot be used"):
        async with open_store(Settings(data_dir=tmp_path / "file" / "data")):
            pass
