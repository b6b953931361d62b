"""What `up --demo` brings: a scripted model behind a real HTTP endpoint, and a small git repository with a bug."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gadget_api.errors import ErrorCode, GadgetError

DEMO_SLUG = "roman"
DEMO_PROMPT = "The tests of this project fail. Find out why, mend it, and run them again."
DEMO_MODEL: dict[str, Any] = {"id": "demo", "name": "Scripted demo model", "contextWindow": 32768}
_MODULE = "gadget_ai.testing"  # a process of its own, as any model server is: this package knows no model client
_START_S = 20.0


@asynccontextmanager
async def demo_model() -> AsyncIterator[str]:
    """The scripted model's base URL while the context is open."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _MODULE, "--port", "0"),
        stdin=asyncio.subprocess.PIPE,  # it ends when this closes, should we be killed
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        yield str(json.loads(line)["url"])
    except (TimeoutError, ValueError, KeyError) as exc:
        raise GadgetError(ErrorCode.INTERNAL, "The demo's model did not start; see the messages above.") from exc
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def demo_project(origin: Path) -> Path:
    """The demo's git repository, made at the first time."""
    if not (origin / ".git").is_dir():
        origin.mkdir(parents=True, exist_ok=True)
        await _run(sys.executable, "-m", _MODULE, "--write-project", str(origin))
        identity = ("-c", "user.name=Gadget Code", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
        await _run("git", "-C", str(origin), "init", "--quiet", "--initial-branch=main")
        await _run("git", "-C", str(origin), "add", "--all")
        await _run("git", "-C", str(origin), *identity, "commit", "--quiet", "--message", "Roman numerals")
    return origin


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise GadgetError(ErrorCode.INTERNAL, f"The demo's project could not be made: {command[0]}: {last}")
