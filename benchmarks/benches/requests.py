"""What a model is sent: how much of it a provider's cache finds again, and how many tokens come before the first word.

Here the scripted model runs in our own process and keeps each request; nothing is timed.
"""

import itertools
from typing import Any

import orjson

from benchmarks.bench import Bench, Result, Scale
from benchmarks.figures import Row
from benchmarks.stage import CONTEXT_TOKENS, Stage, watching
from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text, message_text
from gadget_ai.testing.server import ScriptedServer

_BYTES_A_TOKEN = 4
"""The usual rule for English and code; no tokenizer is needed for it, and none is downloaded."""


async def run(scale: Scale) -> Result:
    steps = scale.of(6, 40)

    def answered(request: RequestView) -> Reply:
        since = list(itertools.takewhile(lambda message: message["role"] != "user", reversed(request.messages)))
        if sum(message["role"] == "tool" for message in since) < steps:
            return Reply(Text("I look."), Call("shell", {"command": "echo é; ls"}))
        return Reply(Text("Done."))

    async with Stage() as stage, ScriptedServer(Script(answered)) as model:
        await stage.drone()
        provider = await stage.user.provider(model.openai_url, contextWindow=CONTEXT_TOKENS)
        session = (await stage.user.session(stage.project, provider))["_id"]
        async with watching(stage.user, session) as watcher:
            await watcher.run("Look around.")
            await watcher.run("Look around once more.")
        requests = model.requests
    shares = [repeated(before, after) for before, after in itertools.pairwise(requests)]
    first = requests[0]
    system = message_text(next(message for message in first.messages if message["role"] == "system"))
    tools = orjson.dumps(first.tools)
    tokens = (len(system.encode()) + len(tools)) / _BYTES_A_TOKEN
    worst = shares.index(min(shares))
    whole = "all" if min(shares) == 100 else f"the lowest is request {worst + 2} of {len(requests)}"
    rows = [
        Row(
            "repeated prefix of a request",
            "%",
            min(shares),
            n=len(shares),
            note=f"the lowest of two turns of {steps} steps; {whole}",
        ),
        Row(
            "system prompt and tool schemas",
            "tokens",
            tokens,
            note=f"bytes / {_BYTES_A_TOKEN}: prompt {len(system.encode()):,} bytes, "
            f"{len(first.tools)} tools {len(tools):,}; the first request {len(first.body):,}",
        ),
    ]
    return Result(rows)


def repeated(before: RequestView, after: RequestView) -> float:
    """Percent of the earlier prompt that begins the later one, byte for byte: tools, then messages, as providers put
    them before the model."""
    old, new = _prompt(before.tools, before.messages), _prompt(after.tools, after.messages)
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return 100 * same / len(old)


def _prompt(tools: list[dict[str, Any]], messages: list[dict[str, Any]]) -> bytes:
    return b"\n".join(orjson.dumps(part) for part in (*tools, *messages)) + b"\n"


REQUESTS = Bench(
    "requests",
    "the prefix that requests share, and the tokens before the first word",
    ("repeated prefix of a request", "system prompt and tool schemas"),
    run,
)
