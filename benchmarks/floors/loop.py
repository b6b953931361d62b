"""The floor of an agent's step: httpx, the model's stream read line by line, asyncio's own subprocesses.

python -m benchmarks.floors.loop URL PROMPT...      all at once
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

OnText = Callable[[str], Awaitable[None]]
SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


async def _quiet(_text: str) -> None:
    """Nobody watches."""


async def answer(
    client: httpx.AsyncClient, url: str, messages: list[dict[str, Any]], on_text: OnText
) -> dict[str, Any]:
    """One model call: the message that it makes. `on_text` gets what came in one read, as one."""
    said: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    body = {"model": "bench", "messages": messages, "tools": [SHELL], "stream": True}
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        rest = ""
        async for read in response.aiter_text():
            *lines, rest = (rest + read).split("\n")
            pieces = []
            for line in lines:
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    delta = choice["delta"]
                    if "content" in delta:
                        pieces.append(delta["content"])
                    for call in delta.get("tool_calls", ()):
                        whole = calls.setdefault(call["index"], {**call, "function": {"name": "", "arguments": ""}})
                        for name, value in call["function"].items():
                            whole["function"][name] += value
            if pieces:
                said += pieces
                await on_text("".join(pieces))
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said)}
    if calls:
        message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in calls.values()]
    return message


async def turn(client: httpx.AsyncClient, url: str, messages: list[dict[str, Any]], on_text: OnText = _quiet) -> None:
    """Model, tools, model, until an answer calls no tool."""
    while True:
        message = await answer(client, url, messages, on_text)
        messages.append(message)
        for call in message.get("tool_calls", ()):
            process = await asyncio.create_subprocess_exec(
                "sh",
                "-c",
                json.loads(call["function"]["arguments"])["command"],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output.decode()})
        if "tool_calls" not in message:
            return


async def main() -> None:
    url, *prompts = sys.argv[1:]
    async with httpx.AsyncClient(timeout=120) as client:
        await asyncio.gather(*(turn(client, url, [{"role": "user", "content": prompt}]) for prompt in prompts))


if __name__ == "__main__":
    asyncio.run(main())
