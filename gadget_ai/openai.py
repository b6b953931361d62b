"""OpenAI's chat completions, and the compatible API of many servers, on the openai SDK.

The SDK provides the connection, the headers and the typed errors. We send bytes and read the answer line by line,
because the SDK's typed `create()` walks the whole history before each request and builds a model for each delta: with
250 tool rounds and 400 deltas that costs 92 ms per call instead of 2 ms. Of the SDK's two transports we use aiohttp: it
needs 0.7 ms of CPU per call, the other 1.5 ms.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, NoReturn, cast

import aiohttp
import httpx2
import openai
import orjson

from gadget_ai.client import (
    CallOptions,
    Chunk,
    Finished,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    UsageChunk,
)
from gadget_ai.effort import effort_rejected, rejects_parameter
from gadget_ai.encoding import openai_images, openai_message, tool_definition
from gadget_ai.images import NO_VISION, Vision
from gadget_ai.inline_thinking import InlineThinking
from gadget_ai.lines import MAX_LINE_BYTES, lines
from gadget_ai.provider_errors import ProviderErrors
from gadget_ai.watchdog import cut_off_error, with_timeouts
from gadget_api.messages import FinishReason, Message, ToolMessage, Usage
from gadget_api.providers import ListedModel

_DRAIN_S = 0.1
"""The time to read the end of the body after `[DONE]`, so that the connection can be reused. The SDK does the same."""

_SDK_ERRORS = (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError)
"""Includes the errors of aiohttp that the SDK's transport does not convert."""

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@cache
def tls_context() -> ssl.SSLContext:
    """Reads the trusted certificates, once per process, because that blocks for 30 ms."""
    return httpx2.create_ssl_context()


