"""The end of a turn that no drone ends."""

from datetime import timedelta
from typing import Any

from pymongo import AsyncMongoClient

from gadget_api.model import utc_now
from tests.gadget_code.peers import a_session, a_turn
from tests.harness import User


async def test_a_turn_ends_though_the_clock_was_set_back_after_it_was_made(user: User, mongodb_url: str) -> None:
    turn = await a_turn(user, await a_session(user))
    client: AsyncMongoClient[dict[str, Any]]
    async with AsyncMongoClient(mongodb_url) as client:
        for name in {*await client.list_database_names()} - {"admin", "config", "local"}:
            later = {"createdAt": utc_now() + timedelta(hours=1)}
            await client[name].turns.update_one({"_id": turn["_id"]}, {"$set": later})
    await user.post(f"/turns/{turn['_id']}/cancel", {})
    ended = await user.get(f"/turns/{turn['_id']}")
    assert (ended["status"], ended["stats"]["durationMs"]) == ("cancelled", 0)
