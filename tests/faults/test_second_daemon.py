"""A second daemon in the same folder, or in a copy of it, at each moment of a turn: refused, the first untouched."""

import asyncio
import shutil
import subprocess
from contextlib import suppress

import pytest

from tests.faults.moments import Moment, check_undisturbed, through
from tests.faults.oracles import check_all
from tests.faults.selection import WHILE_IT_RUNS, moments
from tests.faults.stage import Stage
from tests.harness import Drone

_REFUSED_S = 20.0
_SETTLES_S = 3.0


@moments(quick=(Moment.DURING_TOOL,))
async def test_a_second_daemon_in_the_same_folder_is_refused(stage: Stage, moment: Moment) -> None:
    async def strike() -> None:
        first = stage.drone
        log = stage.directory / "second.log"
        second = Drone(first.command, {**first.env, "GADGET_SERVER_URL": stage.web.url}, log, first.workspace).start()
        assert await asyncio.to_thread(second.wait, _REFUSED_S) == 1
        assert str(first.pid) in second.output, second.output
        assert "Traceback" not in second.output

    story, turn = await through(stage, moment, strike)
    await check_undisturbed(stage, story, turn)
    await check_all(stage)


@pytest.mark.timeout(240)
@moments(quick=(Moment.DURING_TOOL,), of=WHILE_IT_RUNS)
async def test_a_second_daemon_in_a_copy_of_the_folder_does_not_disturb_the_first(stage: Stage, moment: Moment) -> None:
    """It has the same workspace id. Whether it is refused or becomes one of its own, the turn is the first's."""
    second: list[Drone] = []

    async def strike() -> None:
        first = stage.drone
        copy = stage.directory / "copy" / "workspace"
        # As a person copies a folder: all of it, whatever is being written.
        await asyncio.to_thread(shutil.copytree, first.workspace, copy, symlinks=True)
        env = {**first.env, "GADGET_SERVER_URL": stage.web.url}
        second.append(Drone(first.command, env, stage.directory / "copy.log", copy).start())
        await asyncio.to_thread(_settle, second[0])

    try:
        story, turn = await through(stage, moment, strike)
        await check_undisturbed(stage, story, turn)
    finally:
        for drone in second:
            drone.stop()
    assert "Traceback" not in second[0].output, second[0].output
    await check_all(stage)


def _settle(drone: Drone) -> None:
    """Waits until it is refused, or so long that it would have been."""
    with suppress(subprocess.TimeoutExpired):
        drone.wait(_SETTLES_S)
