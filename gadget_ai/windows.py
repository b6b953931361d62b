"""The context window of a model, with defaults for providers' entries without one."""

from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider

DEFAULT_NUM_CTX = 16_384
"""The default window for Ollama, sent with each request. Ollama's own default (4096) is full with the prompt and the
tools, and 8192 leaves little for the work. Ollama's memory use grows with the window."""

LIKELY_WINDOW = 128_000
"""The assumed window of a model at OpenAI's API after it has refused a conversation as too long. The smaller models of
the large providers have had this window since 2024."""

UNKNOWN_WINDOW = 1_000_000_000
"""The window of such a model before that refusal: it gets the whole conversation."""


def context_window(provider: OrderProvider) -> int:
    """Returns the context window of the provider's model in tokens. It includes the answer."""
    if provider.context_window is not None:
        return provider.context_window
    return DEFAULT_NUM_CTX if provider.sdk is ApiType.OLLAMA else UNKNOWN_WINDOW
