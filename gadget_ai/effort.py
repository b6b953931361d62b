"""How much a model shall reason: the one parameter that many models refuse, and whose name they then say."""

from gadget_ai.client import ModelNotice

_REFUSALS = (400, 422)
"""OpenAI, vLLM and Ollama say 400; servers that check a request's shape by themselves say 422."""


def is_refused(status: int, body: bytes, name: bytes) -> bool:
    """Whether this answer is about the parameter `name`. A wrong guess costs one more request, which says the same."""
    return status in _REFUSALS and name in body.lower()


def refused(model_id: str) -> ModelNotice:
    return ModelNotice(
        "effortRefused", f"{model_id} takes no reasoning effort; it was asked without it. Set the effort to “Default”."
    )
