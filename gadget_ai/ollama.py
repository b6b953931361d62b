"""Ollama's native chat API, on the ollama SDK's client.

We use the native API because Ollama's OpenAI-compatible route ignores `num_ctx` and then truncates the conversation
silently. Requests use the SDK's HTTP client but not its `chat()`: that method drops nested parts of a tool's JSON
Schema and the ids of tool calls (ollama 0.6.3: `Tool.Function.Parameters.Property` has only type, items, description
and enum), and validates the whole history in each call.
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
    UsageChunk,
)
from gadget_ai.effort import effort_rejected, rejects_parameter
from gadget_ai.encoding import image_bytes, ollama_message, tool_definition
from gadget_ai.images import NO_VISION, Vision
from gadget_ai.inline_thinking import InlineThinking
from gadget_ai.lines import lines
from gadget_ai.provider_errors import ProviderErrors
from gadget_ai.watchdog import cut_off_error, with_timeouts
from gadget_ai.windows import DEFAULT_NUM_CTX
from gadget_api.messages import FinishReason, Message, ToolMessage, Usage
from gadget_api.providers import ListedModel


class EncodedMessage(bytes):
    """A message as JSON."""

    text_bytes: int
    """The length without images."""


@cache
def tls_context() -> ssl.SSLContext:
    """Reads the trusted certificates, once per process, because that blocks for 30 ms."""
    return httpx.create_ssl_context()


class OllamaClient:
    """A `ChatClient` for Ollama. `base_url` is the server's root, such as `http://127.0.0.1:11434`."""

    def __init__(
        self, base_url: str, model_id: str, api_key: str | None, options: CallOptions, vision: Vision = NO_VISION
    ) -> None:
        self._model_id = model_id
        self._options = options
        self._effort = options.effort
        """None after the model has rejected it."""
        self._vision = vision
        self._num_ctx = options.context_window or DEFAULT_NUM_CTX
        self._errors = ProviderErrors(base_url=base_url, model_id=model_id, api_key=api_key)
        try:
            self._sdk = ollama.AsyncClient(
                base_url,
                # No redirects: only the address that was checked with the provider may get the prompt.
                follow_redirects=False,
                verify=tls_context(),
                timeout=httpx.Timeout(None, connect=options.timeouts.connect_s),
                headers={"authorization": f"Bearer {api_key}"} if api_key else None,
                event_hooks={"response": [self._check]},
            )
        except httpx.InvalidURL as exc:
            raise self._errors.unreachable(exc) from None
        self._http: httpx.AsyncClient = self._sdk._client
        if not api_key:
            # The SDK would send OLLAMA_API_KEY from the environment, also to another provider.
            self._http.headers.pop("authorization", None)

    def encode(self, message: Message) -> EncodedMessage:
        document = ollama_message(message, self._vision)
        sent = EncodedMessage(orjson.dumps(document))
        sent.text_bytes = len(sent) - image_bytes(document)
        return sent

    def encode_images(self, results: Sequence[ToolMessage]) -> None:
        """Returns None: in this API a tool result may contain images."""

    def stream(self, messages: Sequence[EncodedMessage], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        return with_timeouts(self._stream(messages, tools), self._options.timeouts)

    async def list_models(self) -> list[ListedModel]:
        try:
            async with asyncio.timeout(self._options.timeouts.first_chunk_s):
                listed = await self._sdk.list()
        except (httpx.HTTPError, ConnectionError, TimeoutError) as exc:
            self._raise(exc)
        except (pydantic.ValidationError, ValueError, TypeError):
            raise self._errors.wrong_api("something that is not a list of models") from None
        return [ListedModel(id=model.model) for model in listed.models if model.model]

    async def close(self) -> None:
        await self._http.aclose()

    async def _stream(
        self, messages: Sequence[EncodedMessage], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[Chunk, None]:
        tools_json = orjson.dumps([tool_definition(spec) for spec in tools])
        sent_bytes = sum(message.text_bytes for message in messages) + len(tools_json)
        answer = _Answer(self._errors, sent_bytes, self._num_ctx)
        try:
            while True:
                try:
                    async with aclosing(self._answered(answer, self._body(messages, tools_json))) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    return
                except _EffortRejected:
                    self._effort = None
                yield effort_rejected(self._model_id)
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
        """Encodes the request. The messages come last, so that each request starts with the bytes of the one before."""
        options: dict[str, Any] = {"num_ctx": self._num_ctx}
        for name in ("temperature", "top_p", "top_k"):
            if (value := getattr(self._options, name)) is not None:
                options[name] = value
        # With these two options (since October 2025) a server refuses a conversation that does not fit, and stops with
        # `length` at the end of the window. Without them it drops the start of the conversation. Older servers do that.
        head: dict[str, Any] = {"model": self._model_id, "stream": True, "truncate": False, "shift": False}
        if self._effort is not None:
            head["think"] = self._effort
        head["options"] = options
        return b'%b,"tools":%b,"messages":[%b]}' % (orjson.dumps(head)[:-1], tools_json, b",".join(messages))

    async def _check(self, response: httpx.Response) -> None:
        """Checks each response: raises when it is not an answer of a model."""
        if response.status_code != 200:
            body = await response.aread()
            if self._effort is not None and rejects_parameter(response.status_code, body, b"think"):
                raise _EffortRejected
            raise self._errors.from_response(response.status_code, response.headers, body)
        if response.headers.get("content-type", "").startswith("text/html"):
            raise self._errors.wrong_api("a web page")

    def _raise(self, exc: Exception) -> NoReturn:
        """Converts the errors of the SDK and of httpx."""
        if isinstance(exc, httpx.ConnectTimeout):
            raise self._errors.connect_timeout(self._options.timeouts.connect_s) from None
        if isinstance(exc, httpx.TimeoutException | TimeoutError):
            raise self._errors.connect_timeout(self._options.timeouts.first_chunk_s) from None
        if isinstance(exc, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
            raise cut_off_error() from None
        if isinstance(exc, httpx.DecodingError):
            raise self._errors.wrong_api("an unreadable body") from None
        raise self._errors.unreachable(exc) from None


class _EffortRejected(Exception):
    """The model does not reason, or has no levels of effort."""


class _Answer:
    """Parses the lines of one answer."""

    def __init__(self, errors: ProviderErrors, sent_bytes: int, num_ctx: int) -> None:
        self._errors = errors
        self._sent_bytes = sent_bytes
        self._num_ctx = num_ctx
        self._thinking = InlineThinking()
        self._calls = 0

    def read(self, line: bytes) -> list[Chunk]:
        try:
            data = orjson.loads(line)
            if data.get("error"):
                raise self._errors.from_event(data)
            chunks = self._message(data.get("message") or {})
            if data.get("done"):
                chunks += self._end(data)
            return chunks
        except (ValueError, TypeError, AttributeError, KeyError):
            raise self._errors.malformed(line) from None

    def _message(self, message: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []
        if isinstance(thinking := message.get("thinking"), str) and thinking:
            chunks.append(ThinkingDelta(thinking))
        if isinstance(content := message.get("content"), str) and content:
            chunks += self._thinking.feed(content)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or {}
            # Each call comes complete, so it gets a new index. Only newer servers (0.12) send ids; `collect` adds them.
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
        chunks: list[Chunk] = [*self._thinking.flush(), UsageChunk(usage)]
        if was_truncated(self._sent_bytes, usage.input_tokens, self._num_ctx):
            chunks.append(
                ModelNotice(
                    "contextTruncated",
                    f"Ollama has dropped the start of the conversation, because it is longer than {self._num_ctx} "
                    "tokens. Set a larger context window for this model, or start a new session.",
                )
            )
        reason = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}.get(data.get("done_reason") or "stop")
        if reason is FinishReason.STOP and self._calls:
            reason = FinishReason.TOOL_CALLS
        return [*chunks, Finished(reason or FinishReason.UNKNOWN)]


def was_truncated(sent_bytes: int, evaluated_tokens: int, num_ctx: int) -> bool:
    """Estimates whether Ollama has truncated the `sent_bytes` of messages and tools. `evaluated_tokens` is its
    `prompt_eval_count`; 0 when the answer has none.

    Text has 3 to 5 bytes per token with current tokenizers. Text that fits at 3 bytes per token is never suspected,
    because a small count proves nothing: one version (0.30.0) counts only tokens that are not in its cache, and older
    versions omit the count for a cached prompt (ollama issues 2068 and 16414). Longer text was truncated when Ollama
    read fewer tokens than the text has at 6 bytes per token, or when at least 95 % of the window is used.
    """
    if sent_bytes <= 3 * num_ctx:
        return False
    return (evaluated_tokens or num_ctx) < sent_bytes / 6 or evaluated_tokens >= 0.95 * num_ctx
