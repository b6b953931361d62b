"""What fault tests share: a MongoDB and a web service that they may break, and must mend."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.mongo import Mongo
from tests.faults.stage import Stage, staged
from tests.harness import Web


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
