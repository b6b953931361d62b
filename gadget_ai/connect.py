"""From a work order's provider to a client."""

from gadget_ai.client import CallOptions, ChatClient, Timeouts
from gadget_ai.errors import LLMError
from gadget_ai.images import LoadImage, Sight
from gadget_ai.windows import context_window
from gadget_api.errors import ErrorCode
from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider


def load(sdk: ApiType) -> None:
    """What `connect` needs for this API, once for a process. Blocks for 0.3 to 0.7 s then, so it is for a thread; a
    drone that waits for work needs neither SDK."""
    match sdk:
        case ApiType.OPENAI:
            from gadget_ai.openai import tls

            tls()
        case ApiType.OLLAMA:
            from gadget_ai.ollama import tls

            tls()


def connect(
    provider: OrderProvider,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 (frozen)
    *,
    load_image: LoadImage | None = None,
) -> ChatClient:
    """A client for the provider's model. Opens no connection; whoever calls this calls `close()`. `load` comes before.

    `load_image` gives the bytes of the images in messages; it is asked only for a model that sees them. Raises
    `LLMError` for a key or a URL that cannot be sent.
    """
    key = provider.api_key or ""
    # Refused here and not by the HTTP library, which would quote it.
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise LLMError(
            ErrorCode.MODEL_AUTH, "The API key has characters that no key has, such as a line end; enter it again."
        )
    options = CallOptions(
        temperature=provider.params.temperature,
        top_p=provider.params.top_p,
        top_k=provider.params.top_k,
        effort=provider.params.effort,
        context_window=context_window(provider),
        timeouts=timeouts,
    )
    sight = Sight(provider.sees_images, load_image)
    match provider.sdk:
        case ApiType.OPENAI:
            from gadget_ai.openai import OpenAIClient

            return OpenAIClient(provider.base_url, provider.model_id, provider.api_key, options, sight)
        case ApiType.OLLAMA:
            from gadget_ai.ollama import OllamaClient

            return OllamaClient(provider.base_url, provider.model_id, provider.api_key, options, sight)
