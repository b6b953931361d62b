"""Random histories by seed; a failing one is printed, with what replays it."""

import os

import pytest

from tests.faults.machine import play
from tests.faults.mongo import Mongo
from tests.harness import Web

_A_SEED = 5
"""Histories of one seed."""


def _plan() -> list[tuple[int, int]]:
    """Seeds, and how many histories of each."""
    if found := os.environ.get("GADGET_FAULT_SEED"):
        return [(int(found), int(os.environ.get("GADGET_FAULT_HISTORIES", _A_SEED)))]
    wanted = int(os.environ.get("GADGET_FAULT_HISTORIES", 5))
    return [(number, _A_SEED) for number in range(1, -(-wanted // _A_SEED) + 1)]


@pytest.mark.timeout(900)
# The IDE's aiohttp leaves a connection open whose handshake was given up.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("seed", "histories"), [pytest.param(*plan, id=f"seed-{plan[0]}") for plan in _plan()])
def test_whatever_happens_every_turn_ends_well(seed: int, histories: int, fault_mongo: Mongo, fault_web: Web) -> None:
    play(seed, histories, fault_mongo, fault_web)
