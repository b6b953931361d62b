"""How many tokens a model reads at once, where its provider's entry does not say."""

from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider

DEFAULT_NUM_CTX = 16_384
"""Of a model at Ollama, which is told this number. Its own default (4096) is what the prompt and the tools fill, and
half of this would leave little for the work; memory for the window grows with it."""

LIKELY_WINDOW = 128_000
"""Of a model behind OpenAI's API that has refused a conversation as too long, and of which nobody said more: what the
smaller ones of the large providers have had since 2024."""

UNKNOWN_WINDOW = 1_000_000_000
"""Until then: it is sent everything, and says itself what is too much."""


def context_window(provider: OrderProvider) -> int:
    """The window of the provider's model, in tokens; the answer has to fit into it too."""
    if provider.context_window is not None:
        return provider.context_window
    return DEFAULT_NUM_CTX if provider.sdk is ApiType.OLLAMA else UNKNOWN_WINDOW
