"""A MongoDB that a test may kill, freeze and bring back with its data."""

import asyncio
from pathlib import Path
from typing import Any, Self

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from gadget_code.store.mongod import find_mongod
from tests.harness import START_S, Process, clean_environment
from tests.ports import held_port

_ALREADY_INITIATED = 23


class Mongo(Process):
    """A replica set of one on 127.0.0.1. Nobody starts it again but the test: the service's own keeper would."""

    port: int = 0

    @classmethod
    def at(cls, directory: Path) -> "Mongo":
        """Started, and takes writes."""
        data = directory / "mongodb"
        data.mkdir(parents=True)
        port = held_port()
        command = [
            str(find_mongod()),
            *("--dbpath", str(data), "--replSet", "faults", "--oplogSize", "64"),
            *("--bind_ip", "127.0.0.1", "--port", str(port), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", "0.25", "--quiet"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        ]
        mongo = cls(command, clean_environment(), directory / "mongod.log")
        mongo.port = port
        return mongo.start()

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def start(self) -> Self:
        super().start()
        asyncio.run(self._ready())
        return self

    async def start_again(self) -> None:
        """As `start`, from a running event loop."""
        Process.start(self)
        await self._ready()

    async def _ready(self) -> None:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(self.url, serverSelectionTimeoutMS=500)
        try:
            async with asyncio.timeout(START_S):
                while not await self._is_primary(client):
                    assert not self.has_ended, self.output[-2000:]
                    await asyncio.sleep(0.05)
        finally:
            await client.close()

    async def _is_primary(self, client: AsyncMongoClient[dict[str, Any]]) -> bool:
        try:
            if (await client.admin.command("hello")).get("isWritablePrimary"):
                return True
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            await client.admin.command("replSetInitiate", {"_id": "faults", "members": members})
        except OperationFailure as exc:
            if exc.code != _ALREADY_INITIATED:
                raise
        except PyMongoError:
            pass  # not there yet
        return False
