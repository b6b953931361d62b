"""A `ChatClient` that plays a script in the same process."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import orjson

from gadget_ai.client import Chunk, Finished, Timeouts, ToolSpec, UsageChunk
from gadget_ai.encoding import openai_images, openai_message, tool_definition
from gadget_ai.errors import LLMError
from gadget_ai.images import NO_VISION, Vision
from gadget_ai.provider_errors import ProviderErrors
from gadget_ai.testing.script import Cut, HttpError, Pause, RawBytes, RequestView, Reset, Script, history_fault
from gadget_ai.watchdog import cut_off_error, with_timeouts
from gadget_api.errors import ErrorCode
from gadget_api.messages import Message, ToolMessage
from gadget_api.providers import ListedModel


class ScriptedClient:
    """Plays `script` and records the `requests`. Refuses a history with a `history_fault`."""

    def __init__(
        self,
        script: Script,
        *,
        model_id: str = "scripted",
        timeouts: Timeouts | None = None,
        vision: Vision = NO_VISION,
    ) -> None:
        self.requests: list[RequestView] = []
        self.is_closed = False
        self._script = script
        self._model_id = model_id
        self._timeouts = timeouts or Timeouts()
        self._vision = vision
        self._errors = ProviderErrors(base_url="scripted://model", model_id=model_id, api_key=None)

    def encode(self, message: Message) -> dict[str, Any]:
        return openai_message(message, self._vision)

    def encode_images(self, results: Sequence[ToolMessage]) -> dict[str, Any] | None:
        return openai_images(results, self._vision)

    def stream(self, messages: Sequence[dict[str, Any]], tools: Sequence[ToolSpec]) -> AsyncGenerator[Chunk, None]:
        return with_timeouts(self._play(list(messages), [tool_definition(spec) for spec in tools]), self._timeouts)

    async def list_models(self) -> list[ListedModel]:
        return [ListedModel(id=self._model_id)]

    async def close(self) -> None:
        self.is_closed = True

    async def _play(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> AsyncGenerator[Chunk, None]:
        body = orjson.dumps({"model": self._model_id, "tools": tools, "messages": messages})
        request = RequestView("scripted", self._model_id, messages, tools, {}, body)
        self.requests.append(request)
        if fault := history_fault(messages):
            raise LLMError(ErrorCode.MODEL_REFUSED, f"The scripted model refuses the history: {fault}.")
        reply = self._script.next(request)
        for delta in reply.deltas():
            match delta:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Cut() | Reset():
                    raise cut_off_error()
                case HttpError(status, error, headers):
                    raw = error if isinstance(error, bytes) else orjson.dumps(error)
                    raise self._errors.from_response(status, {k.lower(): v for k, v in headers.items()}, raw)
                case RawBytes(data):
                    raise self._errors.malformed(data)
                case _:
                    yield delta
        if reply.done:
            yield UsageChunk(reply.usage(request))
            yield Finished(reply.finish)
