"""What fault tests share: a MongoDB and a web service that they may break, and must mend.

`GADGET_TEST_FAULTS=full` runs everything; without it what is marked `slow_fault` is left out.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.mongo import Mongo
from tests.faults.stage import Stage, staged
from tests.harness import Web


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow_fault: only in the full selection (scripts/test-faults)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("GADGET_TEST_FAULTS") == "full":
        return
    slow = [item for item in items if item.get_closest_marker("slow_fault") is not None]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


@pytest.fixture(scope="session")
def fault_mongo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongo]:
    mongo = Mongo.at(Path(tmp_path_factory.mktemp("mongo")))
    yield mongo
    mongo.stop()


@pytest.fixture(scope="session")
def fault_web(fault_mongo: Mongo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    web = Web.at(Path(tmp_path_factory.mktemp("fault-web")), fault_mongo.url)
    yield web
    web.stop()


@pytest.fixture
async def stage(fault_mongo: Mongo, fault_web: Web, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path, fault_mongo, fault_web) as made:
        yield made
