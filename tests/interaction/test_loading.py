"""What waits for work has loaded only what it needs to wait: `tests/loading.py` is the list."""

import re
from importlib.util import find_spec
from pathlib import Path

from tests.harness import Drone, Process, Web, stopped_at_end
from tests.loading import IDLE_DRONE, IDLE_WEB, unwanted

_IMPORTED = re.compile(r"^import time: +[0-9]+ \| +[0-9]+ \| +(\S+)$", re.MULTILINE)
TELLING = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Python writes each import to stderr."""


async def test_an_idle_service_and_an_idle_drone_load_what_they_need_to_wait(mongodb_url: str, tmp_path: Path) -> None:
    web = Web.at(tmp_path / "web", mongodb_url, **TELLING)
    with stopped_at_end(web):
        async with await web.user() as user:
            drone = await Drone.at(tmp_path / "drone", user, **TELLING)
            with stopped_at_end(drone):
                of_drone, of_web = loaded_by(drone), loaded_by(web)
    assert {"asyncio", "pydantic"} <= of_drone & of_web  # it did tell
    assert unwanted(of_drone, IDLE_DRONE) == set()
    assert unwanted(of_web, IDLE_WEB) == set()


def loaded_by(process: Process) -> set[str]:
    """Python tells of what it did not find, too: a package counts with something that is in it."""
    told = {name for name in _IMPORTED.findall(process.output) if find_spec(name.partition(".")[0]) is not None}
    packages = {name.rpartition(".")[0] for name in told}
    return {name for name in told if "." in name or name in packages}
