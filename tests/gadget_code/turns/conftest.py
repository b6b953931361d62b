"""A drone that the test plays, and a turn that it works on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gadget_code.peers import PlayedDrone, a_session, a_turn, is_processing
from tests.harness import User


@pytest.fixture
async def drone(user: User) -> AsyncIterator[PlayedDrone]:
    async with PlayedDrone(user) as played:
        yield played


@pytest.fixture
async def turn(user: User, drone: PlayedDrone) -> dict[str, Any]:
    """A turn that the drone has accepted."""
    made = await a_turn(user, await a_session(user))
    await drone.order(made["_id"])
    return await is_processing(user, made["_id"])
