"""The parts of `up --demo`: a scripted model behind a real HTTP endpoint, and a small git repository with a bug."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gadget_api.errors import ErrorCode, GadgetError
from gadget_code.runtime.children import run_child, start_child, stop_child

DEMO_SLUG = "roman"
DEMO_PROVIDER = "Demo"
_MODULE = "gadget_ai.testing"  # a process of its own, like any model server: this package has no model client
_START_S = 20.0
_STOP_S = 5.0


@dataclass(frozen=True)
class DemoModel:
    url: str
    model: str
    prompt: str
    """The prompt that the script answers."""


@asynccontextmanager
async def demo_model() -> AsyncIterator[DemoModel]:
    """Runs the scripted model while the context is open."""
    process = await start_child(
        *(sys.executable, "-P", "-m", _MODULE, "--port", "0"),
        stdin=asyncio.subprocess.PIPE,  # its end stops the child where the kernel does not
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        try:
            model = DemoModel(**json.loads(line))
        except (ValueError, TypeError) as exc:
            raise GadgetError(ErrorCode.INTERNAL, "The demo's model did not start; see the messages above.") from exc
        yield model
    finally:
        await stop_child(process, within_s=_STOP_S)


async def demo_project(origin: Path) -> Path:
    """Returns the demo's git repository; creates it the first time."""
    if not (origin / ".git").is_dir():
        origin.mkdir(parents=True, exist_ok=True)
        await run_child(sys.executable, "-P", "-m", _MODULE, "--write-project", str(origin))
        identity = ("-c", "user.name=Gadget Code", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
        await run_child("git", "-C", str(origin), "init", "--quiet", "--initial-branch=main")
        await run_child("git", "-C", str(origin), "add", "--all")
        await run_child("git", "-C", str(origin), *identity, "commit", "--quiet", "--message", "Roman numerals")
    return origin
