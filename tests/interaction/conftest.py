"""A whole system for a turn: scripted model, repository, drone, session."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Script
from gadget_ai.testing.server import ScriptedServer
from tests.harness import Drone, Ide, User, repository, until, while_there


@dataclass
class Stage:
    """One user with a project, a provider, a session and a drone."""

    user: User
    drone: Drone
    ide: Ide
    model: ScriptedServer
    session: dict[str, Any]
    origin: Path

    @property
    def checkout(self) -> Path:
        return self.drone.workspace / "project"

    async def let_go(self) -> None:
        """Ends the command HELD, once it runs."""
        held = self.checkout / _HELD

        async def runs() -> bool | None:
            return True if held.exists() else None

        await until(runs)
        held.unlink()


_HELD = "held"
HELD = f": > {_HELD}; {while_there(_HELD)}"
"""A command that runs until `let_go`."""
FILES = {"README.md": "# A project\n", "app.py": "def answer():\n    return 41\n"}


@pytest.fixture
async def stage_for(user: User, tmp_path: Path) -> AsyncIterator[Any]:
    """Makes the stage for a script: `await stage_for(script)`."""
    opened: list[Any] = []

    async def make(
        script: Script, *, api: str = "openai", files: Mapping[str, str] = FILES, **model_fields: Any
    ) -> Stage:
        model = await ScriptedServer(script).__aenter__()
        opened.append(model)
        origin = repository(tmp_path / "origin", files)
        drone = await Drone.at(tmp_path, user)
        opened.append(drone)
        url = model.openai_url if api == "openai" else model.root_url
        provider = await user.provider(url, api=api, key="sk-scripted-0123456789", **model_fields)
        session = await user.session(await user.project(str(origin)), provider)
        ide = await Ide(user).__aenter__()
        opened.append(ide)
        await ide.select(session["_id"])
        return Stage(user, drone, ide, model, session, origin)

    yield make
    for part in reversed(opened):
        if isinstance(part, Drone):
            if not part.has_ended:  # a test may have ended it, and looked at its status
                assert part.stop() == 0, part.output
            assert "Traceback" not in part.output, part.output
        else:
            await part.__aexit__(None, None, None)
