"""Encodes messages and tools for the two APIs, without an SDK."""

import re
from collections.abc import Sequence
from typing import Any

import orjson

from gadget_ai.client import ToolSpec
from gadget_ai.images import IMAGE_GONE, NO_VISION, Vision, image_note, with_notes
from gadget_api.images import ImageRef
from gadget_api.messages import Message, ModelMessage, ToolMessage, UserMessage

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_CANNOT_SEE = "this model cannot see images"


def openai_message(message: Message, vision: Vision = NO_VISION) -> dict[str, Any]:
    """Encodes a message for OpenAI's chat completions, without the images of a tool result: the API accepts images only
    in a user message (`openai_images`)."""
    if isinstance(message, ToolMessage):
        hint = "see the message after the tool results" if vision.is_supported else _CANNOT_SEE
        content = with_notes(message.content, [image_note(image, hint) for image in message.images])
        return {"role": "tool", "tool_call_id": message.call_id, "content": content}
    if isinstance(message, ModelMessage) and message.tool_calls:
        return {
            "role": "assistant",
            "content": message.content or None,
            "tool_calls": [
                {
                    "id": call.call_id,
                    "type": "function",
                    # The API refuses a history with names other than [a-zA-Z0-9_-]{1,64}, and models invent such names.
                    "function": {
                        "name": _NOT_IN_A_NAME.sub("_", call.name)[:64],
                        "arguments": orjson.dumps(call.params).decode(),
                    },
                }
                for call in message.tool_calls
            ],
        }
    if isinstance(message, UserMessage) and message.images:
        if not vision.is_supported:
            notes = [image_note(image, _CANNOT_SEE) for image in message.images]
            return {"role": "user", "content": with_notes(message.content, notes)}
        text = [_text_part(message.content)] if message.content else []
        return {"role": "user", "content": [*text, *_image_parts(message.images, vision)]}
    return {"role": message.role, "content": message.content}


def openai_images(results: Sequence[ToolMessage], vision: Vision) -> dict[str, Any] | None:
    """Encodes a message with the images of `results`, to send directly after them; None when there are no images."""
    if not vision.is_supported:
        return None
    parts: list[dict[str, Any]] = []
    for result in results:
        if result.images:
            parts += [_text_part(f"[images of the result of {result.name}]"), *_image_parts(result.images, vision)]
    return {"role": "user", "content": parts} if parts else None


def ollama_message(message: Message, vision: Vision = NO_VISION) -> dict[str, Any]:
    """Encodes a message for Ollama's `/api/chat`. Servers without support for call ids ignore them."""
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_name": message.name,
            "tool_call_id": message.call_id,
            **_ollama_content(message, vision),
        }
    if isinstance(message, UserMessage):
        return {"role": "user", **_ollama_content(message, vision)}
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


def encoded_images(message: dict[str, Any]) -> list[str]:
    """Returns the images of an encoded message: data URLs (OpenAI's API) or base64 (Ollama's)."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [*(part["image_url"]["url"] for part in parts if part["type"] == "image_url"), *message.get("images", ())]


def image_bytes(message: dict[str, Any]) -> int:
    """Returns how many bytes of an encoded message are images."""
    return sum(map(len, encoded_images(message)))


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image_parts(images: Sequence[ImageRef], vision: Vision) -> list[dict[str, Any]]:
    parts = []
    for image in images:
        data = vision.base64(image)
        url = {"url": f"data:{image.media_type};base64,{data}"}
        parts.append(_text_part(IMAGE_GONE) if data is None else {"type": "image_url", "image_url": url})
    return parts


def _ollama_content(message: ToolMessage | UserMessage, vision: Vision) -> dict[str, Any]:
    if not vision.is_supported:
        return {"content": with_notes(message.content, [image_note(image, _CANNOT_SEE) for image in message.images])}
    loaded = [vision.base64(image) for image in message.images]
    present = [data for data in loaded if data is not None]
    content = with_notes(message.content, [IMAGE_GONE] * (len(loaded) - len(present)))
    return {"content": content, "images": present} if present else {"content": content}


def tool_definition(spec: ToolSpec) -> dict[str, Any]:
    """Encodes a tool; both APIs have the same format."""
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
    }
