"""What all tests share: one MongoDB and one web service for the whole run; each test makes its own users."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness import User, Web, mongodb

settings.register_profile("gadget", deadline=None)  # how long an example takes is the machine's, not ours
settings.load_profile("gadget")


@pytest.fixture(scope="session")
def mongodb_url() -> Iterator[str]:
    with mongodb() as url:
        yield url


@pytest.fixture(scope="session")
def web(mongodb_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A web service that no test stops or breaks."""
    process = Web.at(Path(tmp_path_factory.mktemp("web")), mongodb_url)
    yield process
    status = process.stop()
    assert status == 0, process.output
    assert "Traceback" not in process.output, process.output


@pytest.fixture
async def user(web: Web) -> AsyncIterator[User]:
    async with await web.user() as made:
        yield made
