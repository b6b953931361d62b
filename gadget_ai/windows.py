"""How many tokens a model reads at once, where its provider's entry does not say."""

from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider

DEFAULT_NUM_CTX = 16_384
"""Of a model at Ollama, which is told this number. Its own default (4096) is what the prompt and the tools fill, and
half of this would leave little for the work; memory for the window grows with it."""

DEFAULT_WINDOW = 128_000
"""Of a model behind OpenAI's API: what the smaller ones of the large providers have had since 2024. One that has less
refuses the request, and the conversation is then made shorter."""


def context_window(provider: OrderProvider) -> int:
    """The window of the provider's model, in tokens; the answer has to fit into it too."""
    if provider.context_window is not None:
        return provider.context_window
    return DEFAULT_NUM_CTX if provider.sdk is ApiType.OLLAMA else DEFAULT_WINDOW
