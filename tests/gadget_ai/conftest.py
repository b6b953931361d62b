"""A scripted server over real HTTP, and the two clients that talk to it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from gadget_ai.client import ChatClient, Chunk, TextDelta, ThinkingDelta, Timeouts, ToolSpec
from gadget_ai.factory import create_client
from gadget_ai.images import LoadImage
from gadget_ai.testing.script import Reply, RequestView, Script
from gadget_ai.testing.server import ScriptedServer
from gadget_api.messages import UserMessage
from gadget_api.providers import ApiType, ModelParams
from gadget_api.work_order import OrderProvider

KEY = "sk-very-secret-key-0123456789"
LIST_TOOL = ToolSpec(
    "list",
    "Lists a directory.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "how": {"type": "object", "properties": {"n": {"minimum": 1}}}},
        "required": ["path"],
    },
)


def provider(api: ApiType, **changes: Any) -> OrderProvider:
    return OrderProvider(
        id="1", name="Scripted", sdk=api, base_url="http://x", api_key=KEY, model_id="scripted", params=ModelParams()
    ).replace(**changes)


@dataclass
class Stage:
    """A server with its script, and a client of it."""

    server: ScriptedServer
    client: ChatClient

    async def ask(self, prompt: str = "Hello", tools: Sequence[ToolSpec] = ()) -> list[Chunk]:
        """The chunks of one call."""
        async with asyncio.timeout(20):
            return [chunk async for chunk in self.stream(prompt, tools)]

    def stream(self, prompt: str = "Hello", tools: Sequence[ToolSpec] = ()) -> AsyncGenerator[Chunk, None]:
        return self.client.stream([self.client.encode(UserMessage(content=prompt))], tools)


T = TypeVar("T")
MakeStage = Callable[..., Any]


@pytest.fixture
async def make_stage() -> AsyncIterator[MakeStage]:
    async with AsyncExitStack() as stack:

        async def make(
            api: ApiType,
            *replies: Reply,
            timeouts: Timeouts = Timeouts(),  # noqa: B008 (frozen)
            answer: Callable[[RequestView], Reply] | None = None,
            load_image: LoadImage | None = None,
            **changes: Any,
        ) -> Stage:
            server = await stack.enter_async_context(ScriptedServer(Script(answer or replies)))
            url = server.openai_url if api is ApiType.OPENAI else server.root_url
            client = create_client(provider(api, **{"base_url": url, **changes}), timeouts, load_image=load_image)
            stack.push_async_callback(client.close)
            return Stage(server, client)

        yield make


def text(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.content for chunk in chunks if isinstance(chunk, TextDelta))


def thinking(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.content for chunk in chunks if isinstance(chunk, ThinkingDelta))


def pick(chunks: Sequence[Chunk], kind: type[T]) -> list[T]:
    return [chunk for chunk in chunks if isinstance(chunk, kind)]
