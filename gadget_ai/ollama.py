"""Ollama's native chat API, on the ollama SDK's client.

Native, because Ollama's OpenAI-compatible route ignores `num_ctx` and then cuts the conversation without a word.
The request goes through the SDK's configured HTTP client and not through its `chat()`, which drops every nested part
of a tool's JSON Schema and the ids of tool calls (ollama 0.6.3: `Tool.Function.Parameters.Property` has type, items,
description and enum alone), and validates the whole history again for each call.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, NoReturn

import httpx
import ollama
import orjson
import pydantic

from gadget_ai.client import (
    CallOptions,
    Chunk,
    Finished,
    ModelNotice,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from gadget_ai.effort import is_refused, refused
from gadget_ai.encoding import image_bytes, ollama_message, tool
from gadget_ai.images import BLIND, Sight
from gadget_ai.inline_thinking import InlineThinking
from gadget_ai.lines import lines
from gadget_ai.refusals import Refusals
from gadget_ai.watchdog import cut_off, watched
from gadget_ai.windows import DEFAULT_NUM_CTX
from gadget_api.messages import FinishReason, Message, ToolMessage, Usage
from gadget_api.providers import ListedModel


class Sent(bytes):
    """A message as JSON."""

    text_bytes: int
    """Its length without the images in it."""


@cache
def tls() -> ssl.SSLContext:
    """The certificates that are trusted, read once for a process: 30 ms, which each turn's client took on the event
    loop. Blocks."""
    return httpx.create_ssl_context()


class OllamaClient:
    """A `ChatClient`. `base_url` is the server's root, such as `http://127.0.0.1:11434`."""

    def __init__(
        self, base_url: str, model_id: str, api_key: str | None, options: CallOptions, sight: Sight = BLIND
    ) -> None:
        self._model_id = model_id
        self._options = options
        self._effort = options.effort
        """None once the model has refused it."""
        self._sight = sight
        self._num_ctx = options.context_window or DEFAULT_NUM_CTX
        self._refusals = Refusals(base_url=base_url, model_id=model_id, api_key=api_key)
        try:
            self._sdk = ollama.AsyncClient(
                base_url,
                # No redirects: the address was checked when the provider was stored, and a prompt goes nowhere else.
                follow_redirects=False,
                verify=tls(),
                timeout=httpx.Timeout(None, connect=options.timeouts.connect_s),
                headers={"authorization": f"Bearer {api_key}"} if api_key else None,
                event_hooks={"response": [self._refuse]},
            )
        except httpx.InvalidURL as exc:
            raise self._refusals.unreachable(exc) from None
        self._http: httpx.AsyncClient = self._sdk._client
        if not api_key:
            # The SDK sends OLLAMA_API_KEY from the environment: another provider must not see it.
            self._http.headers.pop("authorization", None)

    def encode(self, message: Message) -> Sent:
        document = ollama_message(message, self._sight)
        sent = Sent(orjson.dumps(document))
        sent.text_bytes = len(sent) - image_bytes(document)
        return sent

    def encode_images(self, results: Sequence[ToolMessage]) -> None:
        """Any message may have images here."""

    def stream(self, messages: Sequence[Sent], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        return watched(self._stream(messages, tools), self._options.timeouts)

    async def list_models(self) -> list[ListedModel]:
        try:
            async with asyncio.timeout(self._options.timeouts.first_chunk_s):
                listed = await self._sdk.list()
        except (httpx.HTTPError, ConnectionError, TimeoutError) as exc:
            self._raise(exc)
        except (pydantic.ValidationError, ValueError, TypeError):
            raise self._refusals.not_this_api("something that is no list of models") from None
        return [ListedModel(id=model.model) for model in listed.models if model.model]

    async def close(self) -> None:
        await self._http.aclose()

    async def _stream(self, messages: Sequence[Sent], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        tools_json = orjson.dumps([tool(spec) for spec in tools])
        sent_bytes = sum(message.text_bytes for message in messages) + len(tools_json)
        answer = _Answer(self._refusals, sent_bytes, self._num_ctx)
        try:
            try:
                async with aclosing(self._answered(answer, self._body(messages, tools_json))) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except _EffortRefused:
                self._effort = None
            yield refused(self._model_id)
            async with aclosing(self._answered(answer, self._body(messages, tools_json))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except httpx.HTTPError as exc:
            self._raise(exc)

    async def _answered(self, answer: "_Answer", body: bytes) -> AsyncGenerator[Chunk, None]:
        async with (
            self._http.stream("POST", "/api/chat", content=body) as response,
            aclosing(lines(response.aiter_bytes())) as batches,
        ):
            async for batch in batches:
                for line in batch:
                    if line.strip():
                        for chunk in answer.read(line):
                            yield chunk

    def _body(self, messages: Sequence[bytes], tools_json: bytes) -> bytes:
        """The messages come last: all that was sent before is then an exact prefix of what is sent now."""
        options: dict[str, Any] = {"num_ctx": self._num_ctx}
        for name in ("temperature", "top_p", "top_k"):
            if (value := getattr(self._options, name)) is not None:
                options[name] = value
        # A server that knows `truncate` and `shift` (since October 2025) now refuses what does not fit, and stops with
        # `length` at the window's end, instead of forgetting the start of the conversation. Older ones ignore them.
        head: dict[str, Any] = {"model": self._model_id, "stream": True, "truncate": False, "shift": False}
        if self._effort is not None:
            head["think"] = self._effort
        head["options"] = options
        return b'%b,"tools":%b,"messages":[%b]}' % (orjson.dumps(head)[:-1], tools_json, b",".join(messages))

    async def _refuse(self, response: httpx.Response) -> None:
        """Called for each response: raises for one that is no answer."""
        if response.status_code != 200:
            body = await response.aread()
            if self._effort is not None and is_refused(response.status_code, body, b"think"):
                raise _EffortRefused
            raise self._refusals.of_response(response.status_code, response.headers, body)
        if response.headers.get("content-type", "").startswith("text/html"):
            raise self._refusals.not_this_api("a web page")

    def _raise(self, exc: Exception) -> NoReturn:
        """The one place where the SDK's and httpx' errors end."""
        if isinstance(exc, httpx.ConnectTimeout):
            raise self._refusals.slow_connect(self._options.timeouts.connect_s) from None
        if isinstance(exc, httpx.TimeoutException | TimeoutError):
            raise self._refusals.slow_connect(self._options.timeouts.first_chunk_s) from None
        if isinstance(exc, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
            raise cut_off() from None
        if isinstance(exc, httpx.DecodingError):
            raise self._refusals.not_this_api("a body that cannot be read") from None
        raise self._refusals.unreachable(exc) from None


class _EffortRefused(Exception):
    """The model does not think, or not by levels."""


class _Answer:
    """Reads the lines of one answer."""

    def __init__(self, refusals: Refusals, sent_bytes: int, num_ctx: int) -> None:
        self._refusals = refusals
        self._sent_bytes = sent_bytes
        self._num_ctx = num_ctx
        self._thinking = InlineThinking()
        self._calls = 0

    def read(self, line: bytes) -> list[Chunk]:
        try:
            data = orjson.loads(line)
            if data.get("error"):
                raise self._refusals.of_event(data)
            chunks = self._said(data.get("message") or {})
            if data.get("done"):
                chunks += self._end(data)
            return chunks
        except (ValueError, TypeError, AttributeError, KeyError):
            raise self._refusals.malformed(line) from None

    def _said(self, message: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        if isinstance(thinking := message.get("thinking"), str) and thinking:
            chunks.append(ThinkingDelta(thinking))
        if isinstance(content := message.get("content"), str) and content:
            chunks += self._thinking.feed(content)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or {}
            # Calls come whole, so each is a new index. Only newer servers (0.12) give ids; `collect` makes the others.
            chunks.append(
                ToolCallDelta(
                    index=self._calls,
                    call_id=str(call.get("id") or ""),
                    name=str(function.get("name") or ""),
                    arguments=arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(),
                )
            )
            self._calls += 1
        return chunks

    def _end(self, data: dict[str, Any]) -> list[Chunk]:
        usage = Usage(
            input_tokens=int(data.get("prompt_eval_count") or 0),
            cached_input_tokens=int(data.get("prompt_eval_cached_count") or 0),
            response_tokens=int(data.get("eval_count") or 0),
        )
        chunks: list[Chunk] = [*self._thinking.flush(), UsageReport(usage)]
        if was_truncated(self._sent_bytes, usage.input_tokens, self._num_ctx):
            chunks.append(
                ModelNotice(
                    "contextTruncated",
                    f"Ollama has dropped the start of the conversation: it does not fit {self._num_ctx} tokens. "
                    "Set a larger context window for this model, or start a new session.",
                )
            )
        reason = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}.get(data.get("done_reason") or "stop")
        if reason is FinishReason.STOP and self._calls:
            reason = FinishReason.TOOL_CALLS
        return [*chunks, Finished(reason or FinishReason.UNKNOWN)]


def was_truncated(sent_bytes: int, evaluated_tokens: int, num_ctx: int) -> bool:
    """Whether Ollama cannot have read all of `sent_bytes` of messages and tools. `evaluated_tokens` is its
    `prompt_eval_count`; 0 where it gave none.

    Text is 3 to 5 bytes a token with the tokenizers in use. What would fit at 3 bytes a token is never suspected: one
    version (0.30.0) counted only what its cache did not hold, and older ones leave the count out for a cached prompt
    (ollama issues 2068 and 16414), so a small count alone says nothing. What would not fit was truncated when fewer
    tokens were read than it has at 6 bytes a token, or when the window is full to 95 %.
    """
    if sent_bytes <= 3 * num_ctx:
        return False
    return (evaluated_tokens or num_ctx) < sent_bytes / 6 or evaluated_tokens >= 0.95 * num_ctx
