"""The demo model mends the demo project, with real files and a real test run."""

import asyncio
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from gadget_ai.collect import LiveChunk, ModelAnswer, ask_model
from gadget_ai.factory import create_client
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.demo import DEMO_FILES, DEMO_PROMPT, MODEL_ID, demo_reply, demo_script
from gadget_ai.testing.script import Pause, Reply, RequestView, Script, Text, Think
from gadget_api.messages import Message, ModelMessage, ToolMessage, UserMessage
from gadget_api.providers import ApiType
from gadget_drone.agent import title
from tests.gadget_ai.conftest import provider

SERVE = [sys.executable, "-m", "gadget_ai.testing", "--port", "0"]


def run_tool(root: Path, name: str, params: dict[str, Any]) -> str:
    match name:
        case "list":
            return "\n".join(sorted(path.name for path in (root / params["path"]).iterdir()))
        case "read":
            lines = (root / params["path"]).read_text().splitlines()
            return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, 1))
        case "shell":
            run = subprocess.run(
                params["command"].replace("python3", sys.executable, 1).split(),
                cwd=root,
                capture_output=True,
                text=True,
                timeout=30,
            )
            return f"{run.stdout}{run.stderr}\nexit code {run.returncode}"
        case "edit":
            path = root / params["path"]
            assert path.read_text().count(params["old_text"]) == 1
            path.write_text(path.read_text().replace(params["old_text"], params["new_text"]))
            return "edited"
    raise AssertionError(name)


async def run_turn(root: Path, messages: list[Message], prompt: str) -> tuple[list[str], ModelAnswer]:
    """Works until an answer without a call; the tools it called, and that answer."""
    client = ScriptedClient(Script(no_pauses))
    tools: list[str] = []
    messages.append(UserMessage(content=prompt))
    for _ in range(10):
        said = await ask_model(client, [client.encode(m) for m in messages], [], on_live=lambda live: None)
        messages.append(ModelMessage.of(said.message))
        if not said.message.tool_calls:
            return tools, said
        for call in said.message.tool_calls:
            assert call.error is None
            tools.append(call.name)
            output = await asyncio.to_thread(run_tool, root, call.name, call.params)
            messages.append(ToolMessage(call_id=call.call_id, name=call.name, content=output))
    raise AssertionError("it does not end")


def no_pauses(request: RequestView) -> Reply:
    pieces = demo_reply(request).pieces
    return Reply(*[replace(piece, pause_s=0) if isinstance(piece, Text | Think) else piece for piece in pieces])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, content in DEMO_FILES.items():
        (tmp_path / path).write_text(content)
    return tmp_path


async def test_the_demo_repairs_the_project_and_later_finds_no_fault(project: Path) -> None:
    messages: list[Message] = []
    tools, said = await run_turn(project, messages, DEMO_PROMPT)
    assert tools == ["list", "read", "shell", "edit", "shell"]
    assert "subtractive" in said.message.content
    assert "OK" in run_tool(project, "shell", {"command": "python3 -m unittest -v"})
    tools, said = await run_turn(project, messages, "Is everything fine?")
    assert tools == ["list", "read", "shell"]
    assert "All is well" in said.message.content


async def test_the_demo_explains_that_it_cannot_help(project: Path) -> None:
    (project / "roman.py").write_text("raise SystemExit('something else')\n")
    tools, said = await run_turn(project, [], "Mend it.")
    assert tools == ["list", "read", "shell"]
    assert "something else" in said.message.content


def test_a_demo_turn_takes_seconds() -> None:
    request = RequestView("openai", MODEL_ID, [{"role": "user", "content": "x"}], [], {}, b"")
    pauses_s = [delta.seconds for delta in demo_reply(request).deltas() if isinstance(delta, Pause)]
    assert 0.2 < sum(pauses_s) < 3
    assert all(0.02 <= pause_s <= 0.04 for pause_s in pauses_s)


def test_the_demo_answers_a_prompt_for_a_title() -> None:
    messages = [{"role": "system", "content": title._ASK}, {"role": "user", "content": DEMO_PROMPT}]
    reply = demo_reply(RequestView("openai", MODEL_ID, messages, [], {}, b""))
    assert reply.pieces == (Text("Roman numerals and their tests"),)


def test_the_project_is_written(tmp_path: Path) -> None:
    target = tmp_path / "new" / "demo"
    subprocess.run([sys.executable, "-m", "gadget_ai.testing", "--write-project", str(target)], check=True, timeout=30)
    assert {path.name: path.read_text() for path in target.iterdir()} == DEMO_FILES


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
async def test_the_demo_server_runs_until_it_is_stopped(how: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *SERVE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(20):
        told = orjson.loads(await process.stdout.readline())
        client = create_client(provider(ApiType.OPENAI, base_url=told["url"], model_id=told["model"]))
        live: list[LiveChunk] = []
        started = time.monotonic()
        said = await ask_model(client, [client.encode(UserMessage(content=told["prompt"]))], [], on_live=live.append)
        assert time.monotonic() - started < 5
        assert said.message.tool_calls[0].name == "list"
        assert len(live) > 5
        await client.close()
        if how == "stdin":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert await process.wait() == 0
    process.stdin.close()


def test_demo_script_needs_no_state() -> None:
    request = RequestView("openai", MODEL_ID, [{"role": "user", "content": "x"}], [], {}, b"")
    script = demo_script()
    first, second = script.next(request), script.next(request)
    assert first.pieces == second.pieces