class OpenAIClient:
    """A `ChatClient` for OpenAI's API. `base_url` includes the version path, such as `/v1`. Without a key it sends no
    Authorization header."""

    def __init__(
        self, base_url: str, model_id: str, api_key: str | None, options: CallOptions, vision: Vision = NO_VISION
    ) -> None:
        self._model_id = model_id
        self._options = options
        self._effort = options.effort
        """None after the model has rejected it."""
        self._vision = vision
        self._errors = ProviderErrors(base_url=base_url, model_id=model_id, api_key=api_key)
        # Without this the SDK sends OPENAI_ORG_ID and OPENAI_PROJECT_ID, also to another provider.
        headers: dict[str, Any] = {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
        if not api_key:
            headers["Authorization"] = openai.omit
        self._headers = headers
        try:
            self._sdk = openai.AsyncOpenAI(
                base_url=base_url,
                api_key=api_key or "",  # with None the SDK would use OPENAI_API_KEY
                admin_api_key="",
                max_retries=0,
                timeout=_timeout(options),
                # No redirects: only the address that was checked with the provider may get the prompt.
                http_client=openai.DefaultAioHttpClient(
                    verify=tls_context(), timeout=_timeout(options), follow_redirects=False
                ),
            )
        except httpx2.InvalidURL as exc:
            raise self._errors.unreachable(exc) from None

    def encode(self, message: Message) -> bytes:
        return orjson.dumps(openai_message(message, self._vision))

    def encode_images(self, results: Sequence[ToolMessage]) -> bytes | None:
        message = openai_images(results, self._vision)
        return None if message is None else orjson.dumps(message)

    def stream(self, messages: Sequence[bytes], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        return with_timeouts(self._stream(messages, tools), self._options.timeouts)

    async def list_models(self) -> list[ListedModel]:
        try:
            async with asyncio.timeout(self._options.timeouts.first_chunk_s):
                response = await self._sdk.get("/models", cast_to=httpx2.Response, options={"headers": self._headers})
            return [_listed(model) for model in orjson.loads(response.content)["data"]]
        except (*_SDK_ERRORS, TimeoutError) as exc:
            self._raise(exc)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._errors.wrong_api("something that is not a list of models") from None

    async def close(self) -> None:
        await self._sdk.close()

    def _body(self, messages: Sequence[bytes], tools: Sequence[ToolSpec]) -> bytes:
        """Encodes the request. The messages come last, so that each request starts with the bytes of the one before."""
        head: dict[str, Any] = {"model": self._model_id, "stream": True, "stream_options": {"include_usage": True}}
        for name in ("temperature", "top_p", "top_k"):
            if (value := getattr(self._options, name)) is not None:
                head[name] = value
        if self._effort is not None:
            head["reasoning_effort"] = self._effort
        if tools:
            head["tools"] = [tool_definition(spec) for spec in tools]
        return b'%b,"messages":[%b]}' % (orjson.dumps(head)[:-1], b",".join(messages))

    async def _stream(self, messages: Sequence[bytes], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        try:
            response = await self._ask(self._body(messages, tools))
            if response is None:
                yield effort_rejected(self._model_id)
                response = await self._ask(self._body(messages, tools))
                assert response is not None, "the second request has no effort"
            try:
                async with aclosing(self._chunks(response)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                await response.aclose()
        except _SDK_ERRORS as exc:
            self._raise(exc)

    async def _ask(self, body: bytes) -> httpx2.Response | None:
        """Sends the request. Returns None when the model rejects the effort; later requests then leave it out."""
        try:
            return cast(
                httpx2.Response,
                await self._sdk.post(
                    "/chat/completions",
                    content=body,
                    cast_to=cast(Any, httpx2.Response),
                    options={"headers": self._headers},
                    stream=True,
                    stream_cls=openai.AsyncStream[Any],
                ),
            )
        except openai.APIStatusError as exc:
            if self._effort is None or not rejects_parameter(
                exc.status_code, exc.response.content, b"reasoning_effort"
            ):
                raise
            self._effort = None
            return None

    async def _chunks(self, response: httpx2.Response) -> AsyncGenerator[Chunk, None]:
        answer = _Answer(self._errors)
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/html":
            raise self._errors.wrong_api("a web page")
        if content_type == "application/json":
            answered = answer.read(await self._whole(response.aiter_bytes()))
            if not answered:
                raise self._errors.wrong_api("JSON without choices")
            for chunk in [*answered, *answer.end()]:
                yield chunk
            return
        blocks = response.aiter_bytes()
        stray = b""
        async with aclosing(lines(blocks)) as batches:
            async for batch in batches:
                for line in batch:
                    if line.startswith(b"data:"):
                        payload = line[5:].strip()
                        if payload == b"[DONE]":
                            for chunk in answer.end():
                                yield chunk
                            await _drain(blocks)
                            return
                        if payload:
                            for chunk in answer.read(payload):
                                yield chunk
                    elif line.startswith(b"event:"):
                        answer.failed = line[6:].strip() == b"error"
                    elif line and not line.startswith((b":", b"id:", b"retry:")):
                        stray = stray or line
        if stray and not answer.began:
            raise self._errors.wrong_api(stray[:200].decode("utf-8", "replace"))
        for chunk in answer.flush():
            yield chunk

    async def _whole(self, blocks: AsyncIterator[bytes]) -> bytes:
        body = b""
        async for block in blocks:
            body += block
            if len(body) > MAX_LINE_BYTES:
                raise self._errors.wrong_api(f"more than {MAX_LINE_BYTES} bytes")
        return body

    def _raise(self, exc: Exception) -> NoReturn:
        """Converts the errors of the SDK. `from None`, because the provider's message may contain the key."""
        if isinstance(exc, openai.APIStatusError):
            response = exc.response
            raise self._errors.from_response(response.status_code, response.headers, response.content) from None
        match _root_cause(exc):
            case aiohttp.ServerTimeoutError():
                raise self._errors.connect_timeout(self._options.timeouts.connect_s) from None
            case TimeoutError():
                raise self._errors.connect_timeout(self._options.timeouts.first_chunk_s) from None
            case aiohttp.ClientConnectorError() | aiohttp.ClientHttpProxyError() | aiohttp.InvalidURL() as error:
                raise self._errors.unreachable(error) from None
            case aiohttp.ClientError():
                raise cut_off_error() from None
            case httpx2.DecodingError() | openai.APIResponseValidationError():
                raise self._errors.wrong_api("an unreadable body") from None
            case other:
                raise self._errors.unreachable(other) from None


def _root_cause(error: BaseException) -> BaseException:
    """Returns the error of aiohttp inside the errors of the SDK and its transport. The transport reports every lost
    connection as a time-out."""
    if isinstance(error, openai.APIConnectionError):
        error = error.__cause__ or error
    return error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error


class _Answer:
    """Parses the payloads of one answer."""

    def __init__(self, errors: ProviderErrors) -> None:
        self._errors = errors
        self._thinking = InlineThinking()
        self._finished = False
        self.began = False
        self.failed = False
        """The next payload is the data of an `error` event."""

    def read(self, payload: bytes) -> list[Chunk]:
        self.began = True
        try:
            data = orjson.loads(payload)
            if self.failed or data.get("error"):
                raise self._errors.from_event(data)
            chunks: list[Chunk] = []
            for choice in (data.get("choices") or ())[:1]:
                chunks += self._choice(choice)
            if usage := data.get("usage"):
                chunks.append(UsageChunk(_usage(usage)))
            return chunks
        except (ValueError, TypeError, AttributeError, KeyError):
            raise self._errors.malformed(payload) from None

    def end(self) -> list[Chunk]:
        """Returns the last chunks, after the server's end of the stream. Some servers never send a finish reason."""
        finish: list[Chunk] = [] if self._finished or not self.began else [Finished(FinishReason.UNKNOWN)]
        self._finished = True
        return [*self.flush(), *finish]

    def flush(self) -> list[Chunk]:
        return [*self._thinking.flush()]

    def _choice(self, choice: dict[str, Any]) -> list[Chunk]:
        # A server that does not stream sends the whole `message` instead of a `delta`.
        delta = choice.get("delta") or choice.get("message") or {}
        chunks: list[Chunk] = []
        # DeepSeek, vLLM and llama.cpp send `reasoning_content`; OpenRouter and newer vLLM send `reasoning`.
        if isinstance(thinking := delta.get("reasoning_content") or delta.get("reasoning"), str) and thinking:
            chunks.append(ThinkingDelta(thinking))
        if isinstance(content := delta.get("content"), str) and content:
            chunks += self._thinking.feed(content)
        for position, call in enumerate(delta.get("tool_calls") or ()):
            function = call.get("function") or {}
            arguments = function.get("arguments") or ""
            index = call.get("index")
            chunks.append(
                ToolCallDelta(
                    index=int(position if index is None else index),
                    call_id=str(call.get("id") or ""),
                    name=str(function.get("name") or ""),
                    arguments=arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(),
                )
            )
        if (reason := choice.get("finish_reason")) and not self._finished:
            self._finished = True
            chunks += self.flush()
            chunks.append(Finished(_FINISH_REASONS.get(reason, FinishReason.UNKNOWN)))
        return chunks


def _listed(model: dict[str, Any]) -> ListedModel:
    # OpenRouter sends `context_length`, vLLM `max_model_len`; OpenAI sends neither.
    window = model.get("context_length") or model.get("max_model_len")
    return ListedModel(id=model["id"], context_window=window if isinstance(window, int) else None)


def _usage(usage: dict[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    thinking = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Usage(
        input_tokens=int(usage.get("prompt_tokens") or 0),
        cached_input_tokens=int(cached or 0),
        thinking_token_count=int(thinking or 0),
        response_tokens=int(usage.get("completion_tokens") or 0),
    )


def _timeout(options: CallOptions) -> httpx2.Timeout:
    """Limits the time to connect; `with_timeouts` limits the rest of the call."""
    return httpx2.Timeout(None, connect=options.timeouts.connect_s)


async def _drain(blocks: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in blocks:
                pass
    except (TimeoutError, httpx2.HTTPError):
        return
