"""A store of one's own, on the real MongoDB; a drone that the test plays, and a turn that it works on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from gadget_api.ids import new_id
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore, open_store
from tests.gadget_code.peers import PlayedDrone, a_session, a_turn, is_processing
from tests.harness import User, Web


@pytest.fixture
def settings_for(mongodb_url: str, tmp_path: Path) -> Any:
    """Settings of a fresh database: `settings_for(host="::1")`."""

    def make(**fields: Any) -> Settings:
        return Settings(**{"mongodb_url": mongodb_url, "database": f"s{new_id()}", "data_dir": tmp_path, **fields})

    return make


@pytest.fixture
async def store(settings_for: Any) -> AsyncIterator[MongoStore]:
    async with open_store(settings_for()) as opened:
        yield opened
        await opened.database.client.drop_database(opened.database.name)


@pytest.fixture
async def drone(user: User) -> AsyncIterator[PlayedDrone]:
    async with PlayedDrone(user) as played:
        yield played


@pytest.fixture
async def admin(web: Web, mongodb_url: str) -> AsyncIterator[User]:
    """An administrator of the install."""
    async with await web.user("root") as made:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongodb_url)
        async with client:
            users = client[web.env["GADGET_DATABASE"]].users
            await users.update_one({"_id": made.document["_id"]}, {"$set": {"isAdmin": True}})
        yield made


@pytest.fixture
async def turn(user: User, drone: PlayedDrone) -> dict[str, Any]:
    """A turn that the drone has accepted."""
    made = await a_turn(user, await a_session(user))
    await drone.order(made["_id"])
    return await is_processing(user, made["_id"])
