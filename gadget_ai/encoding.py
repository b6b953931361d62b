"""Messages as the two APIs want them. Pure: no SDK is imported here."""

import re
from typing import Any

import orjson

from gadget_ai.client import ToolSpec
from gadget_api.messages import Message, ModelMessage, ToolMessage

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def openai_message(message: Message) -> dict[str, Any]:
    """`message` in the form of OpenAI's chat completions."""
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if isinstance(message, ModelMessage) and message.tool_calls:
        return {
            "role": "assistant",
            "content": message.content or None,
            "tool_calls": [
                {
                    "id": call.call_id,
                    "type": "function",
                    # The API refuses a history with a name other than [a-zA-Z0-9_-]{1,64}, and models make some up.
                    "function": {
                        "name": _NOT_IN_A_NAME.sub("_", call.name)[:64],
                        "arguments": orjson.dumps(call.params).decode(),
                    },
                }
                for call in message.tool_calls
            ],
        }
    return {"role": message.role, "content": message.content}


def ollama_message(message: Message) -> dict[str, Any]:
    """`message` in the form of Ollama's `/api/chat`. Servers that know no call ids ignore them."""
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_name": message.name,
            "tool_call_id": message.call_id,
            "content": message.content,
        }
    if isinstance(message, ModelMessage) and message.tool_calls:
        return {
            "role": "assistant",
            "content": message.content,
            "tool_calls": [
                {"id": call.call_id, "function": {"name": call.name, "arguments": call.params}}
                for call in message.tool_calls
            ],
        }
    return {"role": message.role, "content": message.content}


def tool(spec: ToolSpec) -> dict[str, Any]:
    """`spec` in the form that both APIs share."""
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
    }
