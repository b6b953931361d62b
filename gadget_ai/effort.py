"""Detects that a model rejects the reasoning effort, which many models do. Their error then names the parameter."""

from gadget_ai.client import ModelNotice

_REJECTED = (400, 422)
"""OpenAI, vLLM and Ollama respond with 400, servers that validate requests with a schema respond with 422."""


def rejects_parameter(status: int, body: bytes, name: bytes) -> bool:
    """Returns whether the error is about the parameter `name`. A wrong guess costs one request with the same error."""
    return status in _REJECTED and name in body.lower()


def effort_rejected(model_id: str) -> ModelNotice:
    return ModelNotice(
        "effortRefused", f"{model_id} does not support a reasoning effort; it was left out. Set it to “Default”."
    )
