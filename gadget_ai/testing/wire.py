"""Encodes a scripted reply as bytes, in the streaming format of either API."""

from typing import Any

import orjson

from gadget_ai.client import TextDelta, ThinkingDelta, ToolCallDelta
from gadget_ai.testing.script import Reply, RequestView
from gadget_api.messages import FinishReason

CREATED = 1_760_000_000
_OPENAI_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}


class OpenAIWire:
    """The server-sent events of `/v1/chat/completions`."""

    content_type = "text/event-stream"

    def __init__(self, request: RequestView) -> None:
        self._request = request

    def delta(self, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> bytes:
        match delta:
            case TextDelta(content):
                return self._choice({"content": content})
            case ThinkingDelta(content):
                return self._choice({"reasoning_content": content})
            case ToolCallDelta(index, call_id, name, arguments):
                call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
                if name:
                    call |= {"type": "function", "function": {"name": name, "arguments": arguments}}
                if call_id:
                    call["id"] = call_id
                return self._choice({"tool_calls": [call]})

    def end(self, reply: Reply) -> bytes:
        usage = reply.usage(self._request)
        parts = []
        if reply.finish is not FinishReason.UNKNOWN:
            parts.append(self._choice({}, _OPENAI_REASONS[reply.finish]))
        parts.append(
            self._event(
                {
                    "choices": [],
                    "usage": {
                        "prompt_tokens": usage.input_tokens,
                        "completion_tokens": usage.response_tokens,
                        "total_tokens": usage.input_tokens + usage.response_tokens,
                        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
                        "completion_tokens_details": {"reasoning_tokens": usage.thinking_token_count},
                    },
                }
            )
        )
        return b"".join([*parts, b"data: [DONE]\n\n"])

    def _choice(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _event(self, document: dict[str, Any]) -> bytes:
        head = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self._request.model,
        }
        return b"data: " + orjson.dumps(head | document) + b"\n\n"


class OllamaWire:
    """The NDJSON lines of `/api/chat`. A call is sent as a whole, after its last delta."""

    content_type = "application/x-ndjson"

    def __init__(self, request: RequestView) -> None:
        self._request = request
        self._calls: list[dict[str, str]] = []

    def delta(self, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> bytes:
        match delta:
            case TextDelta(content):
                return self._calls_line() + self._line({"content": content})
            case ThinkingDelta(content):
                return self._calls_line() + self._line({"content": "", "thinking": content})
            case ToolCallDelta(_, call_id, name, arguments):
                if name:
                    self._calls.append({"id": call_id, "name": name, "arguments": arguments})
                else:
                    self._calls[-1]["arguments"] += arguments
                return b""

    def end(self, reply: Reply) -> bytes:
        usage = reply.usage(self._request)
        # Ollama sends `stop` after tool calls, too.
        reason = "length" if reply.finish is FinishReason.LENGTH else "stop"
        last = {
            "done": True,
            "done_reason": reason,
            "prompt_eval_count": usage.input_tokens,
            "prompt_eval_cached_count": usage.cached_input_tokens,
            "eval_count": usage.response_tokens,
        }
        return self._calls_line() + self._line({"content": ""}, last)

    def _calls_line(self) -> bytes:
        if not self._calls:
            return b""
        calls = []
        for call in self._calls:
            entry: dict[str, Any] = {
                "function": {"name": call["name"], "arguments": orjson.Fragment(call["arguments"])}
            }
            calls.append(entry | ({"id": call["id"]} if call["id"] else {}))
        self._calls = []
        return self._line({"content": "", "tool_calls": calls})

    def _line(self, message: dict[str, Any], last: dict[str, Any] | None = None) -> bytes:
        document = {"model": self._request.model, "created_at": "2026-01-01T00:00:00Z", "done": False}
        return orjson.dumps(document | {"message": {"role": "assistant"} | message} | (last or {})) + b"\n"
